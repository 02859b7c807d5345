"""Preparing a start: what the run would be told, its environment, its command; everything before the claim.

What stands in the way becomes a hold, and nothing has been made. The texts are `core.payload`'s and
`core.handover`'s, the variables `core.environment`'s, the command `runners`'; this module gathers what they need.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tower.core import environment, ids
from tower.core.admission import Hold
from tower.core.environment import Environment, Missing
from tower.core.errors import BusyError
from tower.core.factory import PERSON, Access, Agent, Factory, Runner
from tower.core.launch import Launch, Limits
from tower.core.payload import Briefing, Peer, estimate_tokens, payload
from tower.core.records import Flight, Sender
from tower.core.states import HeldReason
from tower.engine.handing_over import handover_for
from tower.engine.tower import Tower
from tower.runners import Invocation, of
from tower.system import fake_agent
from tower.system.files import read_regular, size_of

TOKEN_BYTES: Final = 32
"""256 random bits: it cannot be guessed, and only its hash is stored."""

PROGRAM_PAUSE_SEC: Final = 60.0
"""Before it is looked again whether a missing program has been installed."""

NOT_YET: Final = "run_" + "0" * 26
"""Stands for the ids of a run that is only previewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A flight that may start, with what its start is made of."""

    factory: Factory
    agent: Agent
    runner: Runner
    flight: Flight
    run_id: str
    token: str = field(repr=False)
    memory: bytes = b""
    memory_total: int = 0
    handover: str | None = None
    estimate_tokens: int = 0

    @property
    def token_sha256(self) -> str:
        """What the store keeps of the token."""
        return hash_of(self.token)


def hash_of(token: str) -> str:
    """The only form in which a token is kept."""
    return hashlib.sha256(token.encode()).hexdigest()


async def prepare(tower: Tower, factory: Factory, flight: Flight) -> Prepared | Hold:
    """Everything that can be known before the claim, by the generation that the start was decided with.

    Returns a hold when the run could not start.
    """
    agent = factory.agents[flight.receiver]
    runner = factory.runners[agent.runner]
    memory, total = _memory(tower.state.hangar(agent.name), agent.memory_bytes)
    prepared = Prepared(
        factory=factory,
        agent=agent,
        runner=runner,
        flight=flight,
        run_id=tower.new_id(ids.RUN),
        token=tower.chance(TOKEN_BYTES).hex(),
        memory=memory,
        memory_total=total,
        handover=await handover_for(tower, agent, flight),
    )
    found = _environment(tower, prepared, number=0)
    if isinstance(found, Missing):
        return Hold(HeldReason.ENVIRONMENT, f"{found}; {_how_to_mend(found)}")
    if not Path(agent.work_dir).is_dir():
        return Hold(HeldReason.ENVIRONMENT, f"there is no folder {agent.work_dir} for {agent.name} to work in; make it")
    told = _payload(prepared, workspace=_place(tower, prepared))
    size = len(told.encode())
    estimate = estimate_tokens(size, runner.estimate_base, runner.estimate_per_byte)
    if agent.context_budget is not None and estimate > agent.context_budget:
        return Hold(
            HeldReason.OVER_BUDGET,
            f"what {agent.name} would be told has {size} bytes, some {estimate} tokens, which is"
            f" {estimate / agent.context_budget:.1f} times agents.{agent.name}.context_budget"
            f" ({agent.context_budget}); shorten it and send anew, or raise the budget",
        )
    program = _argv(tower, prepared, _place(tower, prepared))[0]
    if not _is_installed(program, agent.work_dir, found.values["PATH"]):
        return Hold(
            HeldReason.QUOTA,
            f"cannot find the program {program} of runner {runner.name}; install it, or put it on the tower's PATH",
            PROGRAM_PAUSE_SEC,
        )
    return replace(prepared, estimate_tokens=estimate)


def _is_installed(program: str, work_dir: str, path: str) -> bool:
    """Whether a program is there. A relative path counts from where the run works; snapshots are of that place."""
    named = str(Path(work_dir, program)) if "/" in program else program
    return shutil.which(named, path=path) is not None


def launch(tower: Tower, prepared: Prepared, *, number: int, workspace: str) -> Launch:
    """The start as one value, now that its number and its place are known.

    Raises `BusyError` when a variable went away since `prepare`: the next look holds the flight.
    """
    found = _environment(tower, prepared, number=number)
    if isinstance(found, Missing):
        raise BusyError("environment", str(found), _how_to_mend(found))
    agent, settings = prepared.agent, prepared.factory.settings
    return Launch(
        argv=_argv(tower, prepared, workspace),
        env=found.values,
        secrets=(*found.secrets, prepared.token),
        payload=_payload(prepared, workspace),
        limits=Limits(
            timeout=agent.timeout_sec,
            stall=agent.stall_sec,
            first_output=agent.first_output_sec,
            grace=settings.grace_sec,
            linger=agent.linger_sec,
            orphan=agent.orphan_sec,
        ),
        stop_signal=prepared.runner.stop_signal,
    )


def preview(factory: Factory, name: str, body: str, *, hangars: Path, person: str) -> str:
    """Exactly what a run of an agent would be told if `person` sent it `body` now; nothing is started."""
    agent = factory.agents[name]
    memory, total = _memory(hangars / name, agent.memory_bytes)
    flight = Flight(
        id="flt_" + "0" * 26,
        itinerary="itn_" + "0" * 26,
        sender=Sender(kind=PERSON, name=person),
        receiver=name,
        body=body,
        created_at=0.0,
        hops_remaining=factory.settings.max_hops - 1,
    )
    prepared = Prepared(
        factory=factory,
        agent=agent,
        runner=factory.runners[agent.runner],
        flight=flight,
        run_id=NOT_YET,
        token="",
        memory=memory,
        memory_total=total,
    )
    return _payload(prepared, workspace=_planned(factory, agent, NOT_YET))


def _payload(prepared: Prepared, workspace: str) -> str:
    factory, agent, flight = prepared.factory, prepared.agent, prepared.flight
    known = ((name, factory.agents.get(name)) for name in factory.peers(agent.name))
    peers = tuple(Peer(name=name, description=peer.description) for name, peer in known if peer and peer.enabled)
    return payload(
        Briefing(
            agent=agent,
            runner=prepared.runner,
            run=prepared.run_id,
            itinerary=flight.itinerary,
            workspace=workspace,
            sender=flight.sender,
            body=flight.body,
            memory=prepared.memory,
            memory_total=prepared.memory_total,
            handover=prepared.handover,
            # With no hops left nobody can be sent to, and nothing is promised.
            peers=peers if flight.hops_remaining > 0 else (),
        )
    )


def _environment(tower: Tower, prepared: Prepared, *, number: int) -> Environment | Missing:
    folder = tower.state.run_folder(prepared.agent.name, prepared.run_id)
    agent = prepared.agent
    layover = {
        "LAYOVER_AGENT": agent.name,
        "LAYOVER_RUN_ID": prepared.run_id,
        "LAYOVER_RUN_NUMBER": str(number),
        "LAYOVER_ITINERARY": prepared.flight.itinerary,
        "LAYOVER_MODEL": agent.model or "",
        "LAYOVER_EFFORT": agent.effort or "",
        "LAYOVER_SOCKET": prepared.factory.settings.socket,
        "LAYOVER_RUN_TOKEN": prepared.token,
        "LAYOVER_REPORT": str(folder / "out" / "report"),
    }
    return environment.build(
        own=_with_tower_on_path(tower.environ, tower.python),
        credentials=lambda name: _credential(tower.environ, name),
        agent=agent,
        runner=prepared.runner,
        layover=layover,
        home=_home(tower),
        tmpdir=str(folder / "tmp"),
    )


def is_wanting(tower: Tower, flight: Flight) -> bool:
    """Whether what the receiver needs around it, its declared variables and its work tree, is still not there."""
    agent = tower.factory.agents.get(flight.receiver)
    if agent is None or not Path(agent.work_dir).is_dir():
        return True
    prepared = Prepared(
        factory=tower.factory,
        agent=agent,
        runner=tower.factory.runners[agent.runner],
        flight=flight,
        run_id=NOT_YET,
        token="",
    )
    return isinstance(_environment(tower, prepared, number=0), Missing)


def _how_to_mend(missing: Missing) -> str:
    if all(variable.is_absent for variable in missing.variables):
        return "set it where the tower is started and restart, or put it among its credentials"
    return "change what is declared, or its value"


def _credential(environ: Mapping[str, str], name: str) -> str | None:
    """A secret that the service manager handed over as a file (`LoadCredential=`)."""
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if not folder or "/" in name or name.startswith("."):
        return None
    raw = read_regular(Path(folder) / name, environment.MAX_BYTES)
    return None if raw is None else raw.decode(errors="surrogateescape").removesuffix("\n")


def _home(tower: Tower) -> str:
    """The tower's HOME, else the passwd entry's, else (a container's uid may have none) a folder of the tower's own."""
    home = tower.environ.get("HOME")
    if home:
        return home
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        own = tower.state.root / "home"
        own.mkdir(mode=0o700, exist_ok=True)
        return str(own)


def _with_tower_on_path(environ: Mapping[str, str], python: str) -> dict[str, str]:
    """With the folder that `tower` is installed in at the end of PATH, so that a run finds `tower send`."""
    path = environ.get("PATH") or environment.DEFAULT_PATH
    return dict(environ) | {"PATH": f"{path}:{Path(python).parent}"}


def _argv(tower: Tower, prepared: Prepared, workspace: str) -> tuple[str, ...]:
    folder = tower.state.run_folder(prepared.agent.name, prepared.run_id)
    invocation = Invocation(
        workspace=workspace,
        run_dir=str(folder),
        prompt=str(folder / "payload.md"),
        config_dir=str(Path(prepared.factory.path).parent),
        python=tower.python,
        fake_agent=fake_agent.__file__,
    )
    return of(prepared.runner).argv(prepared.runner, prepared.agent, context=invocation)


def _place(tower: Tower, prepared: Prepared) -> str:
    return _planned(prepared.factory, prepared.agent, prepared.run_id)


def _planned(factory: Factory, agent: Agent, run: str) -> str:
    """Where the run will work, as far as it can be told before its place is made."""
    if agent.access is Access.READ_WRITE:
        return agent.work_dir
    return str(Path(factory.settings.snapshots_dir) / run / "tree")


def _memory(hangar: Path, most: int) -> tuple[bytes, int]:
    """The end of an agent's memory and the size of the whole, bytes."""
    path = hangar / "memory.md"
    return read_regular(path, most, tail=True) or b"", size_of(path)
