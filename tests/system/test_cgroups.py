"""Control groups of runs: what is given to a tower, what a keeper makes of it, and that nothing depends on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cgroup import group
from stage import Stage, is_running, until

from tower.system import cgroups, procfs
from tower.system.survivors import end_survivors

ESCAPES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execve("/bin/sleep", ["sleep", "600"], {})
print("ready", flush=True)
time.sleep(600)
"""

BOMB = """
import os
for _ in range(7):
    os.fork()
while True:
    try:
        os.fork() or os._exit(0)
    except OSError:
        pass
"""


async def settled(path: Path) -> set[int]:
    """The program and the three that have left it, once those that forked them are gone."""

    def sleepers() -> set[int]:
        found = set(cgroups.members(str(path)))
        return {pid for pid in found if procfs.cmdline(pid) == ["sleep", "600"]}

    await until(lambda: len(sleepers()) == 3 and len(set(cgroups.members(str(path)))) == 4)
    return set(cgroups.members(str(path)))


@pytest.fixture
def given() -> Iterator[Path]:
    with group() as made:
        yield made


@pytest.mark.anyio
async def test_the_program_and_all_that_it_starts_are_in_it_and_the_keeper_is_not(stage: Stage, given: Path) -> None:
    path = given / "tower-RUN"
    link = await stage.start(stage.python(ESCAPES, cgroup=str(path), linger=0.1))
    assert link.is_grouped
    inside = await settled(path)
    assert inside == {pid for pid in procfs.descendants(link.pid) if is_running(pid)}
    await link.stop("cancelled", 0.1)
    record = await stage.end(link)
    assert (record.swept, record.stopping) == (True, "cancelled")
    assert not any(map(is_running, inside))
    assert not path.exists()


@pytest.mark.anyio
async def test_a_fork_bomb_in_it_is_ended(stage: Stage, given: Path) -> None:
    path = given / "tower-RUN"
    link = await stage.start(stage.python(BOMB, cgroup=str(path), linger=0))
    await until(lambda: len(list(cgroups.members(str(path)))) > 50)
    await link.stop("cancelled", 0)
    assert (await stage.end(link)).swept
    assert not path.exists()


@pytest.mark.anyio
async def test_groups_that_the_program_makes_in_it_go_with_it(stage: Stage, given: Path) -> None:
    path = given / "tower-RUN"
    script = f"mkdir -p {path}/a/b; echo $$ > {path}/a/b/cgroup.procs; sleep 600 & exit 0"
    link = await stage.start(stage.sh(script, cgroup=str(path), linger=0))
    record = await stage.end(link)
    assert (record.code, record.swept) == (0, True)
    assert not path.exists()


@pytest.mark.anyio
@pytest.mark.parametrize("parent", ["missing", "file"])
async def test_where_none_can_be_made_the_run_goes_the_same_way(stage: Stage, parent: str) -> None:
    (stage.root / "file").touch()
    link = await stage.start(stage.python(ESCAPES, cgroup=str(stage.root / parent / "tower-RUN"), linger=0.1))
    assert not link.is_grouped
    await stage.printed(link.run, b"ready")
    inside = procfs.descendants(link.pid)
    await link.stop("cancelled", 0.1)
    record = await stage.end(link)
    assert record.swept
    assert not any(map(is_running, inside))


@pytest.mark.anyio
async def test_a_folder_that_is_no_control_group_is_left_as_it_was(stage: Stage) -> None:
    path = stage.root / "tower-RUN"
    link = await stage.start(stage.sh("exit 3", cgroup=str(path)))
    record = await stage.end(link)
    assert (record.code, link.is_grouped, path.exists()) == (3, False, False)


@pytest.mark.anyio
async def test_one_that_no_process_can_be_put_into_is_done_without(stage: Stage, given: Path) -> None:
    """Below a threaded group one can be made, and takes no process."""
    path = given / "tower-RUN"
    (given / "cgroup.type").write_text("threaded")
    link = await stage.start(stage.sh("echo on", cgroup=str(path)))
    record = await stage.end(link)
    assert (record.code, link.is_grouped, path.exists()) == (0, False, False)


@pytest.mark.anyio
async def test_what_a_killed_keeper_leaves_is_found_by_it_whatever_it_has_shed(stage: Stage, given: Path) -> None:
    path = given / "tower-RUN"
    link = await stage.start(stage.python(ESCAPES, cgroup=str(path)))
    inside = await settled(path)
    os.kill(link.pid, signal.SIGKILL)
    await stage.words(link)
    assert all(map(is_running, inside)), "nobody has ended them"
    # Neither by the environment nor by the session: only the group tells.
    assert await end_survivors("run_of_nobody", None, str(path)) == ()
    assert not any(map(is_running, inside))
    assert not path.exists()


def test_one_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert list(cgroups.members(gone)) == []
    cgroups.kill(gone)
    cgroups.discard(gone)


ASK = "from tower.system.cgroups import delegated; print(delegated())"


def asked_in(folder: Path) -> str:
    """What a process in this group takes for given to it."""
    argv = ["sh", "-c", 'read go; exec "$@"', "sh", sys.executable, "-c", ASK]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        (folder / "cgroup.procs").write_text(str(process.pid))
        out, _ = process.communicate("go\n")
    return out.strip()


def test_only_what_somebody_gave_away_is_touched(given: Path) -> None:
    assert asked_in(given) == "None", "root could make groups here, and nobody said that it may"
    os.setxattr(given, "trusted.delegate", b"1")
    assert asked_in(given) == str(given)
    inner = given / "main"
    inner.mkdir()
    assert asked_in(inner) == str(inner), "a subgroup of what was given away"
    (given / "cgroup.max.descendants").write_text("1")
    assert asked_in(given) == "None", "tried, and refused"
