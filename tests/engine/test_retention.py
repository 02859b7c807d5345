"""What is older than `retention_days` is forgotten, folders and all; memory and whatever is open stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from trees import User, write

from tower.control.runs import RunVerbs
from tower.core.errors import BusyError, NotFoundError
from tower.core.factory import Access
from tower.core.states import HeldReason
from tower.engine import retention
from tower.engine.tower import Tower
from tower.store import flights, runs

from .scripted import ANN, Scene, agent, later, now

pytestmark = pytest.mark.anyio

DAY = 86400.0


def days_later(tower: Tower, days: float) -> None:
    """The tower's clock goes on at once: the dispatcher would look every minute of so many days."""
    tower.clock = lambda: now() + days * DAY


async def ended(scene: Scene, to: str = "a") -> str:
    flight = await scene.send(to)
    await (await scene.keeper(flight)).exits(0)
    return flight


async def test_old_chains_go_with_the_folders_of_their_runs(scene: Scene) -> None:
    async with scene.tower(agent("a"), retention_days=30) as tower:
        old = await ended(scene)
        run = await scene.run(old)
        (scene.state.hangar("a") / "memory.md").write_text("It was cold.")
        folder = scene.state.run_folder("a", run.id)
        assert folder.is_dir()
        days_later(tower, 20)
        young = await ended(scene)
        await retention.forget(tower)
        assert folder.is_dir()
        days_later(tower, 31)
        await retention.forget(tower)
        assert await scene.read(flights.get, old) is None
        assert await scene.read(runs.process, run.process) is None
        assert not folder.exists()
        assert (scene.state.hangar("a") / "memory.md").read_text() == "It was cold."
        assert scene.state.run_folder("a", (await scene.run(young)).id).is_dir()
        told = [event for event in await scene.events() if event.type == "history.forgotten"]
        assert [dict(event.data) for event in told] == [{"chains": 1, "runs": 1, "older_than_days": 30}]


async def test_what_a_run_changed_is_shown_as_long_as_it_is_on_record(scene: Scene) -> None:
    user = User(scene.tree.parent / "home")
    write(scene.tree, {"a.txt": "one\n"})
    user.git(scene.tree, "init", "-q")
    user.commit(scene.tree, "first")
    async with scene.tower(agent("a"), retention_days=30) as tower:
        flight = await scene.send("a")
        write(scene.tree, {"a.txt": "by the run\n"})
        await (await scene.keeper(flight)).exits(0)
        run, verbs = await scene.run(flight), RunVerbs(tower)
        for days in (20, 31):
            days_later(tower, days)
            await retention.forget(tower)
            await retention.drop_trees(tower)
            if days == 20:
                assert b"+by the run" in await verbs.diff(ANN, run.id, "patch")
        with pytest.raises(NotFoundError, match="cannot find a run called") as refused:
            await verbs.diff(ANN, run.id, "patch")
        assert "retention_days" in str(refused.value)
        assert not list(scene.state.trees.rglob("objects"))


async def test_a_snapshot_that_was_kept_goes_with_its_run(scene: Scene) -> None:
    user = User(scene.tree.parent / "home")
    user.git(scene.tree, "init", "-q")
    write(scene.tree, {"a.txt": "one\n"})
    reader = agent("a", access=Access.READ_ONLY, snapshot_writes="keep")
    async with scene.tower(reader, retention_days=1) as tower:
        run = await scene.run(await ended(scene))
        kept = Path(run.workspace or "")
        await retention.forget(tower)
        assert (kept / "a.txt").read_text() == "one\n"
        days_later(tower, 2)
        await retention.forget(tower)
        assert list(scene.state.snapshots.iterdir()) == []


async def test_what_is_open_stays_however_old_it_is(scene: Scene) -> None:
    async with scene.tower(agent("a"), agent("b", context_budget=1), retention_days=1) as tower:
        running, held = await scene.send("a"), await scene.send("b")
        assert (await scene.flight(held)).held_reason is HeldReason.OVER_BUDGET
        days_later(tower, 900)
        await retention.forget(tower)
        assert await scene.read(flights.get, running) is not None
        assert await scene.read(flights.get, held) is not None


async def test_none_is_never_and_an_edit_counts_at_the_next_look(scene: Scene) -> None:
    async with scene.tower(agent("a"), retention_days=0) as tower:
        old = await ended(scene)
        days_later(tower, 36_000)
        await retention.forget(tower)
        assert await scene.read(flights.get, old) is not None
        tower.factory = scene.factory(agent("a"), retention_days=90)
        await retention.forget(tower)
        assert await scene.read(flights.get, old) is None


async def test_more_than_one_transaction_s_worth_is_forgotten(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    monkeypatch.setattr(retention, "EVENTS_AT_ONCE", 3)
    async with scene.tower(agent("a"), retention_days=1) as tower:
        for _ in range(5):
            await ended(scene)
        days_later(tower, 2)
        await retention.forget(tower)
        assert list(scene.state.hangar("a").iterdir()) == []
        assert [event.type for event in await scene.events()] == ["history.forgotten"]


async def test_it_is_looked_again_and_again_and_a_full_disk_delays_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "EVERY_SEC", 60.0)
    async with scene.tower(agent("a"), also=[retention.keep], retention_days=1) as tower:
        old = await ended(scene)
        days_later(tower, 2)
        with scene.full_disk():
            await later(70)
            with pytest.raises(BusyError):
                await retention.forget(tower)
        assert await scene.read(flights.get, old) is not None
        await later(60)
        assert await scene.read(flights.get, old) is None
