"""Work that is started again on a person's word: what was interrupted, what failed, what a ground stop had ended.

Who may ask is `control`'s. What could never start is refused at once, in the words in which the queue would refuse it.
"""

from __future__ import annotations

from tower.core import checks
from tower.core.errors import ConflictError
from tower.core.rails import Refuse, Room
from tower.core.records import Flight, Run
from tower.core.states import Cause, FlightState, HeldReason, Outcome
from tower.engine.tower import Tower
from tower.store import events, flights, itineraries, runs
from tower.store.database import Connection


async def by_a_person(tower: Tower, run: Run, *, person: str, note: str | None, force: bool) -> Flight:
    """Start the interrupted work of a run again; returns the first flight of it.

    Raises `ConflictError` when nothing of it waits for that word, when only `force` may go beyond the limit, or when
    its chain takes no more runs.
    """

    def transaction(connection: Connection) -> Flight:
        told = [flight for flight in flights.of_run(connection, run.id) if _waits_for_a_word(flight, run, force)]
        if not told:
            raise _nothing_to_recover(flights.of_run(connection, run.id), run)
        _expect_room(connection, f"recover run {run.id}", run.itinerary)
        for flight in told:
            _start_again(tower, connection, flight, run, person, note)
        return flights.get(connection, told[0].id) or told[0]

    flight = await tower.store.write(transaction)
    tower.wake()
    return flight


async def retry(tower: Tower, flight_id: str, *, person: str, note: str | None) -> Flight:
    """Do a flight again that is over and did not succeed; its new run is told what the last one left.

    Raises `ConflictError` for one that succeeded, was cancelled or refused, or is not over, and for one whose chain
    takes no more runs.
    """

    def transaction(connection: Connection) -> Flight:
        flight = flights.get(connection, flight_id)
        if flight is not None and flight.joined is not None:
            # What a join released together is done again together.
            flight = flights.get(connection, flight.joined)
        before = runs.of_flight(connection, flight_id)
        assert flight is not None  # noqa: S101 (looked up by the caller, and never deleted)
        over = flight.state in (FlightState.LANDED, FlightState.DEAD, FlightState.HALTED)
        if not before or not over or flight.outcome is Outcome.SUCCEEDED:
            raise ConflictError(
                "nothing-to-retry",
                f"cannot retry flight {flight_id}: it is {flight.outcome or flight.state}",
                "what succeeded, was cancelled or was refused is sent anew with `tower send`",
            )
        _expect_room(connection, f"retry flight {flight_id}", flight.itinerary)
        _start_again(tower, connection, flight, before[-1], person, note)
        return flights.get(connection, flight_id) or flight

    flight = await tower.store.write(transaction)
    tower.wake()
    return flight


async def all_halted(tower: Tower, *, person: str) -> int:
    """Start again what ground stops ended; returns how many flights. Those of chains that take no more runs stay."""

    def transaction(connection: Connection) -> int:
        count = 0
        for flight in flights.listing(connection, state=FlightState.HALTED, limit=100_000):
            before = runs.of_flight(connection, flight.id)
            if before and _refusal(connection, flight.itinerary) is None:
                _start_again(tower, connection, flight, before[-1], person, None)
                count += 1
        return count

    count = await tower.store.write(transaction)
    tower.wake()
    return count


def _waits_for_a_word(flight: Flight, run: Run, force: bool) -> bool:
    if flight.follows_run not in (None, run.id):
        return False
    held = flight.state is FlightState.HELD and flight.held_reason in (HeldReason.RECOVERY, HeldReason.UNCONFIRMED)
    return held or flight.state is FlightState.HALTED or (force and flight.state is FlightState.DEAD)


def _nothing_to_recover(told: list[Flight], run: Run) -> ConflictError:
    if any(flight.state is FlightState.DEAD for flight in told):
        return ConflictError(
            "recoveries-spent",
            f"cannot recover run {run.id}: its recoveries are used up, or its agent's policy is never",
            f"`tower recover {run.id} --force` gives it one more attempt",
        )
    states = ", ".join(dict.fromkeys(flight.state for flight in told)) or "gone"
    return ConflictError(
        "nothing-to-recover",
        f"cannot recover run {run.id}: nothing of it waits for recovery (its flight is {states})",
        "send the flight anew if you want it done again",
    )


def _refusal(connection: Connection, itinerary: str) -> Refuse | None:
    """Why no run of a chain could ever start again, as admission would say it."""
    chain = itineraries.get(connection, itinerary)
    refusal = None if chain is None else checks.chain_stands(chain) or checks.within_run_cap(chain, Room([]))
    return refusal if isinstance(refusal, Refuse) else None


def _expect_room(connection: Connection, what: str, itinerary: str) -> None:
    refusal = _refusal(connection, itinerary)
    if refusal is not None:
        why, _, hint = refusal.words.partition("; ")
        raise ConflictError("chain-closed", f"cannot {what}: {why}", hint)


def _start_again(tower: Tower, connection: Connection, flight: Flight, run: Run, person: str, note: str | None) -> None:
    flights.move(
        connection,
        flight.id,
        FlightState.QUEUED,
        attempt=run.attempt + 1,
        cause=Cause.RECOVERY,
        follows_run=run.id,
        note=note,
        not_before=None,
        outcome=None,
        ended_at=None,
    )
    event = tower.event(
        "flight.recovered", flight=flight.id, itinerary=flight.itinerary, agent=flight.receiver, run=run.id, by=person
    )
    events.append(connection, event)
