"""What walls hold, tried with real keepers and the real kernel; what a machine does not allow is skipped, and why."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from stage import Stage

from tower.core.confinement import Abilities, Confinement, Mechanism
from tower.core.launch import Overlay, Walls
from tower.system import sandbox
from tower.system.keeping import StartFailedError
from tower.system.sandbox import Surroundings, abilities, walls

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def can(tmp_path_factory: pytest.TempPathFactory) -> Abilities:
    return abilities(os.environ["PATH"], str(tmp_path_factory.mktemp("scratch")))


@pytest.fixture
def bubblewrap(can: Abilities) -> Abilities:
    if not can.has_bubblewrap:
        pytest.skip(f"bubblewrap cannot be had here: {can.no_bubblewrap}")
    return can


@pytest.fixture
def overlay(bubblewrap: Abilities) -> Abilities:
    if bubblewrap.no_overlay:
        pytest.skip(f"no overlay can be mounted here: {bubblewrap.no_overlay}")
    return bubblewrap


@pytest.fixture
def landlock(can: Abilities) -> Abilities:
    if not can.has_landlock:
        pytest.skip(f"Landlock cannot be had here: {can.no_landlock}")
    return can


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A small world: a state folder with a secret, a live tree, a workspace, and what belongs to a run."""
    for name in ("state/door", "live", "work", "run/out", "run/tmp", "home/.tool", "home/other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "state/tower.db").write_text("secret")
    (tmp_path / "live/a.txt").write_text("one\n")
    return tmp_path


def around(place: Path, **changes: object) -> Surroundings:
    values: dict[str, object] = {
        "home": str(place / "home"),
        "hidden": (str(place / "state"),),
        "socket": str(place / "state/tower.sock"),
        "readable": (str(place / "state/door"), str(place / "live")),
        "writable": (str(place / "work"), str(place / "run/out"), str(place / "run/tmp")),
        "tmp": str(place / "run/tmp"),
        "cwd": str(place / "work"),
    }
    return Surroundings(**values | changes)  # type: ignore[arg-type]


def held(mechanism: Mechanism, **changes: object) -> Confinement:
    return Confinement(mechanism=mechanism, home_writable=(".tool",), **changes)  # type: ignore[arg-type]


async def told(stage: Stage, place: Path, put_up: Walls | None, script: str, **changes: object) -> list[str]:
    """The lines that a script prints behind walls."""
    plan = stage.plan("sh", "-c", script, walls=put_up, cwd=str(place / "work"), **changes)
    record = await stage.run(plan)
    assert record.start_error is None
    return stage.log(plan.run).decode().splitlines()


TRY = 'try() { if ( echo x > "$1" ) 2>/dev/null; then echo "$2 written"; else echo "$2 refused"; fi; }; '


def attempts(place: Path) -> str:
    return TRY + "; ".join(
        f"try {place}/{name} {name}"
        for name in ("live/a.txt", "live/new", "work/new", "run/out/report", "home/.tool/x", "home/other/x")
    )


WRITTEN = [
    "live/a.txt refused",
    "live/new refused",
    "work/new written",
    "run/out/report written",
    "home/.tool/x written",
    "home/other/x refused",
]


async def test_bubblewrap_lets_it_write_to_its_own_places_alone(
    stage: Stage, place: Path, bubblewrap: Abilities
) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP), around(place), bubblewrap.bubblewrap)
    assert await told(stage, place, put_up, attempts(place)) == WRITTEN
    assert (place / "live/a.txt").read_text() == "one\n"
    assert (place / "work/new").read_text() == "x\n"


async def test_landlock_lets_it_write_to_its_own_places_alone(stage: Stage, place: Path, landlock: Abilities) -> None:
    put_up = walls(held(Mechanism.LANDLOCK), around(place), None)
    assert await told(stage, place, put_up, attempts(place)) == WRITTEN
    assert (place / "live/a.txt").read_text() == "one\n"
    lines = await told(
        stage, place, put_up, f"truncate -s 0 {place}/live/a.txt; rm {place}/live/a.txt; mv {place}/live {place}/work/"
    )
    assert lines == []
    assert (place / "live/a.txt").read_text() == "one\n"


async def test_landlock_closes_the_environment_of_others(stage: Stage, place: Path, landlock: Abilities) -> None:
    put_up = walls(held(Mechanism.LANDLOCK), around(place), None)
    # Root may read everything; without its capabilities it is like any other user.
    humble = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    with subprocess.Popen([*humble, "sleep", "1000"]) as other:  # noqa: ASYNC220 - it costs less than a test
        try:
            words = " ".join(humble)
            script = f"{words} cat /proc/{other.pid}/environ >/dev/null 2>&1 && echo read || echo closed"
            assert await told(stage, place, None, script) == ["read"]
            assert await told(stage, place, put_up, script) == ["closed"]
        finally:
            other.kill()


async def test_bubblewrap_hides_state_and_the_processes_of_others(
    stage: Stage, place: Path, bubblewrap: Abilities
) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP), around(place), bubblewrap.bubblewrap)
    script = f"ls {place}/state; echo --; test -e /proc/{os.getpid()}/environ && echo seen; ls /proc | grep -c '^[0-9]'"
    lines = await told(stage, place, put_up, script)
    assert lines[:2] == ["door", "--"]
    assert int(lines[2]) < 8


async def test_bubblewrap_gives_a_tmp_of_its_own(stage: Stage, place: Path, bubblewrap: Abilities) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP), around(place), bubblewrap.bubblewrap)
    name = f"tower-test-{os.getpid()}"
    assert await told(stage, place, put_up, f"echo x > /tmp/{name}; cat /tmp/{name}") == ["x"]
    assert (place / "run/tmp" / name).exists()
    assert not Path("/tmp", name).exists()


async def test_without_network_there_is_none(stage: Stage, place: Path, bubblewrap: Abilities) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP, network=False), around(place), bubblewrap.bubblewrap)
    assert await told(stage, place, put_up, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '") == ["lo"]


async def test_an_overlay_is_written_to_a_layer_of_its_own(stage: Stage, place: Path, overlay: Abilities) -> None:
    frozen, mine = place / "froz,en:1", place / "mine"
    (frozen / "below").mkdir(parents=True)
    (frozen / "a.txt").write_text("frozen\n")
    for name in ("upper", "work", "tree"):
        (mine / name).mkdir(parents=True)
    layer = Overlay(lower=str(frozen), upper=str(mine / "upper"), work=str(mine / "work"), at=str(mine / "tree"))
    where = around(
        place, overlay=layer, cwd=str(mine / "tree/below"), hidden=(str(place / "state"), str(mine)), writable=()
    )
    put_up = walls(held(Mechanism.BUBBLEWRAP), where, overlay.bubblewrap)
    script = "pwd; cat ../a.txt; echo changed > ../a.txt; rm -r ../below; echo new > ../new; cat ../a.txt; ls .."
    lines = await told(stage, place, put_up, script)
    assert lines == [f"{mine}/tree/below", "frozen", "changed", "a.txt", "new"]
    assert sorted(path.name for path in frozen.iterdir()) == ["a.txt", "below"]
    assert (frozen / "a.txt").read_text() == "frozen\n"
    assert (mine / "upper/new").read_text() == "new\n"
    assert list((mine / "tree").iterdir()) == []


async def test_the_polite_signal_goes_to_the_program_inside(stage: Stage, place: Path, bubblewrap: Abilities) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP), around(place), bubblewrap.bubblewrap)
    script = "trap 'echo heard; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    plan = stage.plan("sh", "-c", script, walls=put_up, cwd=str(place / "work"))
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    with anyio.fail_after(1.5):  # before the whole group is asked
        await link.stop("cancelled", 5)
        record = await stage.end(link)
    assert stage.log(plan.run).decode().splitlines() == ["ready", "heard"]
    assert (record.code, record.stopping, record.swept) == (7, "cancelled", True)


async def test_nothing_of_it_outlives_the_program(stage: Stage, place: Path, bubblewrap: Abilities) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP), around(place), bubblewrap.bubblewrap)
    plan = stage.plan("sh", "-c", "setsid sleep 1000 & echo done", walls=put_up, cwd=str(place / "work"))
    record = await stage.run(plan)
    assert (record.code, record.swept, record.left) == (0, True, ())


async def test_an_exit_by_a_signal_is_seen(stage: Stage, place: Path, bubblewrap: Abilities) -> None:
    put_up = walls(held(Mechanism.BUBBLEWRAP), around(place), bubblewrap.bubblewrap)
    record = await stage.run(stage.plan("sh", "-c", "kill -9 $$", walls=put_up, cwd=str(place / "work")))
    assert (record.code, record.signal) == (None, signal.SIGKILL)


async def test_walls_that_cannot_be_put_up_are_a_failed_start(stage: Stage, place: Path, overlay: Abilities) -> None:
    missing = Overlay(lower="/nowhere", upper="/nowhere", work="/nowhere", at="/nowhere")
    plan = stage.plan("true", walls=Walls(prefix=("bwrap",), overlay=missing))
    with pytest.raises(StartFailedError, match="sandbox"):
        await stage.start(plan)


async def test_no_walls_are_none(place: Path) -> None:
    assert walls(held(Mechanism.NONE), around(place), None) is None


def test_landlock_spares_the_common_tmp_when_something_of_ours_lies_there() -> None:
    away = Surroundings(
        home="/h", hidden=("/s",), socket="/s/t", readable=("/live",), writable=("/w",), tmp="/t", cwd="/w"
    )
    assert (walls(held(Mechanism.LANDLOCK), away, None) or Walls()).landlock == (
        "/dev",
        "/tmp",
        "/var/tmp",
        "/w",
        "/h/.tool",
    )
    near = replace(away, hidden=("/tmp/s",), socket="/tmp/s/t")
    assert "/tmp" not in ((walls(held(Mechanism.LANDLOCK), near, None) or Walls()).landlock or ())


def test_what_cannot_be_tried_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abilities("", str(tmp_path)).no_bubblewrap == "the program bwrap is not installed"
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    found = abilities(str(tmp_path), str(tmp_path))
    assert found.no_bubblewrap == found.no_overlay == "bwrap: No permissions to create new namespace"
    monkeypatch.setattr(sandbox, "landlock_abi", lambda: 2)
    assert abilities("", str(tmp_path)).no_landlock == "the kernel has ABI 2, and before 3 truncating is not covered"
    monkeypatch.setattr(sandbox, "landlock_abi", lambda: 0)
    assert not abilities("", str(tmp_path)).has_landlock
