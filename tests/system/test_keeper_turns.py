"""A keeper and a program that stays: turns told whole, limits per turn, and an end that begins with the input's."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence

import anyio
import pytest
from stage import Stage, until

from tower.core.launch import KeeperPlan
from tower.system.keeper.ending import EOF_BEFORE
from tower.system.keeper.protocol import TOLD
from tower.system.keeperlink import Ending, KeeperLink, Turn, Word
from tower.system.keeping import connect_keeper

pytestmark = pytest.mark.anyio

ECHO = """
import json, sys
for line in sys.stdin:
    told = json.loads(line)
    print(json.dumps({"type": "result", "turn": told["turn"], "answer": len(told["payload"])}), flush=True)
"""


def resident(stage: Stage, script: str = ECHO, turns: Sequence[str] = ("hello",), **changes: object) -> KeeperPlan:
    plan = stage.python(script, payload=None, resident=True, **changes)
    folder = stage.folder(plan.run) / "turns"
    folder.mkdir()
    for number, payload in enumerate(turns, 1):
        (folder / str(number)).write_text(json.dumps({"turn": number, "payload": payload}) + "\n")
    return plan


async def word(link: KeeperLink, kind: type[Word]) -> Word:
    with anyio.fail_after(10):
        async for one in link.words():
            if isinstance(one, kind):
                return one
    raise AssertionError("it was never said")


async def test_turns_are_told_whole_one_after_another(stage: Stage) -> None:
    large = 3 << 20
    link = await stage.start(plan := resident(stage, turns=("one", "x" * large)))
    await link.turn(1, None, None, None)
    assert await word(link, Turn) == Turn(1)
    await stage.printed(plan.run, b'"answer": 3')
    await link.turn(2, None, None, None)
    await stage.printed(plan.run, b'"answer": %d' % large)
    names = sorted(path.name for path in (stage.folder(plan.run) / "turns").iterdir())
    assert names == [f"1{TOLD}", f"2{TOLD}"]
    await link.stop("idle", 5)
    record = await stage.end(link)
    assert (record.code, record.signal, record.stopping) == (0, None, "idle")


async def test_a_turn_is_told_once_and_never_what_is_void(stage: Stage) -> None:
    link = await stage.start(plan := resident(stage, turns=("one", "two")))
    turns = stage.folder(plan.run) / "turns"
    (turns / "2").rename(turns / "2.void")
    await link.turn(1, None, None, None)
    assert await word(link, Turn) == Turn(1)
    await link.turn(1, None, None, None)
    assert await word(link, Turn) == Turn(1)
    await link.turn(2, None, None, None)
    assert await word(link, Turn) == Turn(1)
    await link.stop("idle", 5)
    await stage.end(link)
    assert stage.log(plan.run).count(b"result") == 1


async def test_only_a_turn_has_limits(stage: Stage) -> None:
    script = "import sys\nfor line in sys.stdin: print('heard', flush=True)"
    link = await stage.start(
        plan := resident(stage, script, turns=("a", "b"), timeout=0.2, stall=0.2, first_output=0.2)
    )
    await anyio.sleep(0.5)
    await link.turn(1, 0.4, None, None)
    await stage.printed(plan.run, b"heard")
    await link.done()
    await anyio.sleep(0.6)
    await link.turn(2, 0.3, None, None)
    assert await word(link, Ending) == Ending(why="timeout")
    record = await stage.end(link)
    assert (record.limit, record.code) == ("timeout", 0)


async def test_the_input_ends_before_the_polite_signal(stage: Stage) -> None:
    script = """
import signal, sys, time
began = 0.0
def asked(*_):
    print("asked", round(time.monotonic() - began, 1), flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, asked)
print("up", flush=True)
sys.stdin.read()
began = time.monotonic()
print("end", flush=True)
while True: signal.pause()
"""
    link = await stage.start(plan := resident(stage, script))
    await stage.printed(plan.run, b"up")
    await link.stop("changed", 5)
    record = await stage.end(link)
    assert record.code == 7
    said = stage.log(plan.run).decode().split()
    assert said[:3] == ["up", "end", "asked"]
    assert float(said[3]) >= EOF_BEFORE - 0.2


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("import os, sys, time; sys.stdin.readline(); os.close(1); time.sleep(60)", "mute"),
        ("import os, time; os.close(0); print('up', flush=True); time.sleep(60)", "deaf"),
        ("import time; time.sleep(60)", "first_output"),
    ],
    ids=["closes its output", "closes its input", "ignores its input"],
)
async def test_a_program_that_can_take_or_answer_nothing_is_ended(stage: Stage, script: str, limit: str) -> None:
    link = await stage.start(plan := resident(stage, script, turns=("x" * (1 << 20),), grace=1))
    if limit == "deaf":
        await stage.printed(plan.run, b"up")
    await link.turn(1, 20, None, 0.5 if limit == "first_output" else None)
    record = await stage.end(link)
    assert record.limit == limit
    assert stage.alive() == {}


async def test_a_turn_goes_on_without_a_tower_and_the_next_one_is_told_which(stage: Stage) -> None:
    script = ECHO.replace("    print", "    import time; time.sleep(0.3)\n    print")
    link = await stage.start(plan := resident(stage, script))
    await link.turn(1, None, None, None)
    await word(link, Turn)
    await link.aclose()
    await until(lambda: b"result" in stage.log(plan.run))
    found = await connect_keeper(str(stage.sockets), plan.socket_name, run=plan.run, pid=link.pid, ticks=link.ticks)
    assert found is not None
    stage.keepers.append(found)
    assert await word(found, Turn) == Turn(1)
    await found.stop("stop", 5)
    assert (await stage.end(found)).stopping == "stop"


async def test_a_resident_that_dies_in_mid_turn_is_recorded(stage: Stage) -> None:
    script = "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)"
    link = await stage.start(resident(stage, script))
    await link.turn(1, None, None, None)
    record = await stage.end(link)
    assert (record.signal, record.limit, record.stopping) == (signal.SIGKILL, None, None)


async def test_a_keeper_killed_while_it_takes_a_turn_leaves_it_as_told(stage: Stage) -> None:
    link = await stage.start(plan := resident(stage, failpoints={"keeper.turn-taken": "kill"}))
    await link.turn(1, None, None, None)
    await stage.words(link)
    assert os.listdir(stage.folder(plan.run) / "turns") == [f"1{TOLD}"]
