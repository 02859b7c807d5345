"""Runs: looking at them, reading what they print while they print it, ending and recovering them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from engine.scripted import ANN, Scene, agent, later
from trees import User, write

from tower.control.runs import LogPage
from tower.core.errors import ConflictError, InvalidError, NotFoundError
from tower.core.factory import Access
from tower.engine import ground_stop

from .verbs import ask, verbs

pytestmark = pytest.mark.anyio


def log(scene: Scene, run: str, **page: Any) -> Any:
    return verbs(scene).runs.log(ANN, run, **{"stream": "stdout", "offset": 0, "limit": 1000, "wait": 0} | page)


def shown(page: LogPage) -> tuple[bytes, int, int, bool]:
    return page.data, page.offset, page.next_offset, page.ended


async def test_a_log_is_read_in_pages_from_any_offset(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper, run = await scene.keeper(flight), (await scene.run(flight)).id
        assert shown(await log(scene, run)) == (b"", 0, 0, False)
        await keeper.prints("0123456789")
        await keeper.prints("oh", "stderr")
        assert shown(await log(scene, run, limit=4)) == (b"0123", 0, 4, False)
        assert shown(await log(scene, run, offset=4)) == (b"456789", 4, 10, False)
        assert shown(await log(scene, run, offset=-3)) == (b"789", 7, 10, False)
        assert shown(await log(scene, run, limit=0)) == (b"0", 0, 1, False)
        assert shown(await log(scene, run, stream="stderr")) == (b"oh", 0, 2, False)
        await keeper.exits(0)
        assert shown(await log(scene, run, limit=4)) == (b"0123", 0, 4, False)
        assert shown(await log(scene, run, offset=4)) == (b"456789", 4, 10, True)
        assert shown(await log(scene, run, offset=99)) == (b"", 10, 10, True)
        with pytest.raises(InvalidError, match="there are stdout and stderr"):
            await log(scene, run, stream="../stdout")


async def test_a_reader_that_waits_is_woken_by_growth(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper, run = await scene.keeper(flight), (await scene.run(flight)).id
        page = await ask(scene, log(scene, run, wait=60))
        await later(10)
        assert page.given is None
        await keeper.prints("oh", "stderr")  # the other stream
        assert page.given is None
        await keeper.prints("news")
        assert (shown(page.given), page.at) == ((b"news", 0, 4, False), 10)


async def test_a_reader_that_waits_is_woken_by_the_end_with_all_that_was_printed(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper, run = await scene.keeper(flight), (await scene.run(flight)).id
        silent = await ask(scene, log(scene, run, wait=60))
        await later(10)
        await keeper.exits(0)
        assert (shown(silent.given), silent.at) == ((b"", 0, 0, True), 10)
        assert shown(await log(scene, run, wait=60)) == (b"", 0, 0, True)


async def test_a_reader_that_waits_in_vain_is_answered_when_its_time_is_up(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        run = (await scene.run(await scene.send("coder"))).id
        page = await ask(scene, log(scene, run, wait=60))
        await later(60)
        assert (shown(page.given), page.at) == ((b"", 0, 0, False), 60)


async def test_what_a_run_was_told_and_answered_can_be_read(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder", "do it")
        keeper, run = await scene.keeper(flight), (await scene.run(flight)).id
        of = verbs(scene).runs
        assert (await of.payload(ANN, run)).rstrip().endswith("do it")
        with pytest.raises(NotFoundError, match=r"cannot show answer\.txt of run"):
            await of.answer(ANN, run)
        await keeper.prints("done ✓\n")
        await keeper.exits(0)
        assert await of.answer(ANN, run) == "done ✓"


async def test_an_answer_that_the_program_turned_into_a_link_is_not_followed(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        (keeper.folder / "answer.txt").symlink_to("/etc/hostname")
        with pytest.raises(NotFoundError):
            await verbs(scene).runs.answer(ANN, (await scene.run(flight)).id)


async def test_a_run_is_shown_as_it_is(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        run, keeper = await scene.run(flight), await scene.keeper(flight)
        await later(5)
        view = await verbs(scene).runs.show(ANN, run.id[-8:])
        assert (view["id"], view["flights"], view["state"], view["seconds"]) == (run.id, [flight], "running", 5)
        assert (view["pid"], view["folder"]) == (keeper.links[0].agent_pid, str(keeper.folder))
        assert view["cost_usd"] is None
        await keeper.exits(0)
        view = await verbs(scene).runs.show(ANN, run.id)
        assert (view["pid"], view["outcome"], view["ended_at"]) == (None, "succeeded", "2027-01-15T08:00:05.000Z")
        with pytest.raises(NotFoundError):
            await verbs(scene).runs.show(ANN, "ZZZZZZ")


async def test_lists_show_the_living_or_all_newest_first(scene: Scene) -> None:
    async with scene.tower(agent("coder"), agent("tester")):
        flights = [await scene.send(to) for to in ("coder", "tester", "coder")]
        await (await scene.keeper(flights[0])).exits(0)
        listing = partial(verbs(scene).runs.listing, ANN)
        first, second, third = [(await scene.run(flight)).id for flight in flights]

        async def listed(*, every: bool, of: str | None = None, limit: int = 9) -> list[str]:
            return [run["id"] for run in (await listing(every=every, agent=of, limit=limit))["runs"]]

        assert await listed(every=False) == [third, second]
        assert await listed(every=True) == [third, second, first]
        assert await listed(every=True, of="coder") == [third, first]
        assert await listed(every=True, limit=1) == [third]


async def test_a_run_is_cancelled_while_it_lives_and_refused_afterwards(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        run = (await scene.run(flight)).id
        await verbs(scene).runs.cancel(ANN, run)
        await later(1)
        assert (await scene.flight(flight)).state == "cancelled"
        with pytest.raises(ConflictError, match="it is over"):
            await verbs(scene).runs.cancel(ANN, run)


async def test_recovering_answers_with_the_flight_that_is_queued_again(scene: Scene) -> None:
    async with scene.tower(agent("coder", max_recovery_attempts=0)) as tower:
        flight, halted = await scene.send("coder"), await scene.send("coder")
        await (await scene.keeper(flight)).exits(signal=9)
        run = (await scene.run(flight)).id
        of = verbs(scene).runs
        with pytest.raises(ConflictError, match="its recoveries are used up"):
            await of.recover(ANN, run, note=None, force=False)
        again = await of.recover(ANN, run, note="look twice", force=True)
        assert (again["id"], again["state"], again["attempt"]) == (flight, "queued", 2)
        await later(1)
        await ground_stop.engage(tower, by="ann", why="")
        await later(1)
        await ground_stop.release(tower)
        assert await of.recover_halted(ANN) == {"recovered": 2}
        await later(1)
        assert (await scene.flight(halted)).state == "running"


async def test_what_a_writer_changed_is_shown_while_it_works_and_after(scene: Scene) -> None:
    user = User(scene.tree.parent / "home")
    write(scene.tree, {"a.txt": "one\n"})
    user.git(scene.tree, "init", "-q")
    user.commit(scene.tree, "first")
    async with scene.tower(agent("coder"), agent("reader", access=Access.READ_ONLY)):
        flight = await scene.send("coder")
        keeper, run = await scene.keeper(flight), (await scene.run(flight)).id
        diff = partial(verbs(scene).runs.diff, ANN, run)
        assert await diff("names") == b""
        write(scene.tree, {"a.txt": "two\n", "new.txt": "untracked\n"})
        assert await diff("names") == b"M\ta.txt\nA\tnew.txt\n"
        await keeper.exits(0)
        write(scene.tree, {"a.txt": "by a person, later\n"})
        assert b"+two" in await diff("patch")
        reader = await scene.send("reader")
        await (await scene.keeper(reader)).exits(0)
        with pytest.raises(ConflictError, match="it worked in a snapshot"):
            await verbs(scene).runs.diff(ANN, (await scene.run(reader)).id, "patch")


async def test_without_a_repository_there_is_nothing_to_compare(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        await (await scene.keeper(flight)).exits(0)
        with pytest.raises(ConflictError, match="the tree was not named"):
            await verbs(scene).runs.diff(ANN, (await scene.run(flight)).id, "patch")
