"""Chains with work trees of their own: used by all of the chain, apart from others, and kept while work is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from trees import User, write

from tower.control.worktrees import WorktreeVerbs
from tower.core.errors import ConflictError, NotFoundError
from tower.core.factory import Access
from tower.core.pipelines import Pipeline
from tower.engine import worktrees
from tower.store import worktrees as stored

from .scripted import ANN, Scene, agent, idle, later

pytestmark = pytest.mark.anyio

DAY = 86400.0
OWN = Pipeline(name="own", entry="coder", own_worktrees=True)
CODER = agent("coder")
READER = agent("reader", access=Access.READ_ONLY)
FACTORY = {"pipelines": [OWN], "routes": ["coder -> reader"], "shared_writers": False}


@pytest.fixture
def user(scene: Scene) -> User:
    return User(scene.tree.parent / "home")


@pytest.fixture(autouse=True)
def repository(scene: Scene, user: User) -> None:
    write(scene.tree, {"a.txt": "one\n", "sub/b.txt": "b\n"})
    user.git(scene.tree, "init", "-q")
    user.commit(scene.tree, "first")


async def send(scene: Scene) -> str:
    return await scene.send(None, pipeline="own")


async def test_a_chain_works_in_a_tree_of_its_own_and_its_readers_see_that(scene: Scene, user: User) -> None:
    async with scene.tower(CODER, READER, **FACTORY):
        flight = await send(scene)
        run, keeper = await scene.run(flight), await scene.keeper(flight)
        place = scene.state.worktrees / run.itinerary
        assert (run.workspace_kind, run.workspace, keeper.plan.cwd) == ("worktree", str(place), str(place))
        write(place, {"a.txt": "by the chain\n"})
        write(scene.tree, {"a.txt": "by a person\n"})
        passed_on = await scene.send("reader", run=run)
        reader = await scene.keeper(passed_on)
        assert (Path(reader.plan.cwd) / "a.txt").read_text() == "by the chain\n"
        await reader.exits(0)
        await keeper.exits(0)
        assert (scene.tree / "a.txt").read_text() == "by a person\n"
        after = await scene.run(flight)
        assert after.tree_after != after.tree_before


async def test_chains_work_side_by_side_and_one_chain_has_one_writer(scene: Scene) -> None:
    async with scene.tower(CODER, agent("other"), pipelines=[OWN], routes=["coder -> other"], shared_writers=False):
        first, second = await send(scene), await send(scene)
        one, two = await scene.run(first), await scene.run(second)
        assert one.workspace != two.workspace
        third = await scene.send("other", run=one)
        await idle()
        assert (await scene.flight(third)).state == "queued"
        await (await scene.keeper(first)).exits(0)
        assert (await scene.run(third)).workspace == one.workspace


async def test_the_seat_outlives_the_tower(scene: Scene) -> None:
    async with scene.tower(CODER, agent("other"), pipelines=[OWN], routes=["coder -> other"], shared_writers=False):
        first = await send(scene)
        third = await scene.send("other", run=await scene.run(first))
    async with scene.tower(CODER, agent("other"), pipelines=[OWN], routes=["coder -> other"], shared_writers=False):
        await idle()
        assert (await scene.flight(third)).state == "queued"
        await (await scene.keeper(first)).exits(0)
        assert (await scene.flight(third)).state == "running"


async def test_the_seat_of_a_live_tree_is_where_the_run_writes_whatever_the_file_says_by_then(scene: Scene) -> None:
    elsewhere = scene.tree.parent / "elsewhere"
    elsewhere.mkdir()
    async with scene.tower(CODER, shared_writers=False):
        first = await scene.send("coder")
    async with scene.tower(
        agent("coder", work_dir=str(elsewhere)), agent("late", work_dir=str(scene.tree)), shared_writers=False
    ):
        late = await scene.send("late")
        assert (await scene.flight(late)).state == "queued"
        await (await scene.keeper(first)).exits(0)
        assert (await scene.flight(late)).state == "running"


async def test_a_tree_goes_when_its_chain_is_long_over_and_nothing_is_in_it(scene: Scene, user: User) -> None:
    async with scene.tower(CODER, READER, **FACTORY) as tower:
        flight = await send(scene)
        run = await scene.run(flight)
        place = Path(run.workspace or "")
        await (await scene.keeper(flight)).exits(0)
        await worktrees.look(tower)
        assert place.exists()
        await later(DAY + 1)
        await worktrees.look(tower)
        assert not place.exists()
        assert user.git(scene.tree, "branch", "--list", "tower/*") == ""
        assert await scene.read(stored.listing) == []


async def test_work_that_is_nowhere_else_stays_and_is_said(scene: Scene, user: User) -> None:
    async with scene.tower(CODER, READER, **FACTORY) as tower:
        flight = await send(scene)
        run = await scene.run(flight)
        place = Path(run.workspace or "")
        write(place, {"a.txt": "200 lines\n"})
        await (await scene.keeper(flight)).exits(0)
        await later(DAY + 1)
        await worktrees.look(tower)
        (kept,) = (await WorktreeVerbs(tower).listing(ANN))["worktrees"]
        assert (kept["kept"], kept["in_use"]) == ("a.txt changed and not committed", False)
        user.commit(place, "done")
        with pytest.raises(ConflictError, match="that no other branch has"):
            await WorktreeVerbs(tower).remove(ANN, run.itinerary[-6:], force=False)
        assert place.exists()
        user.git(scene.tree, "merge", "-q", f"tower/{run.itinerary}")
        await worktrees.look(tower)
        assert not place.exists()


async def test_by_force_what_is_in_it_is_rescued_first(scene: Scene, user: User) -> None:
    async with scene.tower(CODER, READER, **FACTORY) as tower:
        verbs = WorktreeVerbs(tower)
        flight = await send(scene)
        run = await scene.run(flight)
        place = Path(run.workspace or "")
        write(place, {"a.txt": "uncommitted\n"})
        with pytest.raises(ConflictError, match="a run works in it"):
            await verbs.remove(ANN, run.itinerary, force=True)
        (saved,) = (await verbs.rescue(ANN, run.itinerary))["rescued"]
        assert user.git(scene.tree, "show", f"{saved['ref']}:a.txt") == "uncommitted"
        await (await scene.keeper(flight)).exits(0)
        user.commit(place, "committed")
        write(place, {"a.txt": "more\n"})
        await verbs.remove(ANN, run.itinerary, force=True)
        assert not place.exists()
        assert user.git(scene.tree, "show", f"refs/tower/rescue/{run.itinerary}:a.txt") == "more"
        assert user.git(scene.tree, "show", f"tower/{run.itinerary}:a.txt") == "uncommitted"
        with pytest.raises(NotFoundError):
            await verbs.remove(ANN, run.itinerary, force=True)


async def test_a_repository_that_was_cloned_into_it_is_lost_by_no_force(scene: Scene, user: User) -> None:
    async with scene.tower(CODER, READER, **FACTORY) as tower:
        verbs = WorktreeVerbs(tower)
        flight = await send(scene)
        run = await scene.run(flight)
        place = Path(run.workspace or "")
        user.git(place, "clone", "-q", str(scene.tree), "clone")
        user.commit(place / "clone", "work of its own")
        await (await scene.keeper(flight)).exits(0)
        with pytest.raises(ConflictError, match="1 commits in clone, a repository of its own, that are nowhere else"):
            await verbs.remove(ANN, run.itinerary, force=True)
        user.git(place / "clone", "push", "-q", "origin", "main:refs/heads/pushed")
        await verbs.remove(ANN, run.itinerary, force=True)
        assert not place.exists()


async def test_a_folder_that_the_commit_has_not_ends_the_run_with_a_word(scene: Scene) -> None:
    (scene.tree / "fresh").mkdir()
    below = agent("coder", work_dir=str(scene.tree / "fresh"))
    async with scene.tower(below, pipelines=[OWN]):
        flight = await send(scene)
        assert "its folder fresh is not in the commit" in str((await scene.flight(flight)).reason)


async def test_a_subfolder_of_the_tree_is_the_same_subfolder_there(scene: Scene) -> None:
    below = agent("coder", work_dir=str(scene.tree / "sub"))
    async with scene.tower(below, pipelines=[OWN]):
        run = await scene.run(await send(scene))
        assert run.workspace == str(scene.state.worktrees / run.itinerary / "sub")
