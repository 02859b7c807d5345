"""Starting the process of a resident: its place, its folder, its keeper; each step after its record is there."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from functools import partial

import anyio.to_thread

from tower.core import ids
from tower.core.environment import Environment, Missing
from tower.core.errors import TowerError
from tower.core.launch import KeeperPlan, Limits
from tower.core.records import RESIDENT_PROCESS, Process
from tower.core.residence import fingerprint
from tower.engine import offering, places, secrecy
from tower.engine.compose import TOKEN_BYTES, hash_of
from tower.engine.enclosure import confinement_of, walls_around
from tower.engine.program import Program, argv_of, environment_of, files_of, how_to_mend, is_installed
from tower.engine.tower import Resident, Tower, log
from tower.store import events, residents, runs
from tower.store.database import Connection
from tower.system.cgroups import group_of
from tower.system.files import write_private
from tower.system.keeperlink import KeeperLink
from tower.system.procfs import boot_id
from tower.system.turnfiles import make_turns


async def start(tower: Tower, resident: Resident) -> None:
    """Start a process for a resident that has none. What keeps it from being started is looked at again soon.

    Afterwards the resident has a record of its process, with a connection to the keeper if the start went well.
    """
    factory = tower.factory
    agent = factory.agents[resident.name]
    runner = factory.runners[agent.runner]
    resident.residence = resident.residence.starting()
    before = await tower.store.read(partial(residents.latest_process, agent=agent.name))
    program = Program(
        factory=factory,
        agent=agent,
        runner=runner,
        id=tower.new_id(ids.PROCESS),
        token=tower.chance(TOKEN_BYTES).hex(),
        is_resident=True,
        session=before.session if before else None,
    )
    try:
        environment = _environment(tower, program)
        held = await confinement_of(tower, agent, runner)
        if held.refusal is not None:
            raise TowerError("sandbox", f"cannot start {agent.name}: {held.refusal}")
        workspace = await places.renew(tower, agent, program.id)
        argv = argv_of(tower, program, workspace.path)
        if not is_installed(argv[0], agent.work_dir, environment.values["PATH"]):
            raise TowerError("no-program", f"cannot find the program {argv[0]} of runner {runner.name}")
        await anyio.to_thread.run_sync(_write_folder, tower, program, argv, environment)
        process = Process(
            id=program.id,
            agent=agent.name,
            folder=str(program.folder(tower)),
            created_at=tower.clock(),
            cgroup=group_of(tower.cgroup, program.id.partition("_")[2]),
            kind=RESIDENT_PROCESS,
            runner=runner.name,
            generation=factory.generation,
            fingerprint=fingerprint(agent, runner),
            token_sha256=hash_of(program.token),
            session=program.session,
        )
        await tower.store.write(partial(runs.insert_process, process=process))
    except TowerError as error:
        log.warning("resident.not-started", agent=agent.name, error=str(error))
        resident.residence = resident.residence.not_started(tower.clock(), str(error))
        tower.wake()
        return
    resident.process, resident.turn = process, None
    resident.known, resident.lines, resident.is_to_restart = {}, None, False
    resident.offered_session = program.session
    resident.quiet_since = tower.clock()
    secrecy.keep(tower, resident, (*environment.secrets, program.token))
    offering.make_ready(tower, runner)
    plan = _plan(tower, program, argv, environment, workspace.path)
    walls = walls_around(tower, held, workspace, program, program.folder(tower))
    await _start_keeper(tower, resident, replace(plan, walls=walls))


async def _start_keeper(tower: Tower, resident: Resident, plan: KeeperPlan) -> None:
    try:
        link = await tower.start_keeper(plan)
    except TowerError as error:
        # What the keeper has left behind says whether anything ran; it is looked at like that of an earlier tower.
        log.warning("resident.start-failed", agent=resident.name, error=str(error))
        resident.start_error = str(error)
        return
    resident.link = link
    # From here on the program may be at work: it is written down who it is, cancelled or not, a full disk or not.
    await tower.persist(partial(record_link, tower, resident, link))


def record_link(tower: Tower, resident: Resident, link: KeeperLink, connection: Connection) -> None:
    """Write down by which processes a resident lives; what is known already stays."""
    known = runs.process(connection, link.run)
    runs.update_process(
        connection,
        link.run,
        keeper_pid=link.pid,
        keeper_ticks=link.ticks,
        boot_id=boot_id(),
        pid=link.agent_pid,
        pid_ticks=link.agent_ticks,
        protocol=link.protocol,
        cgroup=known.cgroup if known is not None and link.is_grouped else None,
        last_seen_at=tower.clock(),
    )
    if known is None or known.keeper_pid is None:
        event = tower.event("resident.started", agent=resident.name, process=link.run)
        events.append(connection, event)


def _environment(tower: Tower, program: Program) -> Environment:
    found = environment_of(tower, program)
    if isinstance(found, Missing):
        raise TowerError("environment", str(found), how_to_mend(found))
    return found


def _write_folder(tower: Tower, program: Program, argv: tuple[str, ...], environment: Environment) -> None:
    folder = program.folder(tower)
    try:
        for made in (folder, folder / "out", folder / "tmp"):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_turns(folder)
        shown = {"argv": list(argv), "environment": sorted(environment.values)}
        shown["forwarded"] = list(environment.forwarded)
        for name, text in files_of(tower, program).items():
            write_private(folder / name, text.encode())
        write_private(folder / secrecy.ARGV, (json.dumps(shown, indent=1) + "\n").encode())
    except OSError as error:
        raise TowerError(
            "run-folder",
            f"cannot write the folder {folder}: {error.strerror}",
            "look at the space and the rights of the state folder",
        ) from error


def _plan(
    tower: Tower, program: Program, argv: tuple[str, ...], environment: Environment, workspace: str
) -> KeeperPlan:
    agent, settings = program.agent, tower.factory.settings
    return KeeperPlan(
        run=program.id,
        folder=str(program.folder(tower)),
        socket_dir=str(tower.state.keepers),
        socket_name=program.id.partition("_")[2],
        argv=argv,
        env=environment.values,
        cwd=workspace,
        umask=tower.agents_umask,
        limits=Limits(
            timeout=None,
            stall=None,
            first_output=None,
            grace=settings.grace_sec,
            linger=agent.linger_sec,
            orphan=agent.orphan_sec,
        ),
        resident=True,
        cgroup=group_of(tower.cgroup, program.id.partition("_")[2]),
        descriptor_limit=tower.descriptors,
        max_log_bytes=settings.max_log_bytes,
        stop_signal=signal.Signals[f"SIG{program.runner.stop_signal}"],
        secrets=(*environment.secrets, program.token),
        failpoints=tower.failpoints,
    )
