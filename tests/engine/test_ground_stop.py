"""The kill switch: engaged and released by verb and by hand, on a full disk, and with anything in its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tower.core.errors import BusyError, ConflictError
from tower.core.states import HeldReason
from tower.engine import ground_stop, holds
from tower.engine.ground_stop import LOOK_SEC
from tower.system import standing_order

from .scripted import EPOCH, Scene, agent, idle, later

pytestmark = pytest.mark.anyio

CODER = agent("coder")
WATCHED = [ground_stop.watch, holds.watch]


async def test_engaged_it_ends_what_runs_holds_what_waits_and_lets_nothing_start(scene: Scene) -> None:
    async with scene.tower(CODER, max_concurrent_runs=1, also=WATCHED) as tower:
        runs, waits = await scene.send("coder"), await scene.send("coder")
        keeper = await scene.keeper(runs)
        await ground_stop.engage(tower, by="ann", why="it smells of smoke")
        sent = await scene.send("coder")
        assert keeper.asked == ["halted"]
        assert (await scene.flight(runs)).state == "halted"
        for flight in (waits, sent):
            held = await scene.flight(flight)
            assert (held.state, held.held_reason) == ("held", HeldReason.GROUND_STOP)
            assert "engaged by ann: it smells of smoke; `tower ground-stop off`" in (held.reason or "")
        await later(1000)
        assert tower.live == {}


async def test_what_waits_is_held_at_once_although_what_runs_takes_its_time(scene: Scene) -> None:
    async with scene.tower(CODER, max_concurrent_runs=1, also=WATCHED) as tower:
        runs, waits = await scene.send("coder"), await scene.send("coder")
        (await scene.keeper(runs)).is_deaf = True
        await ground_stop.engage(tower, by="ann", why="")
        await idle()
        assert (await scene.flight(runs)).state == "running"
        assert (await scene.flight(waits)).state == "held"


async def test_released_what_was_held_goes_on_and_what_was_ended_does_not(scene: Scene) -> None:
    async with scene.tower(CODER, max_concurrent_runs=1, also=WATCHED) as tower:
        ended, held = await scene.send("coder"), await scene.send("coder")
        await ground_stop.engage(tower, by="ann", why="")
        await later(10)
        await ground_stop.release(tower)
        await later(1000)
        assert (await scene.flight(ended)).state == "halted"
        assert (await scene.flight(held)).state == "running"
        assert tower.ground_stop is None
        types = [event.type for event in await scene.events()]
        assert (types.count("ground-stop.on"), types.count("ground-stop.off")) == (1, 1)


async def test_engaging_twice_keeps_the_first_and_releasing_twice_is_fine(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        await ground_stop.engage(tower, by="ann", why="first")
        await later(5)
        await ground_stop.engage(tower, by="bob", why="second")
        assert tower.ground_stop == ground_stop.read(tower)
        assert tower.ground_stop is not None
        assert (tower.ground_stop.since, tower.ground_stop.by, tower.ground_stop.why) == (EPOCH, "ann", "first")
        await ground_stop.release(tower)
        await ground_stop.release(tower)
        assert ground_stop.read(tower) is None
        assert [event.type for event in await scene.events()] == ["ground-stop.on", "ground-stop.off"]


async def test_a_file_made_by_hand_is_seen_within_a_second_and_so_is_its_end(scene: Scene) -> None:
    async with scene.tower(CODER, also=WATCHED):
        flight = await scene.send("coder")
        scene.state.ground_stop.touch()
        await later(LOOK_SEC)
        assert (await scene.flight(flight)).state == "halted"
        held = await scene.send("coder")
        scene.state.ground_stop.unlink()
        await later(LOOK_SEC)
        assert (await scene.flight(held)).state == "running"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", ""),
        ("the server room is on fire\n", "the server room is on fire"),
        ("[1, 2]", "[1, 2]"),
        ('"text"', '"text"'),
        ('{"since": 1}', '{"since": 1}'),
        ('{"since": NaN, "by": "x", "why": "y"}', "y"),
        ('{"since": 1e300, "by": "x", "why": "y"}', "y"),
        ('{"since": "soon", "by": "x", "why": "y"}', "y"),
        ("[" * 5000, "[" * 200),
        ("\udcff\udcfe", "��"),
    ],
    ids=["empty", "words", "list", "string", "half", "nan", "huge", "no number", "deep", "no text"],
)
async def test_whatever_stands_in_the_file_it_engages(scene: Scene, content: str, why: str) -> None:
    scene.state.ground_stop.write_bytes(content.encode(errors="surrogateescape"))
    os.utime(scene.state.ground_stop, (EPOCH - 60, EPOCH - 60))
    async with scene.tower(CODER, also=WATCHED) as tower:
        assert tower.ground_stop is not None
        assert tower.ground_stop.why == why
        assert tower.ground_stop.since == EPOCH - 60
        assert (await scene.flight(await scene.send("coder"))).held_reason == HeldReason.GROUND_STOP


async def test_a_long_reason_comes_back_whole(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        await ground_stop.engage(tower, by="ann", why="𝔣" * 2000)
        said = ground_stop.read(tower)
        assert said is not None
        assert (said.by, said.why) == ("ann", "𝔣" * 2000)


async def test_a_folder_in_its_place_is_not_removed_for_anybody(scene: Scene) -> None:
    scene.state.ground_stop.mkdir()
    async with scene.tower(CODER, also=WATCHED) as tower:
        with pytest.raises(ConflictError, match="cannot release the ground stop"):
            await ground_stop.release(tower)
        assert tower.ground_stop is not None


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/nowhere"), os.mkfifo])
async def test_whatever_has_its_name_engages(scene: Scene, make: object) -> None:
    make(scene.state.ground_stop)  # type: ignore[operator]
    async with scene.tower(CODER, also=WATCHED) as tower:
        assert tower.ground_stop is not None
        assert tower.ground_stop.by.startswith("hand")


async def test_it_survives_the_tower_and_ends_what_the_next_one_finds_alive(scene: Scene) -> None:
    async with scene.tower(CODER) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
    scene.state.ground_stop.write_text(json.dumps({"since": EPOCH, "by": "ann", "why": "smoke"}))
    async with scene.tower(CODER, also=WATCHED) as tower:
        assert keeper.asked == ["halted"]
        assert (await scene.flight(flight)).state == "halted"
        assert tower.ground_stop is not None
        assert tower.ground_stop.by == "ann"


async def test_released_while_no_tower_lived_it_lets_go_what_it_held(scene: Scene) -> None:
    scene.state.ground_stop.touch()
    async with scene.tower(CODER, also=WATCHED):
        flight = await scene.send("coder")
    scene.state.ground_stop.unlink()
    async with scene.tower(CODER, also=WATCHED):
        await later(holds.LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"


async def test_a_full_disk_keeps_nobody_from_pulling_the_handle(scene: Scene) -> None:
    async with scene.tower(CODER, also=WATCHED) as tower:
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        with scene.full_disk():
            await ground_stop.engage(tower, by="ann", why="smoke")
            assert keeper.asked == ["halted"]
            assert tower.ground_stop is not None
        await later(10)
        assert (await scene.flight(flight)).state == "halted"


async def test_where_not_even_its_words_can_be_written_an_empty_file_does(scene: Scene) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    scene.patch.setattr(standing_order, "write_private", full)
    async with scene.tower(CODER) as tower:
        await ground_stop.engage(tower, by="ann", why="smoke")
        assert tower.ground_stop is not None
        assert scene.state.ground_stop.read_bytes() == b""
        await ground_stop.release(tower)
        scene.patch.setattr(Path, "touch", full)
        with pytest.raises(BusyError, match="cannot engage the ground stop"):
            await ground_stop.engage(tower, by="ann", why="smoke")
        assert tower.ground_stop is None


async def test_a_release_on_a_full_disk_is_made_up_for(scene: Scene) -> None:
    async with scene.tower(CODER, also=WATCHED) as tower:
        await ground_stop.engage(tower, by="ann", why="")
        flight = await scene.send("coder")
        with scene.full_disk():
            scene.state.ground_stop.unlink()
            await later(60)
        await later(holds.LOOK_SEC)
        assert (await scene.flight(flight)).state == "running"
