"""What runs may do beside sending: memory, logbook, report, help, and asking where they stand."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from engine.scripted import ANN, Scene, agent, edge, later

from tower.control import Control, sending
from tower.control.own import OwnVerbs
from tower.core import notebook
from tower.core.accounts import OPEN_OF_A_RUN
from tower.core.callers import Caller
from tower.core.chain import ChainState
from tower.core.errors import BusyError, ConflictError, InvalidError, NotFoundError, RefusedError
from tower.core.factory import Position
from tower.mcp import words
from tower.system import notebooks

from .verbs import verbs

pytestmark = pytest.mark.anyio

BETWEEN = Caller(name="coder", process="prc_1")


async def running(scene: Scene, name: str = "coder") -> Caller:
    flight = await scene.send(name)
    await scene.keeper(flight)
    return Caller(name=name, run=(await scene.run(flight)).id)


async def test_memory_grows_by_entries_and_is_shown_to_the_next_run(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        first = await running(scene)
        of = verbs(scene)
        assert (await of.notes.memory(first))["text"] == ""
        await of.notes.remember(first, "The tests are slow.")
        await of.notes.remember(first, "Use make fast.")
        read = await of.notes.memory(first)
        assert read["text"].count(f"UTC, {first.run}") == 2
        assert read["text"].endswith("Use make fast.\n")
        flight = await scene.send("coder")
        await scene.keeper(flight)
        told = await of.runs.payload(ANN, (await scene.run(flight)).id)
        assert "The tests are slow." in told


async def test_what_a_run_wrote_down_is_told_to_the_one_that_takes_over(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper, of = await scene.keeper(flight), verbs(scene)
        coder = Caller(name="coder", run=(await scene.run(flight)).id)
        await of.notes.remember(coder, "The tests are slow.")
        await of.notes.log(coder, "Began with the parser.")
        await of.own.report(coder, headline="Half of it is done", body="The rest is not.", artifacts=[])
        await of.help.ask(coder, summary="I need a key", detail="")
        await keeper.vanishes()
        await later(60)
        told = ((await scene.keeper(flight)).folder / "payload.md").read_text().partition("## Tower: handover")[2]
        assert "What it wrote into memory:\n\n```\nThe tests are slow.\n```" in told
        assert "What it wrote into the logbook:\n\n```\nBegan with the parser.\n```" in told
        assert "What it reported:\n\n```\nHalf of it is done\n\nThe rest is not.\n```" in told
        assert "(other, open): I need a key\n```" in told
        assert "This is what was recorded" in told


async def test_agents_may_share_a_memory_whose_entries_say_whose_they_are(scene: Scene) -> None:
    async with scene.tower(agent("coder", memory="team"), agent("tester", memory="team"), agent("other")):
        coder, of = await running(scene), verbs(scene)
        await of.notes.remember(coder, "The tests are slow.")
        assert (await of.notes.memory(await running(scene, "tester")))["text"].count(f", coder, {coder.run}") == 1
        assert (await of.notes.memory(await running(scene, "other")))["text"] == ""
        told = await of.runs.payload(ANN, (await scene.run(await scene.send("tester"))).id)
        assert "The tests are slow." in told
        assert (scene.state.root / "memories" / "team.md").is_file()


async def test_writers_at_the_same_time_lose_nothing(scene: Scene) -> None:
    async with scene.tower(agent("coder"), max_concurrent_runs=4):
        callers = [await running(scene) for _ in range(2)]
        of = verbs(scene)
        async with anyio.create_task_group() as group:
            for number in range(20):
                for caller in callers:
                    group.start_soon(of.notes.remember, caller, f"note {number} of {caller.run}")
                    group.start_soon(of.notes.log, caller, f"line {number} of {caller.run}")
        memory = (await of.notes.memory(callers[0]))["text"]
        logbook = (await of.notes.logbook(callers[0], 10_000))["text"]
        for caller in callers:
            for number in range(20):
                assert memory.count(f"note {number} of {caller.run}\n") == 1
                assert logbook.count(f"line {number} of {caller.run}\n") == 1


async def test_an_entry_that_is_too_long_is_cut_and_said(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        written = await verbs(scene).notes.remember(caller, "é" * notebook.ENTRY_BYTES)
        assert written["cut"]
        assert (await verbs(scene).notes.memory(caller))["text"].endswith("é\n")


async def test_a_secret_is_masked_wherever_an_agent_writes_it(scene: Scene) -> None:
    async with scene.tower(
        agent("coder", env_from={"API_KEY": "defaults.env_from"}), environ={"API_KEY": "hush-4711-hush"}
    ):
        caller = await running(scene)
        of = verbs(scene)
        await of.notes.remember(caller, "the key is hush-4711-hush")
        await of.notes.log(caller, "the key is hush-4711-hush")
        asked = await of.help.ask(caller, summary="hush-4711-hush fails", detail="I sent hush-4711-hush")
        told = await of.own.report(caller, headline="hush-4711-hush", body="hush-4711-hush", artifacts=[])
        texts = [
            (await of.notes.memory(caller))["text"],
            (await of.notes.logbook(caller, 9))["text"],
            str(asked),
            str(told),
        ]
        assert not any("hush" in text for text in texts)
        assert all("[masked]" in text for text in texts)


async def test_a_full_disk_is_an_answer_and_leaves_what_was_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        of = verbs(scene)
        await of.notes.remember(caller, "first")

        def full(path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(notebooks, "write_private", full)
        with pytest.raises(BusyError, match=r"cannot write memory\.md: the disk is full"):
            await of.notes.remember(caller, "second")
        assert (await of.notes.memory(caller))["text"].endswith("first\n")


async def test_a_link_in_the_place_of_a_file_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        of = verbs(scene)
        victim = tmp_path / "victim"
        victim.write_text("mine")
        (scene.now.state.hangar("coder") / "memory.md").symlink_to(victim)
        Path(scene.now.factory.settings.logbook).symlink_to(victim)
        assert (await of.notes.memory(caller))["text"] == ""
        await of.notes.remember(caller, "noted")
        with pytest.raises(RefusedError, match="it is a symbolic link"):
            await of.notes.log(caller, "noted")
        assert victim.read_text() == "mine"


async def test_a_report_is_the_account_of_its_run_and_may_be_given_again(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        of = verbs(scene)
        with pytest.raises(NotFoundError, match="it gave none"):
            await of.own.report_of(ANN, caller.run or "")
        assert not (await of.own.report(caller, headline="half", body="", artifacts=[]))["again"]
        assert (await of.own.report(caller, headline="done", body="all of it", artifacts=[]))["again"]
        assert (await of.own.report_of(ANN, caller.run or ""))["headline"] == "done"
        assert (await of.runs.show(ANN, caller.run or ""))["headline"] == "done"


async def test_artifacts_lie_in_the_place_of_the_run_links_followed(scene: Scene, tmp_path: Path) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        tree = Path(scene.now.factory.agents["coder"].work_dir)
        (tree / "made.txt").write_text("x")
        (tree / "link").symlink_to("/etc/passwd")
        out = scene.now.state.run_folder("coder", caller.run or "") / "out" / "log.txt"
        out.write_text("x")
        given = [
            "made.txt",
            "link",
            "../../etc/passwd",
            "/etc/passwd",
            "missing",
            str(tree / "made.txt"),
            str(out),
            ".",
        ]
        told = await verbs(scene).own.report(caller, headline="done", body="", artifacts=given)
        assert told["artifacts"] == ["made.txt", str(tree / "made.txt"), str(out)]
        assert len(told["cuts"]) == 5
        assert "artifact 'link' was left out" in told["cuts"][0]


async def test_help_is_asked_once_listed_and_resolved(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        of = verbs(scene)
        asked = await of.help.ask(caller, summary="No key", detail="password=hunter2222", blocker="access")
        assert (asked["state"], asked["blocker"], asked["detail"]) == ("open", "access", "password=[redacted]")
        again = await of.help.ask(caller, summary="No  key", detail="again", blocker="access")
        assert (again["id"], again["duplicate"]) == (asked["id"], True)
        assert [one["id"] for one in (await of.help.listing(ANN, every=False, agent=None, limit=9))["help"]] == [
            asked["id"]
        ]
        status = await of.factory.status(ANN)
        assert (status["help"], status["well"]) == (1, False)
        closed = await of.help.resolve(ANN, asked["id"][-6:], note="key renewed")
        assert (closed["state"], closed["resolved_by"], closed["note"]) == ("resolved", "ann", "key renewed")
        with pytest.raises(ConflictError, match="ann has done so"):
            await of.help.resolve(ANN, asked["id"], note=None)
        assert (await of.help.listing(ANN, every=False, agent=None, limit=9))["help"] == []
        assert len((await of.help.listing(ANN, every=True, agent="coder", limit=9))["help"]) == 1


async def test_a_run_that_asks_in_circles_is_refused(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        for number in range(OPEN_OF_A_RUN):
            await verbs(scene).help.ask(caller, summary=f"again {number}", detail="")
        with pytest.raises(RefusedError, match="requests of this run are open"):
            await verbs(scene).help.ask(caller, summary="and again", detail="")


async def state(of: Control, flight: str) -> str:
    shown = await of.flights.show(ANN, flight)
    return str((await of.itineraries.show(ANN, shown["itinerary"]))["state"])


async def test_a_chain_whose_run_ended_on_a_fatal_request_waits_for_a_person(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        caller, of = Caller(name="coder", run=(await scene.run(flight)).id), verbs(scene)
        asked = await of.help.ask(caller, summary="cannot go on", detail="", fatal=True)
        assert await state(of, flight) == ChainState.WORKING
        await keeper.exits(0)
        assert await state(of, flight) == ChainState.WAITING
    async with scene.tower(agent("coder")):
        of = verbs(scene)
        assert await state(of, flight) == ChainState.WAITING
        await of.help.resolve(ANN, asked["id"], note=None)
        assert await state(of, flight) == ChainState.FINISHED


async def test_peers_are_those_that_a_send_would_reach_now(scene: Scene) -> None:
    factory = (agent("coder"), agent("tester", description="tests", purpose="for tests"), agent("off", enabled=False))
    routes = [edge("coder -> tester"), edge("coder => coder"), edge("coder -> off"), edge("tester -> coder")]
    async with scene.tower(*factory, routes=routes, max_hops=1):
        caller = await running(scene)
        told = await verbs(scene).own.peers(caller)
        assert (told["hops"], [(peer["name"], peer["mode"]) for peer in told["peers"]]) == (0, [("coder", "spawn")])
    async with scene.tower(*factory, routes=routes, max_hops=3):
        caller = await running(scene)
        told = await verbs(scene).own.peers(caller)
        assert [peer["name"] for peer in told["peers"]] == ["coder", "tester"]
        assert (told["peers"][1]["description"], told["peers"][1]["purpose"]) == ("tests", "for tests")


async def test_an_orchestrator_sees_the_whole_roster_and_who_is_none_does_not(scene: Scene) -> None:
    factory = (
        agent("lead", position=Position.ORCHESTRATOR),
        agent("coder", description="writes", purpose="for code"),
        agent("tester"),
        agent("off", enabled=False),
    )
    async with scene.tower(*factory, routes=[edge("lead -> tester"), edge("coder -> tester")]):
        told = await verbs(scene).own.peers(await running(scene, "lead"))
        assert [peer["name"] for peer in told["peers"]] == ["tester"]
        (other,) = told["roster"]
        assert (other["name"], other["description"], other["purpose"]) == ("coder", "writes", "for code")
        said = words.peers(told)
        assert said.splitlines()[2:] == [
            "There are also, and you may not send to them:",
            "- coder (read-write): writes When: for code",
        ]
        assert (await verbs(scene).own.peers(await running(scene, "coder")))["roster"] == []


async def test_a_run_learns_what_is_left(scene: Scene) -> None:
    async with scene.tower(agent("coder", timeout_sec=600), max_hops=3, max_runs=5):
        caller = await running(scene)
        left = await verbs(scene).own.standing(caller)
        assert (left["hops"], left["runs"], left["seconds"]) == (2, 4, 600.0)
        assert (left["fuel_usd"], left["fuel_source"], left["spent"]) == (4.75, None, None)


async def test_a_resident_between_turns_may_only_ask_who_it_is(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        of = verbs(scene)
        assert await of.own.standing(BETWEEN) == {"agent": "coder", "run": None, "process": "prc_1"}
        for refused in (
            of.own.peers(BETWEEN),
            of.own.report(BETWEEN, headline="x", body="", artifacts=[]),
            of.help.ask(BETWEEN, summary="x", detail=""),
            of.notes.memory(BETWEEN),
            of.notes.remember(BETWEEN, "x"),
            of.notes.logbook(BETWEEN, 1),
            of.notes.log(BETWEEN, "x"),
            of.factory.status(BETWEEN),
        ):
            with pytest.raises(RefusedError, match="cannot "):
                await refused


async def test_people_have_no_memory_and_no_report(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        of = verbs(scene)
        for refused in (
            of.own.peers(ANN),
            of.own.standing(ANN),
            of.notes.log(ANN, "x"),
            of.help.ask(ANN, summary="x", detail=""),
        ):
            with pytest.raises(RefusedError, match="ann is no run"):
                await refused


async def test_a_call_is_a_sign_of_life_and_asking_for_tools_is_remembered(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        flight = await scene.send("coder")
        keeper = await scene.keeper(flight)
        run = (await scene.run(flight)).id
        own: OwnVerbs = verbs(scene).own
        await own.heard(Caller(name="coder", run=run))
        assert (keeper.pokes, scene.now.live[run].has_tools.is_set()) == (1, False)
        await own.heard(Caller(name="coder", run=run), tools_listed=True)
        assert (keeper.pokes, scene.now.live[run].has_tools.is_set()) == (2, True)
        await own.heard(BETWEEN)


async def test_an_unknown_blocker_is_refused_with_the_list(scene: Scene) -> None:
    async with scene.tower(agent("coder")):
        caller = await running(scene)
        with pytest.raises(InvalidError, match="cannot file this under 'money'"):
            await verbs(scene).help.ask(caller, summary="x", detail="", blocker="money")


async def test_an_orchestrator_cancels_what_waits_in_its_own_chain(scene: Scene) -> None:
    factory = (agent("lead", position=Position.ORCHESTRATOR), agent("tester", max_concurrent=1), agent("coder"))
    async with scene.tower(*factory, routes=[edge("lead -> tester")]):
        busy = await scene.send("tester")
        await scene.keeper(busy)
        caller, other, of = await running(scene, "lead"), await running(scene, "coder"), verbs(scene)
        sent = await of.flights.send(caller, sending.Request(to="tester", body="look"))
        identity = sent["flight"]["id"]
        told = await of.own.after_sending(caller, identity)
        assert (told["hops"], told["state"], told["waits_for"] is not None) == (7, "queued", True)
        with pytest.raises(RefusedError, match="coder is no orchestrator"):
            await of.own.cancel(other, identity)
        with pytest.raises(RefusedError, match="it belongs to another chain"):
            await of.own.cancel(caller, busy)
        with pytest.raises(NotFoundError):
            await of.own.cancel(caller, "flt_9")
        assert (await of.own.cancel(caller, identity))["to"] == "tester"
        assert (await of.flights.show(ANN, identity))["state"] == "cancelled"
        with pytest.raises(ConflictError, match="it waits no more"):
            await of.own.cancel(caller, identity)
