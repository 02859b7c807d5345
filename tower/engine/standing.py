"""What people say of an agent while the tower runs: paused, resumed, its process to be replaced. It is kept."""

from __future__ import annotations

from tower.core.errors import ConflictError
from tower.engine.tower import Tower
from tower.store import events, residents
from tower.store.database import Connection


async def paused(tower: Tower) -> dict[str, str]:
    """Agent -> who paused it, as the store remembers it."""
    said = await tower.store.read(residents.standings)
    return {one.agent: one.paused_by or "somebody" for one in said if one.paused_at is not None}


async def restart(tower: Tower, name: str, by: str) -> None:
    """Have a resident's process replaced after its turn; what kept it from starting does not count any more.

    Raises `ConflictError` for an agent that is none.
    """
    resident = tower.residents.get(name)
    if resident is None:
        raise ConflictError(
            "not-resident",
            f"cannot restart {name}: it is not kept alive, each of its runs is a process of its own",
            "`tower cancel RUN` ends a run",
        )
    event = tower.event("agent.restarted", agent=name, by=by)

    def transaction(connection: Connection) -> None:
        residents.say(connection, name, quarantined_at=None, quarantine=None, cleared_at=tower.clock())
        events.append(connection, event)

    await tower.store.write(transaction)
    resident.is_to_restart = resident.process is not None
    resident.residence = resident.residence.cleared()
    tower.wake()


async def pause(tower: Tower, name: str, by: str | None) -> None:
    """Have nothing started for an agent from now on, on the word of `by`; None lets it go on. It survives restarts."""
    now = None if by is None else tower.clock()
    event = tower.event("agent.resumed" if by is None else "agent.paused", agent=name, by=by)

    def transaction(connection: Connection) -> None:
        residents.say(connection, name, paused_at=now, paused_by=by)
        events.append(connection, event)

    await tower.store.write(transaction)
    if by is None:
        tower.paused.pop(name, None)
    else:
        tower.paused[name] = by
    tower.wake()
