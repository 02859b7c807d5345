"""Joins: what becomes of deliveries at the barrier before a receiver, and when a barrier is given up.

Owns the rules of waves. A state and what happened give the new state and what is to be done; nothing is written here.
Which senders can still deliver is asked of `reach`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tower.core import reach
from tower.core.routes import Join, JoinKind, Route
from tower.core.states import ALIVE, WAITING, FlightState, Outcome


class Standing(StrEnum):
    """Whether a delivery counts, by how the work that it came from ended."""

    PENDING = "pending"
    """That work is not over."""
    GOOD = "good"
    BAD = "bad"
    """It ended in a way for which the join does not accept it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A flight of a named sender to a joined receiver."""

    flight: str
    sender: str
    hops: int
    """That it has left."""
    standing: Standing = Standing.PENDING
    origin: frozenset[str] = frozenset()
    """The flights that woke the run which sent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """What stands before one receiver in one chain."""

    receiver: str
    join: Join
    wave: int = 1
    parked: tuple[Delivery, ...] = ()
    """Of this wave, at most one of each sender."""
    answered: frozenset[str] = frozenset()
    """Who had delivered when this wave woke the receiver without the others, and since; empty: it has not yet."""
    since: float | None = None
    """When the first delivery of this wave was parked, seconds since the epoch."""
    is_given_up: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """Whose delivery does not count or has not come, in the order of `from`."""
        there = {it.sender for it in self.parked if it.standing is not Standing.BAD}
        return tuple(sender for sender in self.join.senders if sender not in there)

    @property
    def due_at(self) -> float | None:
        """When it is not waited any longer; None: never."""
        waits = self.parked and not self.is_given_up and self.since is not None and self.join.timeout_sec is not None
        return (self.since or 0.0) + (self.join.timeout_sec or 0.0) if waits else None

    def words(self) -> str:
        """How it stands, for people: what it waits for, or that it was given up."""
        there = ", ".join(it.sender for it in self.so_far(Standing.GOOD)) or "nobody"
        ending = ", ".join(it.sender for it in self.so_far(Standing.PENDING))
        coming = [f"the end of {ending}'s run"] if ending else []
        if len(self.so_far(Standing.GOOD, Standing.PENDING)) < self.join.needed:
            coming.append(
                " or ".join(self.missing) if self.join.needed < len(self.join.senders) else ", ".join(self.missing)
            )
        if self.join.kind is JoinKind.SETTLED and not ending:
            coming = ["the end of all that could still deliver"]
        waits = "was given up without" if self.is_given_up else "waits for"
        return f"the join before {self.receiver} has {there} and {waits} {' and '.join(coming) or 'nothing'}"

    def so_far(self, *standings: Standing) -> tuple[Delivery, ...]:
        """Its deliveries of these standings, in the order of `from`."""
        order = self.join.senders.index
        return tuple(sorted((it for it in self.parked if it.standing in standings), key=lambda it: order(it.sender)))


@dataclass(frozen=True, slots=True)
class Park:
    """These wait at the barrier."""

    receiver: str
    flights: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Supersede:
    """These do nothing any more; they stay in the record."""

    receiver: str
    flights: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Release:
    """These wake the receiver, together and in this order."""

    receiver: str
    flights: tuple[str, ...]
    hops: int
    """The fewest that any of them has left: a chain is as deep as its longest way."""


@dataclass(frozen=True, slots=True)
class Strand:
    """The barrier is given up with these."""

    receiver: str
    flights: tuple[str, ...]
    missing: tuple[str, ...]
    words: str


Action = Park | Supersede | Release | Strand


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """All of one chain that its joins depend on."""

    routes: tuple[Route, ...]
    """Those that serve it, to agents that can be sent to."""
    places: tuple[reach.Place, ...]
    """Where it is alive or may come back to life: queued, held, starting, running, or ended by a ground stop."""
    barriers: Mapping[str, Barrier] = field(default_factory=dict)
    """Receiver -> its barrier, for every receiver that is joined in this chain."""


def standing(woken_by: Iterable[tuple[FlightState, Outcome | None]], join: Join) -> Standing:
    """What a delivery is worth, by the flights that woke the run which sent it.

    What a run says while it goes on counts when it has ended well: until then it may fail, or turn out as suspect.
    What a ground stop ended may go on.
    """
    known = tuple(woken_by)
    if any(state in WAITING | ALIVE | {FlightState.HALTED} for state, _ in known):
        return Standing.PENDING
    accepted = {Outcome.SUCCEEDED, *((Outcome.SUSPECT,) if join.accept_suspect else ())}
    good = all(state is FlightState.LANDED and outcome in accepted for state, outcome in known)
    return Standing.GOOD if good else Standing.BAD


def arrive(barrier: Barrier, delivery: Delivery, now: float, *, is_answer: bool) -> tuple[Barrier, tuple[Action, ...]]:
    """A named sender delivers. `is_answer`: it does so because of what this wave woke the receiver with."""
    receiver, done = barrier.receiver, []
    earlier = next((it for it in barrier.parked if it.sender == delivery.sender), None)
    is_correction = earlier is not None and (earlier.standing is Standing.BAD or earlier.origin == delivery.origin)
    if earlier is not None and is_correction:
        words = f"{delivery.sender} delivered another in its place"
        done.append(Supersede(receiver, (earlier.flight,), words))
        barrier = replace(barrier, parked=tuple(it for it in barrier.parked if it is not earlier))
    elif earlier is not None or delivery.sender in barrier.answered or (barrier.answered and is_answer):
        if barrier.parked:
            words = f"{delivery.sender} delivered anew before all others had: all deliver again"
            done.append(Supersede(receiver, tuple(it.flight for it in barrier.parked), words))
        barrier = Barrier(receiver=receiver, join=barrier.join, wave=barrier.wave + 1)
    elif barrier.answered:
        words = f"{receiver} had been woken without it"
        late = replace(barrier, answered=barrier.answered | {delivery.sender})
        return _closed(late), (Supersede(receiver, (delivery.flight,), words),)
    back = tuple(it.flight for it in barrier.parked) if barrier.is_given_up else ()
    goes_on = barrier.parked and barrier.since is not None and not barrier.is_given_up
    since = barrier.since if goes_on else now
    barrier = replace(barrier, parked=(*barrier.parked, delivery), since=since, is_given_up=False)
    return barrier, (*done, Park(receiver, (*back, delivery.flight)))


def by_hand(barrier: Barrier) -> tuple[Barrier, tuple[Action, ...]]:
    """A person has the receiver woken with what is there, whatever it counts."""
    return _open(barrier, barrier.so_far(*Standing), frozenset(it.sender for it in barrier.parked))


def look(chain: Chain, now: float) -> tuple[Chain, tuple[Action, ...]]:
    """What the barriers of a chain do as it stands: open, wait, or be given up. Looking twice changes nothing more."""
    done: list[Action] = []
    while (step := _step(chain, now)) is not None:
        barrier, actions = step
        woken = [reach.Place(agent=it.receiver, hops=it.hops) for it in actions if isinstance(it, Release)]
        barriers = {**chain.barriers, barrier.receiver: barrier}
        chain = replace(chain, barriers=barriers, places=(*chain.places, *woken))
        done += actions
    return chain, tuple(done)


def _step(chain: Chain, now: float) -> tuple[Barrier, tuple[Action, ...]] | None:
    """The next thing that a barrier does, or None. What opens goes first: it is a place from which flights come."""
    waiting = [barrier for _, barrier in sorted(chain.barriers.items()) if barrier.parked and not barrier.answered]
    for barrier in waiting:
        good = barrier.so_far(Standing.GOOD)
        if barrier.join.kind is not JoinKind.SETTLED and len(good) >= barrier.join.needed:
            return _open(barrier, good, frozenset(it.sender for it in barrier.parked))
    for barrier in waiting:
        good = barrier.so_far(Standing.GOOD)
        if barrier.join.kind is JoinKind.SETTLED and good and not _still_comes(chain, barrier, now):
            # Nothing was on its way any more: whatever comes later is a matter of its own.
            return _open(barrier, good, frozenset(barrier.join.senders))
    for barrier in waiting:
        if not barrier.is_given_up and (words := _why_hopeless(chain, barrier, now)):
            held = tuple(it.flight for it in barrier.so_far(*Standing))
            return replace(barrier, is_given_up=True), (Strand(barrier.receiver, held, barrier.missing, words),)
    return None


def _open(
    barrier: Barrier, chosen: tuple[Delivery, ...], answered: frozenset[str]
) -> tuple[Barrier, tuple[Action, ...]]:
    """Wake the receiver with `chosen` of what is parked; the rest is superseded."""
    rest = tuple(it.flight for it in barrier.parked if it not in chosen)
    hops = min(it.hops for it in chosen)
    done: list[Action] = [Release(barrier.receiver, tuple(it.flight for it in chosen), hops)]
    if rest:
        done.append(Supersede(barrier.receiver, rest, f"{barrier.receiver} was woken without it"))
    return _closed(replace(barrier, parked=(), answered=answered, since=None, is_given_up=False)), tuple(done)


def _closed(barrier: Barrier) -> Barrier:
    """The next wave, when every sender has had its say in this one."""
    if barrier.answered.issuperset(barrier.join.senders):
        return Barrier(receiver=barrier.receiver, join=barrier.join, wave=barrier.wave + 1)
    return barrier


def _is_due(barrier: Barrier, now: float) -> bool:
    return barrier.due_at is not None and barrier.due_at <= now


def _still_comes(chain: Chain, barrier: Barrier, now: float) -> bool:
    """Whether anything that is alive may still deliver here. Two `settled` barriers do not wait for each other."""
    if _is_due(barrier, now):
        return False
    if barrier.so_far(Standing.PENDING):
        return True
    ahead = _ahead(chain)
    return any(ahead.brings(sender, barrier.receiver) for sender in barrier.join.senders)


def _why_hopeless(chain: Chain, barrier: Barrier, now: float) -> str | None:
    """In words, why a barrier that is not open never will be; None while it may."""
    missing = ", ".join(barrier.missing)
    if _is_due(barrier, now):
        lost = missing or ", ".join(it.sender for it in barrier.so_far(Standing.PENDING))
        return f"{lost} did not deliver within {barrier.join.timeout_sec:g} s"
    there = len(barrier.so_far(Standing.GOOD, Standing.PENDING))
    if there >= barrier.join.needed:
        return None
    ahead = _ahead(chain)
    coming = sum(ahead.brings(sender, barrier.receiver) for sender in barrier.missing)
    if there + coming >= barrier.join.needed:
        return None
    return f"nothing is under way any more that could make {missing} deliver"


def _ahead(chain: Chain) -> reach.Reachable:
    """What may still happen in the chain, by deliveries, and by the end of work that a barrier waits for."""
    opening = []
    for barrier in chain.barriers.values():
        counted = barrier.so_far(Standing.GOOD, Standing.PENDING)
        if barrier.so_far(Standing.PENDING) and not barrier.answered and len(counted) >= barrier.join.needed:
            # It opens without a further delivery: when that work has ended well.
            hops = sorted((it.hops for it in counted), reverse=True)[barrier.join.needed - 1]
            opening.append(reach.Place(agent=barrier.receiver, hops=hops))
    return reach.reachable((*chain.places, *opening), chain.routes, map(_as_seen_by_reach, chain.barriers.values()))


def _as_seen_by_reach(barrier: Barrier) -> reach.Barrier:
    counted = barrier.so_far(Standing.GOOD, Standing.PENDING)
    return reach.Barrier(
        receiver=barrier.receiver,
        senders=barrier.join.senders,
        needed=barrier.join.needed,
        parked={it.sender: it.hops for it in counted},
    )
