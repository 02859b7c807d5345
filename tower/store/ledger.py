"""Money as the store keeps it: what is set aside for runs, what they were charged, the window of the Reserve.

The sums on an itinerary are kept beside the runs that they are sums of, and change with them in one transaction. What
is set aside, and what a run is charged, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from tower.core.budget import HISTORY, Window
from tower.core.records import Flight
from tower.core.states import HeldReason
from tower.store.database import Connection, row, rows
from tower.store.flights import flight_of


def history(connection: Connection, agent: str) -> list[int]:
    """What the last priced runs of an agent cost, newest first, micro-dollars."""
    sql = "SELECT cost FROM runs WHERE agent = ? AND cost IS NOT NULL ORDER BY id DESC LIMIT ?"
    return [found[0] for found in rows(connection, sql, (agent, HISTORY))]


def set_aside(connection: Connection, itinerary: str, amount: int) -> None:
    """Reserve micro-dollars of a chain's Fuel for a run that is claimed in the same transaction."""
    connection.execute("UPDATE itineraries SET fuel_reserved = fuel_reserved + ? WHERE id = ?", (amount, itinerary))


def raise_to(connection: Connection, run: str, amount: int) -> bool:
    """Set aside as much as an open run is seen to have cost; returns whether that is more than before."""
    found = row(
        connection,
        "SELECT itinerary, reserved FROM runs WHERE id = ? AND state != 'ended' AND reserved < ?",
        (run, amount),
    )
    if found is None:
        return False
    connection.execute("UPDATE runs SET reserved = ? WHERE id = ?", (amount, run))
    set_aside(connection, found["itinerary"], amount - found["reserved"])
    return True


def settle(connection: Connection, run: str, charged: int) -> None:
    """Give back what was set aside for a run and charge it, once, however often it is told."""
    found = row(connection, "SELECT itinerary, reserved FROM runs WHERE id = ? AND charged IS NULL", (run,))
    if found is None:
        return
    connection.execute("UPDATE runs SET reserved = 0, charged = ? WHERE id = ?", (charged, run))
    connection.execute(
        "UPDATE itineraries SET fuel_reserved = fuel_reserved - ?, fuel_spent = fuel_spent + ? WHERE id = ?",
        (found["reserved"], charged, found["itinerary"]),
    )


def note_overshoot(connection: Connection, itinerary: str, at: float) -> bool:
    """Remember when a chain first went past its Fuel; returns whether that is now."""
    cursor = connection.execute(
        "UPDATE itineraries SET overshot_at = ? WHERE id = ? AND overshot_at IS NULL"
        " AND fuel_spent + fuel_reserved > fuel_limit",
        (at, itinerary),
    )
    return cursor.rowcount == 1


def refuel(connection: Connection, itinerary: str, amount: int) -> None:
    """Add micro-dollars to what a chain may spend."""
    connection.execute("UPDATE itineraries SET fuel_limit = fuel_limit + ? WHERE id = ?", (amount, itinerary))


def window(connection: Connection, *, now: float, seconds: float) -> Window:
    """The sums of the Reserve's window. A run that ended in the future, by a clock set back since, is in it."""
    spent = row(connection, "SELECT sum(charged) FROM runs WHERE charged > 0 AND ended_at > ?", (now - seconds,))
    alive = row(connection, "SELECT sum(reserved) FROM runs WHERE state != 'ended'")
    return Window(spent=(spent and spent[0]) or 0, reserved=(alive and alive[0]) or 0)


def leaves(connection: Connection, *, now: float, seconds: float) -> list[tuple[float, int]]:
    """What leaves the window when: by the minute, at its end, so that nothing is said to be free too early."""
    sql = (
        "SELECT max(ended_at) + ?, sum(charged) FROM runs WHERE charged > 0 AND ended_at > ?"
        " GROUP BY CAST(ended_at / 60 AS INTEGER) ORDER BY 1"
    )
    return [(found[0], found[1]) for found in rows(connection, sql, (seconds, now - seconds))]


def marks(connection: Connection) -> set[int]:
    """The marks of the Reserve (percent) that people have been told of and that still hold."""
    return {found[0] for found in rows(connection, "SELECT percent FROM reserve_marks")}


def set_marks(connection: Connection, percents: Iterable[int]) -> None:
    """Let exactly these hold."""
    connection.execute("DELETE FROM reserve_marks")
    connection.executemany("INSERT INTO reserve_marks (percent) VALUES (?)", [(percent,) for percent in percents])


def held_for_fuel(connection: Connection, itinerary: str) -> list[Flight]:
    """Flights of a chain that wait for its Fuel, in the order in which they are served."""
    sql = (
        "SELECT * FROM flights WHERE itinerary = ? AND state = 'held' AND held_reason = 'fuel'"
        " AND (joined IS NULL OR joined = id)"
        " ORDER BY priority DESC, created_at, id"
    )
    return [flight_of(found) for found in rows(connection, sql, (itinerary,))]


def first_held(connection: Connection, reason: HeldReason, limit: int) -> list[Flight]:
    """Flights held for one reason, in the order in which they are served."""
    sql = (
        "SELECT * FROM flights WHERE state = 'held' AND held_reason = ? AND (joined IS NULL OR joined = id)"
        " ORDER BY priority DESC, created_at, id LIMIT ?"
    )
    return [flight_of(found) for found in rows(connection, sql, (reason, limit))]
