"""Residents: for each, one task that looks after its process for as long as the configuration wants one.

The task starts the process, reads what it prints, asks it to end when it is to be replaced, and writes down how it
ended. A process has one record that is open, and one task; both are there before it is started and until it is
confirmed gone, so that there are never two. When one may start says `core.residence`; starting it is
`resident_start`'s, its turns are `turns`'.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from tower.core import ids
from tower.core.errors import ConflictError
from tower.core.launch import KEEPER_PROTOCOL
from tower.core.records import Process
from tower.core.recovery import Settlement
from tower.core.recovery import settle as decide
from tower.core.residence import WINDOW_SEC, ResidentState, StartNow, fingerprint, remembered
from tower.engine import offering, places, recover, resident_output, secrecy, standing
from tower.engine.evidence import start_of
from tower.engine.resident_end import write_end
from tower.engine.resident_start import record_link, start
from tower.engine.tower import RESIDENTS, OpenTurn, Resident, Tower, log
from tower.engine.turns import see_turn_through
from tower.engine.unstarted import forbid
from tower.runners.jsonl import Lines
from tower.store import events, residents, runs
from tower.store.database import Connection
from tower.system.keeperlink import Ending, Exited, Gone, Grew, KeeperLink, Turn
from tower.system.runlog import log_size
from tower.system.workspace import remove_folder

DEFECT_SEC: Final = 5.0
"""Pause before a resident whose task failed by a defect is looked at anew."""

AT_ONCE: Final = frozenset({"halted", "stop"})
"""Reasons to end a process that do not wait for the end of its turn."""


async def adopt_open(tower: Tower) -> None:
    """At a start, before anything is dispatched: take over the processes and turns that an earlier tower left open."""

    def read(connection: Connection) -> tuple[list[Process], list[recover.OpenRun]]:
        turns = [run for run in runs.open_runs(connection) if run.turn is not None]
        return residents.open_processes(connection), [(run, runs.process(connection, run.process)) for run in turns]

    processes, turns = await tower.store.read(read)
    await _remove_unrecorded(tower)
    tower.paused |= await standing.paused(tower)
    for process in processes:
        resident = await _known(tower, process.agent)
        resident.process = process
        resident.residence = resident.residence.found()
        tower.residents[process.agent] = resident
        # Before the doors open: it may have called already.
        await _keep_secrets(tower, resident, process)
    for run, _ in turns:
        live = recover.live_of(tower, run)
        tower.live[run.id] = live
        turn = OpenTurn(live=live, number=run.turn or 0, is_asked=True, is_refused=True, was_alive=False)
        found = tower.residents.get(run.agent)
        if found is not None and found.process is not None and found.process.id == run.process:
            found.turn = turn
            tower.tasks.start_soon(see_turn_through, tower, found, turn, name=f"turn {run.id}")
        else:
            turn.is_cut_off = True
            await see_turn_through(tower, None, turn)
    for resident in tower.residents.values():
        tower.tasks.start_soon(look_after, tower, resident, name=f"resident {resident.name}")


async def _remove_unrecorded(tower: Tower) -> None:
    """Remove the folders that an earlier tower wrote for processes, and did not live to write down."""
    folders = {path.name: path for path in tower.state.hangars.glob(f"*/{ids.PROCESS}_*")}
    for name in await tower.store.read(partial(residents.unknown_of, identities=folders)):
        problem = await anyio.to_thread.run_sync(remove_folder, str(folders[name]))
        if problem:
            log.warning("resident.folder-left", problem=problem)


async def keep(tower: Tower) -> None:
    """See to it, for ever, that somebody looks after each resident of the live generation."""
    while True:
        with tower.bus.listening(RESIDENTS) as news:
            for name in tower.factory.residents:
                if name not in tower.residents:
                    tower.residents[name] = resident = await _known(tower, name)
                    tower.tasks.start_soon(look_after, tower, resident, name=f"resident {name}")
            await news.wait()


async def look_after(tower: Tower, resident: Resident) -> None:
    """The life of one resident, until the configuration has none of that name and its process is gone."""
    while resident.process is not None or resident.name in tower.factory.residents:
        try:
            await _next_step(tower, resident)
        except Exception as error:
            log.exception("resident.defect", agent=resident.name, error=str(error))
            if resident.link is not None:
                await resident.link.aclose()
                resident.link = None
            await anyio.sleep(DEFECT_SEC)
    await places.discard(tower, places.resident_folder(tower.factory, resident.name))
    tower.residents.pop(resident.name, None)
    # Its name may be wanted again by now.
    tower.wake()


async def _next_step(tower: Tower, resident: Resident) -> None:
    with tower.bus.listening(RESIDENTS) as news:
        if resident.process is not None:
            await _attend(tower, resident, resident.process)
            return
        pause: float | None = None
        if _may_start(tower):
            wanted = resident.residence.next(tower.clock())
            if isinstance(wanted, StartNow):
                await start(tower, resident)
                return
            pause = wanted.seconds
        with anyio.move_on_after(pause):
            await news.wait()


def _may_start(tower: Tower) -> bool:
    """A process takes a slot like a run, and none is started in a tower that is to come to rest."""
    rests = tower.stopping or tower.draining or tower.ground_stop is not None
    return not rests and tower.slots_used < tower.factory.settings.max_concurrent_runs


async def _attend(tower: Tower, resident: Resident, process: Process) -> None:
    """Be with a process that has its record until it is gone, and that is written down."""
    if resident.link is None:
        fresh = await tower.store.read(lambda connection: runs.process(connection, process.id)) or process
        keeper = recover.keeper_of(fresh)
        found, _ = await recover.look(process.id, fresh, keeper)
        match decide(found):
            case Settlement.ADOPT:
                assert keeper is not None  # noqa: S101 (adopting follows from a living keeper)
                link = await recover.reach(tower, process.id, keeper)
                if link is None:
                    await anyio.sleep(recover.MUTE_SEC)
                    return
                await _adopt(tower, resident, link)
            case Settlement.VOID_AND_REQUEUE:
                if not await forbid(Path(process.folder)) and start_of(fresh) is not None:
                    # A keeper of the tower that is gone made `start` at this very moment: it decides.
                    return
    if resident.link is not None:
        await _follow(tower, resident, resident.link)
        resident.link = None
    await write_end(tower, resident)


async def _adopt(tower: Tower, resident: Resident, link: KeeperLink) -> None:
    resident.link = link
    await tower.persist(partial(_record_adoption, tower, resident, link))
    if resident.process is not None:
        # Once more, now that its program is there for certain.
        await _keep_secrets(tower, resident, resident.process)
    resident.quiet_since = tower.clock()


async def _keep_secrets(tower: Tower, resident: Resident, process: Process) -> None:
    keeper, agent = recover.keeper_of(process), tower.factory.agents.get(resident.name)
    runner = tower.factory.runners.get(process.runner or "")
    if keeper is not None and keeper.is_alive:
        await secrecy.keep_found(tower, resident, agent, runner, process, keeper.pid)
        if runner is not None:
            offering.make_ready(tower, runner)


def _record_adoption(tower: Tower, resident: Resident, link: KeeperLink, connection: Connection) -> None:
    record_link(tower, resident, link, connection)
    events.append(connection, tower.event("resident.adopted", agent=resident.name, process=link.run))


async def _follow(tower: Tower, resident: Resident, link: KeeperLink) -> None:
    """Listen to the keeper until the process is gone; the last words of the program are read then."""
    process = resident.process
    assert process is not None  # noqa: S101 (it is attended)
    if resident.lines is None:
        resident.lines = Lines(await _first_unread(tower, process, resident.turn))
    if resident.turn is None:
        await _quietly(link.done())
    turn = resident.turn
    if resident.residence.state is ResidentState.STARTING and link.protocol == KEEPER_PROTOCOL:
        # A keeper of another version only tells: no turn is asked of it.
        resident.residence = resident.residence.started()
        # However long the start took, that was no time in which nothing came for it.
        resident.quiet_since = tower.clock()
    if turn is not None and resident.residence.state is ResidentState.READY:
        turn.live.link = link
        turn.was_alive = True
        resident.residence = resident.residence.turn_began()
        tower.bus.pulse(turn.live.run.id)
    tower.wake()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_mind, tower, resident, link)
            async for word in link.words():
                await _hear(tower, resident, word)
            group.cancel_scope.cancel()
        await resident_output.read_on(tower, resident)
    finally:
        await link.aclose()


async def _hear(tower: Tower, resident: Resident, word: Grew | Ending | Exited | Gone | Turn) -> None:
    match word:
        case Turn(number=number):
            turn = resident.turn
            if turn is not None and turn.is_asked and number < turn.number:
                turn.is_refused = True
                tower.bus.pulse(turn.live.run.id)
        case Ending(why=why):
            resident.residence = resident.residence.ending(why)
        case Exited():
            resident.residence = resident.residence.ending("it has ended")
            await resident_output.read_on(tower, resident)
        case Grew():
            await resident_output.read_on(tower, resident)
        case Gone():
            pass


async def _first_unread(tower: Tower, process: Process, turn: OpenTurn | None) -> int:
    """Where to read on: at the beginning of the open turn, for it may have ended while no tower lived."""
    if turn is not None:
        run = await tower.store.read(lambda connection: runs.get(connection, turn.live.run.id))
        if run is not None and run.out_from is not None:
            return run.out_from
    return await anyio.to_thread.run_sync(log_size, process.folder, "stdout")


async def _mind(tower: Tower, resident: Resident, link: KeeperLink) -> None:
    """Ask the process to end when it is not wanted any more, as a rule after its turn."""
    while True:
        with tower.bus.listening(RESIDENTS) as news:
            why, pause = _unwanted(tower, resident)
            if why is not None and (resident.turn is None or why in AT_ONCE):
                if resident.residence.state is not ResidentState.STOPPING:
                    resident.residence = resident.residence.ending(why)
                    await _quietly(link.stop(why, tower.factory.settings.grace_sec))
                pause = None
            with anyio.move_on_after(pause):
                await news.wait()


def _unwanted(tower: Tower, resident: Resident) -> tuple[str | None, float | None]:
    """Why the process is to end, in a word for its record; or seconds until that is to be looked at again."""
    process = resident.process
    agent = tower.factory.agents.get(resident.name)
    if tower.ground_stop is not None:
        return "halted", None
    if tower.is_ending_all:
        return "stop", None
    if agent is None or process is None or resident.name not in tower.factory.residents:
        return "removed", None
    if fingerprint(agent, tower.factory.runners[agent.runner]) != process.fingerprint:
        return "changed", None
    if resident.is_to_restart:
        return "restart", None
    if agent.max_turns is not None and process.turns >= agent.max_turns:
        return "max-turns", None
    if agent.max_idle_sec is None or resident.turn is not None:
        return None, None
    left = resident.quiet_since + agent.max_idle_sec - tower.clock()
    return ("idle", None) if left <= 0 else (None, left)


async def _known(tower: Tower, name: str) -> Resident:
    """A resident as the store remembers it, without a process."""
    now = tower.clock()

    def read(connection: Connection) -> Resident:
        said = residents.standing(connection, name)
        since = max(now - WINDOW_SEC, said.cleared_at or 0.0)
        quarantine = said.quarantine if said.quarantined_at is not None else None
        residence = remembered(residents.exits(connection, name, since), now, quarantined=quarantine)
        return Resident(name=name, residence=residence)

    return await tower.store.read(read)


async def _quietly(asking: object) -> None:
    """Ask something of a keeper that may be of another version, which only tells."""
    try:
        await asking  # type: ignore[misc]
    except ConflictError as error:
        log.warning("resident.cannot-ask", error=str(error))
