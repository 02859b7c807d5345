"""What happens after an interruption, and what to do with what a crash left: two decisions, as values.

`settle` names what was found on disk and among the processes; `decide` applies an agent's recovery policy to a run
that was cut off. Looking, ending processes, and writing any of it down are left to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tower.core.factory import Agent, RecoveryPolicy
from tower.core.launch import ExitRecord, StartRecord
from tower.core.outcome import limit_words
from tower.core.states import FlightState, Interruption, Outcome

PAUSES: Final = (5.0, 30.0, 120.0)
"""Seconds before the first, the second and every later recovery: a fault that passes has time to pass."""

FAILED: Final = "failed"
"""The name in `recover_on` for a run that ended by its own choice, as failed."""

_BY_ACCIDENT: Final = frozenset({Interruption.TOWER_RESTART, Interruption.CRASH, Interruption.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Start it again, with a handover note, after so many seconds."""

    after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldForPerson:
    """Wait for somebody to say."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldForFuel:
    """Go on, with a handover note, when its chain has money again."""

    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The flight is over, in this state."""

    state: FlightState
    words: str
    outcome: Outcome | None = None
    """What the run is recorded as instead of its verdict, where that changes."""


Next = Recover | HoldForPerson | HoldForFuel | End


def decide(
    *, run: str, cut: Interruption | None, agent: Agent, attempt: int, jitter: float, why: str | None = None
) -> Next:
    """What becomes of the flights of a run that did not finish.

    `cut` is None for a run that failed by its own choice. `attempt` is that run's number (1 is the first dispatch);
    `jitter` is a factor near 1 for the pause, so that runs cut off together do not come back together. `why` is how the
    run ended, in words; what is decided is said after it.
    """
    by_person = _by_person(cut)
    if by_person is not None:
        return by_person
    if cut is Interruption.FUEL:
        return _out_of_fuel(run, agent)
    name = FAILED if cut is None else cut.value
    how = why or limit_words(name, agent) or ("it failed" if cut is None else f"it was cut off ({name})")
    if name not in agent.recover_on:
        # The verdict "interrupted" promises that something follows; here nothing does.
        outcome = Outcome.FAILED if cut in _BY_ACCIDENT else None
        words = f"{how}; {name} is not among what {agent.name} recovers on, so nothing follows"
        return End(state=FlightState.LANDED, words=words, outcome=outcome)
    force = f"`tower recover {run} --force` tries once more"
    if agent.recovery is RecoveryPolicy.NEVER:
        return End(state=FlightState.DEAD, words=f"{how}; {agent.name} is never recovered (its policy); {force}")
    if agent.recovery is RecoveryPolicy.MANUAL:
        return HoldForPerson(words=f"{how}; `tower recover {run}` starts it again, `tower cancel {run}` ends it")
    used = attempt - 1
    if used >= agent.max_recovery_attempts:
        spent = _spent(agent.max_recovery_attempts)
        return End(state=FlightState.DEAD, words=f"{how}; {spent}; {force}")
    return Recover(after_seconds=PAUSES[min(used, len(PAUSES) - 1)] * jitter)


def _by_person(cut: Interruption | None) -> Next | None:
    """What a person did is not up to the policy."""
    if cut is Interruption.CANCELLED:
        return End(state=FlightState.CANCELLED, words="a person cancelled it")
    if cut is Interruption.GROUND_STOP:
        return End(
            state=FlightState.HALTED,
            words="a ground stop ended it; `tower recover --all-halted` starts what it ended again",
        )
    if cut is Interruption.STEERED:
        return Recover(after_seconds=0.0)
    return None


def _out_of_fuel(run: str, agent: Agent) -> Next:
    """Money is what it lacks, whatever it recovers on; who may start it again says the policy all the same."""
    how = "it took its chain past its Fuel, and was ended (fuel_action = stop)"
    if agent.recovery is RecoveryPolicy.NEVER:
        words = f"{how}; {agent.name} is never recovered (its policy); `tower recover {run} --force` tries once more"
        return End(state=FlightState.DEAD, words=words)
    if agent.recovery is RecoveryPolicy.MANUAL:
        return HoldForPerson(words=f"{how}; `tower recover {run}` starts it again, `tower cancel {run}` ends it")
    return HoldForFuel(words=f"{how}; `tower refuel` gives its itinerary more, and lets it go on")


def _spent(attempts: int) -> str:
    if attempts == 0:
        return "recovery is turned off (max_recovery_attempts = 0)"
    return "its one recovery is used up" if attempts == 1 else f"its {attempts} recoveries are used up"


class Sight(StrEnum):
    """What looking for a process by pid, start time and boot told. A pid used by another program counts as gone."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is left of a run that the records show as open."""

    start: StartRecord | None
    """None: no keeper has let the program run so far."""
    exit: ExitRecord | None
    keeper: Sight
    survivors: Sight
    """Processes of the run other than its keeper."""
    same_boot: bool
    """The machine has not been started anew since `start` was written; true as well where there is no `start`."""


class Settlement(StrEnum):
    """What is to be done with it."""

    ADOPT = "adopt"
    """Watch it again, as if nothing had happened."""
    SETTLE_AS_ENDED = "settle-as-ended"
    """Judge it by its exit record, at the time it ended."""
    END_SURVIVORS_THEN_SETTLE = "end-survivors-then-settle"
    INTERRUPTED = "interrupted"
    """It had started, so it may have done anything: the policy decides."""
    END_SURVIVORS_THEN_INTERRUPTED = "end-survivors-then-interrupted"
    VOID_AND_REQUEUE = "void-and-requeue"
    """It provably never started: forbid it (whoever creates `start` decides), then queue its flights as they were."""
    HOLD_UNCONFIRMED = "hold-unconfirmed"
    """Something of it may be alive, and nobody can say: it is not started again on a guess."""


def settle(found: Found) -> Settlement:
    """What to do with an open run. Nothing is started again before all of the earlier run is known to be gone."""
    if _never_started(found):
        return Settlement.VOID_AND_REQUEUE
    if found.keeper is Sight.ALIVE and found.same_boot:
        return Settlement.ADOPT
    match _remains(found):
        case Sight.UNKNOWN:
            return Settlement.HOLD_UNCONFIRMED
        case Sight.ALIVE:
            ended = found.exit is not None
            return Settlement.END_SURVIVORS_THEN_SETTLE if ended else Settlement.END_SURVIVORS_THEN_INTERRUPTED
        case Sight.GONE:
            return Settlement.SETTLE_AS_ENDED if found.exit is not None else Settlement.INTERRUPTED


def _never_started(found: Found) -> bool:
    """A keeper creates `start` before it lets the program run, so an exit without one means that `start` was lost."""
    return found.exit is None if found.start is None else found.start.void


def _remains(found: Found) -> Sight:
    """Whether anything of a run without a living keeper may be alive."""
    no_process_left = found.exit is not None and found.exit.swept
    if no_process_left or not found.same_boot:
        return Sight.GONE
    if found.keeper is Sight.UNKNOWN or found.survivors is Sight.UNKNOWN:
        return Sight.UNKNOWN
    return found.survivors
