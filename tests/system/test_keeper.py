"""A keeper and its program, as real processes: how a run starts, ends, and what is left of it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from stage import Stage, is_running, is_stopped, until

from tower.core.failpoint import KEEPER_NAMES
from tower.core.launch import KEEPER_PROTOCOL, StartRecord
from tower.system import keeping, procfs
from tower.system.keeper import protocol
from tower.system.keeperlink import Ending, Exited, Gone
from tower.system.keeping import KeeperLostError, StartFailedError
from tower.system.runrecords import read_exit, read_start
from tower.system.survivors import end_survivors

pytestmark = pytest.mark.anyio

ESCAPEES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for i in range(4):
    if os.fork() == 0:
        for j in range(4):
            if os.fork() == 0:
                if j < 2:
                    os.setsid()
                    if os.fork():
                        os._exit(0)
                os.close(1)
                time.sleep(60)
        time.sleep(60)
"""


def test_the_protocol_is_one_number() -> None:
    assert protocol.PROTOCOL == KEEPER_PROTOCOL


async def test_a_run_that_ends_well(stage: Stage) -> None:
    plan = stage.sh("cat; echo oops >&2; exit 0")
    link = await stage.start(plan)
    assert await stage.words(link) == [Exited(), Gone()]
    record = stage.exit(link)
    assert (record.code, record.signal, record.swept, record.left) == (0, None, True, ())
    assert (record.out_bytes, record.err_bytes, record.log_errors) == (12, 5, 0)
    assert (record.limit, record.stopping, record.start_error) == (None, None, None)
    assert record.peak_memory > 1 << 20
    assert stage.log(plan.run) == b"the payload\n"
    assert stage.log(plan.run, "stderr") == b"oops\n"
    assert read_start(plan.folder) == StartRecord(
        void=False, pid=link.pid, ticks=link.ticks, boot_id=procfs.boot_id(), protocol=KEEPER_PROTOCOL
    )
    assert not is_running(link.pid)


async def test_files_are_private_and_nothing_else_is_left(stage: Stage) -> None:
    plan = stage.sh("sleep 0.05")
    link = await stage.start(plan)
    socket = stage.sockets / plan.socket_name
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    await stage.end(link)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(plan.folder).iterdir()}
    del modes["payload.md"]
    assert modes == dict.fromkeys(("start", "exit.json", "stdout.log", "stderr.log"), 0o600)
    assert list(stage.sockets.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 7", 7, None), ("kill -9 $$", None, signal.SIGKILL), ("kill -TERM $$", None, signal.SIGTERM)],
)
async def test_how_it_ended_is_recorded(stage: Stage, script: str, code: int | None, number: int | None) -> None:
    record = await stage.run(stage.sh(script))
    assert (record.code, record.signal) == (code, number)


async def test_cpu_time_of_the_whole_tree_is_recorded(stage: Stage) -> None:
    record = await stage.run(
        stage.python("import os\nif os.fork():\n os.wait()\nelse:\n for i in range(3000000): pass")
    )
    assert 0.02 < record.cpu_seconds < 5


async def test_the_environment_is_exactly_what_was_planned(stage: Stage) -> None:
    plan = stage.plan("/usr/bin/env", "-0")
    given = {"A": "1", "EMPTY": "", "TWO LINES": "a\nb", "BYTES": "\udcff\udcfe", "LAYOVER_RUN_ID": plan.run}
    await stage.run(replace(plan, env=given))
    shown = dict(pair.split(b"=", 1) for pair in stage.log(plan.run).split(b"\0")[:-1])
    assert shown == {os.fsencode(name): os.fsencode(value) for name, value in given.items()}


async def test_the_program_starts_as_one_started_by_hand(stage: Stage) -> None:
    """Own session, no extra descriptor, default signals, the umask and limit of the plan; nothing of the keeper's."""
    plan = stage.plan("sh", "-c", "umask; ulimit -n; ls /proc/self/fd; cat /proc/self/status", descriptor_limit=200)
    link = await stage.start(plan)
    await stage.end(link)
    umask, limit, *descriptors = stage.log(plan.run).split()[:6]
    assert (umask, limit, descriptors) == (b"0022", b"200", [b"0", b"1", b"2", b"3"])  # 3 is the folder that ls reads
    status = stage.log(plan.run).decode()
    assert "SigIgn:\t0000000000000000" in status
    assert "SigBlk:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


async def test_it_leads_a_session_of_its_own(stage: Stage) -> None:
    link = await stage.start(stage.plan("sleep", "60"))
    assert procfs.session(link.agent_pid) == link.agent_pid
    assert procfs.parent(link.agent_pid) == link.pid
    assert procfs.start_ticks(link.agent_pid) == link.agent_ticks
    await link.stop("cancelled", 0)
    await stage.end(link)


@pytest.mark.parametrize(
    ("argv", "changes", "step", "words"),
    [
        (("no-such-program-here",), {}, "exec", "ENOENT"),
        (("./payload-less",), {}, "exec", "ENOENT"),
        (("./not-executable",), {}, "exec", "EACCES"),
        (("./not-a-program",), {}, "exec", "ENOEXEC"),
        (("true", "x" * 200_000), {}, "exec", "E2BIG"),
        (("true",), {"cwd": "/no/such/folder"}, "cwd", "ENOENT"),
        (("true",), {"payload": None}, "payload", "ENOENT"),
        (("true",), {"socket_name": "n" * 120}, "socket", "AF_UNIX path too long"),
    ],
)
async def test_a_start_that_fails_says_where_and_leaves_nothing(
    stage: Stage, argv: tuple[str, ...], changes: dict[str, str], step: str, words: str
) -> None:
    """B015: the part of a keeper."""
    odd = stage.root / "not-a-program"
    odd.write_text("\1\2\3")
    odd.chmod(0o755)
    (stage.root / "not-executable").touch(0o644)
    plan = stage.plan(*argv, **changes)
    with pytest.raises(StartFailedError) as caught:
        await stage.start(plan)
    assert caught.value.step == step
    assert words in caught.value.detail
    record = read_exit(plan.folder)
    assert record is not None
    assert (record.code, record.signal, record.swept) == (None, None, True)
    assert (record.start_error or "").startswith(f"{step}: ")
    assert list(stage.sockets.iterdir()) == []
    assert not stage.alive()


async def test_a_run_folder_that_is_missing(stage: Stage) -> None:
    plan = stage.plan("true", folder=str(stage.root / "nowhere"))
    with pytest.raises(StartFailedError, match="start: ENOENT"):
        await stage.start(plan)


async def test_a_prompt_of_three_megabytes_that_nobody_reads(stage: Stage) -> None:
    record = await stage.run(stage.sh("exit 0", payload=b"x" * (3 << 20)))
    assert record.code == 0


async def test_standard_input_ends_at_once(stage: Stage) -> None:
    """B027: after three megabytes of prompt as after none."""
    plan = stage.sh("cat | wc -c; cat", payload=b"x" * (3 << 20))
    await stage.run(plan)
    assert stage.log(plan.run) == b"3145728\n"


async def test_what_the_program_leaves_running_is_ended(stage: Stage) -> None:
    """B004: double forks, own sessions, TERM ignored, the pipe held open: all gone soon after the program."""
    plan = stage.python(ESCAPEES + "print('ready', flush=True)\nos._exit(0)")
    link = await stage.start(plan)
    began = anyio.current_time()
    words = await stage.words(link)
    assert Exited() in words
    assert words[-1] == Gone()
    assert anyio.current_time() - began < 3
    assert stage.exit(link).swept
    assert not stage.alive()


async def test_a_polite_end_of_what_is_left_comes_first(stage: Stage) -> None:
    plan = stage.sh(
        """(trap 'echo leaving; exit' TERM; echo ready; while :; do sleep 0.02; done) & sleep 0.2; exit 3"""
    )
    record = await stage.run(plan)
    assert record.code == 3
    assert stage.log(plan.run) == b"ready\nleaving\n"


async def test_a_grandchild_that_holds_the_pipe_is_not_waited_for(stage: Stage) -> None:
    """B023: end of file may never come."""
    plan = stage.sh("trap '' TERM; sleep 600 & echo last words; exit 0", linger=0.2)
    began = anyio.current_time()
    record = await stage.run(plan)
    assert anyio.current_time() - began < 2
    assert record.swept
    assert stage.log(plan.run) == b"last words\n"


async def test_the_exit_is_recorded_before_what_is_left_has_ended(stage: Stage) -> None:
    plan = stage.sh("trap '' TERM; sleep 600 & exit 4", linger=1)
    link = await stage.start(plan)
    await until(lambda: read_exit(plan.folder))
    record = stage.exit(link)
    assert (record.code, record.swept) == (4, False)
    assert link.is_alive
    assert (await stage.end(link)).swept


async def test_closing_its_output_is_not_the_end(stage: Stage) -> None:
    plan = stage.sh("exec >&- 2>&-; sleep 0.3; exit 5")
    began = anyio.current_time()
    record = await stage.run(plan)
    assert record.code == 5
    assert anyio.current_time() - began >= 0.3


async def test_a_stop_is_polite_and_judged_by_its_word(stage: Stage) -> None:
    plan = stage.sh("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.02; done")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await link.stop("cancelled", 5)
    words = await stage.words(link)
    assert [word for word in words if isinstance(word, Ending)] == [Ending(why="cancelled")]
    record = stage.exit(link)
    assert (record.code, record.stopping, record.limit) == (9, "cancelled", None)
    assert stage.log(plan.run) == b"ready\nbye\n"


async def test_the_last_line_is_kept_however_slowly_it_comes(stage: Stage) -> None:
    """B002: the line comes 1.5 s after the polite signal."""
    plan = stage.sh("trap 'sleep 1.5; echo last line; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await link.stop("halted", 5)
    assert (await stage.end(link)).code == 0
    assert stage.log(plan.run) == b"ready\nlast line\n"


async def test_the_group_hears_of_it_two_seconds_later(stage: Stage) -> None:
    """Here the program waits for a child and hears nothing itself: the wrapper of some agent programs."""
    plan = stage.python(
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        " signal.signal(signal.SIGTERM, lambda *_: (print('child heard', flush=True), os._exit(0)))\n"
        " print('ready', flush=True)\n time.sleep(60)\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "os.wait(); os._exit(0)"
    )
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    began = anyio.current_time()
    await link.stop("stop", 10)
    assert (await stage.end(link)).code == 0
    assert 1.9 < anyio.current_time() - began < 4
    assert stage.log(plan.run) == b"ready\nchild heard\n"


async def test_what_ignores_the_polite_signal_is_killed_after_the_grace(stage: Stage) -> None:
    plan = stage.python(ESCAPEES + "print('ready', flush=True)\ntime.sleep(60)")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    began = anyio.current_time()
    await link.stop("cancelled", 0.3)
    record = await stage.end(link)
    assert 0.3 <= anyio.current_time() - began < 3
    assert (record.signal, record.stopping, record.swept) == (signal.SIGKILL, "cancelled", True)
    assert not stage.alive()


async def test_a_chain_whose_middle_goes_first(stage: Stage) -> None:
    """B005: npm, sh, node: the middle dies of TERM at once, the bottom ignores it."""
    plan = stage.sh(
        "trap 'wait; exit 0' TERM; "
        """sh -c 'sh -c "trap \\"\\" TERM; echo ready; while :; do sleep 0.02; done" & wait' & wait"""
    )
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await link.stop("cancelled", 0.3)
    assert (await stage.end(link)).swept
    assert not stage.alive()


async def test_many_runs_cancelled_leave_nothing(stage: Stage) -> None:
    """B001: by the keeper alone; through a tower in `tests/e2e/test_processes.py`."""

    async def one() -> None:
        link = await stage.start(stage.sh("for i in 1 2 3; do setsid sleep 60 & done; echo ready; wait"))
        await stage.printed(link.run, b"ready")
        await link.stop("cancelled", 5)
        assert (await stage.end(link)).swept

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)
    assert not stage.alive()


async def test_a_second_stop_may_only_be_quicker(stage: Stage) -> None:
    plan = stage.sh("trap '' TERM; echo ready; while :; do sleep 0.02; done")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await link.stop("stop", 30)
    await link.stop("cancelled", 0)
    await link.stop("cancelled", 60)
    with anyio.fail_after(3):
        record = await stage.end(link)
    assert record.stopping == "stop"


async def test_a_stopped_program_is_woken_to_hear_it(stage: Stage) -> None:
    plan = stage.sh("trap 'echo woken; exit 0' TERM; echo ready; kill -STOP $$; sleep 1")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await until(lambda: is_stopped(link.agent_pid))
    await link.stop("cancelled", 5)
    assert (await stage.end(link)).code == 0
    assert stage.log(plan.run) == b"ready\nwoken\n"


async def test_a_stop_after_the_exit_only_hurries(stage: Stage) -> None:
    plan = stage.sh("trap '' TERM; sleep 600 & exit 4", linger=30)
    link = await stage.start(plan)
    await until(lambda: read_exit(plan.folder))
    await link.stop("cancelled", 0)
    with anyio.fail_after(3):
        record = await stage.end(link)
    assert (record.code, record.stopping) == (4, None)


async def test_a_fork_bomb_is_ended(stage: Stage) -> None:
    """Twenty chains in which each process starts its successor and ends, so that no list of them is ever true."""
    plan = stage.python(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "for i in range(20):\n"
        " if os.fork() == 0:\n"
        "  os.setsid()\n"
        "  while True:\n"
        "   if os.fork(): os._exit(0)\n"
        "   time.sleep(0.001)\n"
        "time.sleep(60)"
    )
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await link.stop("cancelled", 0)
    with anyio.fail_after(10):
        record = await stage.end(link)
    assert record.swept
    assert not stage.alive()


async def test_signals_to_the_keeper_change_nothing(stage: Stage) -> None:
    plan = stage.sh("sleep 0.3; exit 6")
    link = await stage.start(plan)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(link.pid, number)
    assert (await stage.end(link)).code == 6


async def test_an_idle_keeper_sleeps(stage: Stage) -> None:
    link = await stage.start(stage.plan("sleep", "60", stall=30.0, orphan=30.0))

    def wakings() -> int:
        status = Path(f"/proc/{link.pid}/status").read_text()
        return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    await anyio.sleep(0.2)
    before = wakings()
    await anyio.sleep(2.1)
    assert wakings() - before <= 4
    await link.stop("cancelled", 0)
    await stage.end(link)


@pytest.mark.parametrize("name", KEEPER_NAMES)
async def test_a_keeper_killed_at_any_step_leaves_a_state_that_can_be_told(stage: Stage, name: str) -> None:
    plan = stage.sh(f"echo x >> {stage.root}/ran; sleep 0.1; sleep 60 & exit 3", failpoints={name: "kill"})
    try:
        link = await stage.start(plan)
    except KeeperLostError:
        assert name in ("keeper.start-before", "keeper.start-after", "keeper.forked")
    else:
        await stage.words(link)
    start, record = read_start(plan.folder), read_exit(plan.folder)
    place = KEEPER_NAMES.index(name)
    assert (start is not None) == (place >= KEEPER_NAMES.index("keeper.start-after"))
    assert (record is not None) == (place >= KEEPER_NAMES.index("keeper.exit-after"))
    assert record is None or record.code == 3
    assert await end_survivors(plan.run) == ()
    assert not stage.alive()
    assert (stage.root / "ran").exists() or place < KEEPER_NAMES.index("keeper.exit-before")


async def test_a_keeper_frozen_at_a_step_goes_on(stage: Stage) -> None:
    plan = stage.sh("exit 3", failpoints={"keeper.exit-before": "stop"})
    link = await stage.start(plan)
    await until(lambda: is_stopped(link.pid))
    assert read_exit(plan.folder) is None
    os.kill(link.pid, signal.SIGCONT)
    assert (await stage.end(link)).code == 3


@pytest.fixture
def copied(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package that keepers of this test are started from."""
    copy = stage.root / "copy"
    shutil.copytree(Path(keeping.ROOT, "tower"), copy / "tower", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(keeping, "ROOT", str(copy))
    return copy / "tower/system/keeper"


def alter(module: Path, before: str, after: str) -> None:
    text = module.read_text()
    assert before in text
    module.write_text(text.replace(before, after))


async def test_the_package_may_be_replaced_under_it(stage: Stage, copied: Path) -> None:
    plan = stage.python(ESCAPEES + "print('ready', flush=True)\ntime.sleep(60)")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    shutil.rmtree(copied.parent.parent)
    await link.stop("cancelled", 0.2)
    record = await stage.end(link)
    assert (record.stopping, record.swept) == ("cancelled", True)
    assert not stage.alive()


async def test_what_cannot_be_ended_is_reported_and_left(stage: Stage, copied: Path) -> None:
    """No process here is beyond a signal, so this keeper does not know how to kill."""
    alter(copied / "tree.py", "_signal(pid, signal.SIGKILL)", "pass")
    alter(copied / "ending.py", "GIVE_UP_AFTER: Final = 10.0", "GIVE_UP_AFTER = 0.3")
    plan = stage.sh("trap '' TERM; sleep 60 & exit 3", linger=0.1)
    record = await stage.run(plan)
    assert (record.code, record.swept) == (3, False)
    assert len(record.left) == 1
    assert set(record.left) == set(stage.alive())
    assert await end_survivors(plan.run) == ()
    assert not stage.alive()


async def test_a_defect_of_the_keeper_ends_the_run_and_is_named(stage: Stage, copied: Path) -> None:
    alter(copied / "ending.py", "is_first = self.why is None", "is_first = secret_value")
    plan = stage.python(ESCAPEES + "print('ready', flush=True)\ntime.sleep(60)")
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await link.stop("cancelled", 5)
    await stage.words(link)
    assert read_exit(plan.folder) is None
    assert not stage.alive()
    note = Path(plan.folder, "keeper.error").read_text()
    assert note.startswith("NameError at ")
    assert "ending.py:" in note


def test_it_imports_nothing_heavy() -> None:
    code = f"import sys; sys.path.append({keeping.ROOT!r}); import tower.system.keeper.main; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(shown.stdout.split())
    assert not loaded & {"signal", "enum", "re", "json", "socket", "subprocess", "ctypes", "typing", "dataclasses"}
    assert not loaded & {"collections", "functools", "contextlib", "pathlib", "logging", "asyncio", "threading"}
