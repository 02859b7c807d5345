"""How a run ended: a verdict from evidence, and from nothing else.

Evidence is the keeper's exit record (or that there is none), what the runner's reader saw, and the end of the
output. An exit code is evidence, never the verdict: a run that was stopped is judged by who stopped it. What follows
from a verdict is decided in `recovery`.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tower.core.evidence import Evidence, ResultRecord
from tower.core.factory import Agent
from tower.core.last_words import best_line, one_line
from tower.core.launch import ExitRecord
from tower.core.states import Interruption, Outcome

SHELL_SIGNAL_BASE: Final = 128
"""A shell whose command was killed by signal n exits with 128 + n."""

MISSING_PROGRAM: Final = "exec: ENOENT"
"""How a keeper's `start_error` begins when the program, or the interpreter that it names, is not there."""

PASSING_WANTS: Final = frozenset({"EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "ENOSPC", "EDQUOT"})
"""What a keeper's `start_error` names after its step when the machine, not the program, is why nothing started."""

LAST_SIGNAL: Final = 64
"""The highest signal number on Linux (SIGRTMAX)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the run ended. `interruption` is set when it was cut off, by whatever."""

    outcome: Outcome
    reason: str | None = None
    interruption: Interruption | None = None
    answer: str | None = None
    notes: tuple[str, ...] = ()


CANCELLED: Final = "cancelled"
"""The word of a person who wants nothing more of it."""

BEGUN_AGAIN: Final = frozenset({"stop", "halted", "fuel", "steered"})
"""Words after which the work may go on in another run."""

DONE: Final = "result"
"""The word that comes with the tower's request to stop when the program has printed its result, and stays."""

STOPS: Final = {
    CANCELLED: Verdict(outcome=Outcome.CANCELLED, interruption=Interruption.CANCELLED, reason="a person cancelled it"),
    "steered": Verdict(
        outcome=Outcome.STEERED, interruption=Interruption.STEERED, reason="a person redirected the work"
    ),
    "halted": Verdict(outcome=Outcome.HALTED, interruption=Interruption.GROUND_STOP, reason="a ground stop ended it"),
    "fuel": Verdict(
        outcome=Outcome.INTERRUPTED,
        interruption=Interruption.FUEL,
        reason="it took its chain past its Fuel, and the tower ended it",
    ),
    "removed": Verdict(
        outcome=Outcome.CANCELLED,
        interruption=Interruption.CANCELLED,
        reason="its agent was removed from the configuration",
    ),
    "stop": Verdict(
        outcome=Outcome.INTERRUPTED, interruption=Interruption.TOWER_RESTART, reason="the tower was stopped"
    ),
    DONE: Verdict(
        outcome=Outcome.SUSPECT, reason="it had printed its result and did not end; that result cannot be read any more"
    ),
}
"""By the word that came with the tower's request to stop."""

LIMITS: Final = {
    "timeout": Verdict(
        outcome=Outcome.TIMED_OUT, interruption=Interruption.TIMEOUT, reason="ran for longer than timeout_sec allows"
    ),
    "stall": Verdict(
        outcome=Outcome.STALLED,
        interruption=Interruption.STALL,
        reason="printed nothing more for as long as stall_sec allows",
    ),
    "first_output": Verdict(
        outcome=Outcome.NO_OUTPUT,
        interruption=Interruption.FIRST_OUTPUT,
        reason="printed nothing for as long as first_output_sec allows",
    ),
    "mute": Verdict(
        outcome=Outcome.INTERRUPTED,
        interruption=Interruption.CRASH,
        reason="its program closed its standard output, and could not answer any more",
    ),
    "deaf": Verdict(
        outcome=Outcome.INTERRUPTED,
        interruption=Interruption.CRASH,
        reason="its program closed its standard input before it had read what it was told",
    ),
    "orphan": Verdict(
        outcome=Outcome.INTERRUPTED,
        interruption=Interruption.TOWER_RESTART,
        reason="no tower was connected to it for as long as orphan_sec allows",
    ),
}
"""By the limit that the keeper carried out."""


def verdict(evidence: Evidence) -> Verdict:
    """Judge a run. The first that applies: somebody stopped it, the program could not work, a limit, how it exited."""
    record = evidence.exit
    judged = (
        _finished(evidence)
        or _stopped(evidence)
        or _unavailable(evidence)
        or (_vanished(evidence.without_exit) if record is None else _ended(record, evidence))
    )
    return replace(
        judged,
        reason=None if judged.reason is None else one_line(judged.reason),
        answer=evidence.reading.answer,
        notes=(*evidence.reading.problems, *_cut(evidence), *_notes(record, evidence.reading.record)),
    )


def turn_verdict(evidence: Evidence, *, ok: bool | None, failure: str | None = None) -> Verdict:
    """Judge a turn of a resident. `ok` is what its result line says, and None when it gave none.

    A result stands whatever became of the process afterwards, unless a person had asked the turn to end. Without one
    the end of the process is what cut the turn off: leaving in the middle is no answer, whatever the exit code.
    """
    if ok is None:
        judged = verdict(evidence)
        record = evidence.exit
        if record is not None and judged.interruption is None and judged.outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
            why = f"its program ended (exit code {record.code}) in the middle of the turn, without a result"
            line = best_line(evidence.err_tail, "")
            cut = _crash(one_line(f"{why}: {line}" if line else why))
            return replace(cut, answer=judged.answer, notes=judged.notes)
        return judged
    asked = None if evidence.stopping == "stop" else evidence.stopping
    judged = (_stopped(replace(evidence, exit=None)) if asked else None) or _answered(ok, failure, evidence)
    return replace(
        judged,
        reason=None if judged.reason is None else one_line(judged.reason),
        answer=evidence.reading.answer,
        notes=evidence.reading.problems,
    )


def _answered(ok: bool, failure: str | None, evidence: Evidence) -> Verdict:
    if ok:
        return Verdict(outcome=Outcome.SUCCEEDED)
    if evidence.reading.unavailable is not None:
        return Verdict(outcome=Outcome.UNAVAILABLE, reason=evidence.reading.unavailable)
    return Verdict(outcome=Outcome.FAILED, reason=failure)


def overrules(word: str, before: str) -> bool:
    """Whether a request to end takes the place of the one before: what a person ends is not begun again."""
    return word == CANCELLED and before in BEGUN_AGAIN


def limit_words(limit: str, agent: Agent | None) -> str | None:
    """What a run did that a limit ended, with the time that its agent was given; None for what is no limit."""
    seconds: Mapping[str, tuple[str, float | None]] = (
        {}
        if agent is None
        else {
            "timeout": ("ran for longer than {} s (timeout_sec)", agent.timeout_sec),
            "stall": ("printed nothing more for {} s (stall_sec)", agent.stall_sec),
            "first_output": ("printed nothing for {} s (first_output_sec)", agent.first_output_sec),
        }
    )
    words, allowed = seconds.get(limit, ("", None))
    if allowed is not None:
        return words.format(f"{allowed:g}")
    known = LIMITS.get(limit)
    return None if known is None else known.reason


def _finished(evidence: Evidence) -> Verdict | None:
    """By its own result, when it was ended only after it had printed that: because it stayed, or as it was about to go.

    What a person ended is theirs, whatever it had printed; so is work that a stop of the tower broke off.
    """
    record, said = evidence.exit, evidence.reading.record
    if said is None:
        return None
    word = _word(evidence)
    has_stayed = word == DONE or (record is not None and record.limit is not None and word in (None, "stop"))
    if not has_stayed and not (word == "stop" and said.ok):
        return None
    return _unavailable(evidence) or _by_its_record(said)


def _by_its_record(said: ResultRecord) -> Verdict:
    if not said.ok:
        return Verdict(outcome=Outcome.FAILED, reason=said.failure)
    if said.doubts:
        return Verdict(outcome=Outcome.SUSPECT, reason="; ".join(said.doubts))
    return Verdict(outcome=Outcome.SUCCEEDED)


def _word(evidence: Evidence) -> str | None:
    """The word with which it was asked to end, as far as that reached it. A later one reaches no keeper."""
    record, asked = evidence.exit, evidence.stopping
    if record is None or (record.stopping and asked and overrules(asked, record.stopping)):
        return asked
    return record.stopping


def _stopped(evidence: Evidence) -> Verdict | None:
    """By a request of the tower. Where a limit was carried out as well, a plain stop gives way to it."""
    record = evidence.exit
    word = _word(evidence)
    if word is None or (word == "stop" and record is not None and record.limit is not None):
        return None
    return STOPS.get(word) or Verdict(outcome=Outcome.CANCELLED, interruption=Interruption.CANCELLED, reason=word)


def _unavailable(evidence: Evidence) -> Verdict | None:
    record = evidence.exit
    if evidence.reading.unavailable is not None:
        return Verdict(outcome=Outcome.UNAVAILABLE, reason=evidence.reading.unavailable)
    if record is not None and record.start_error is not None and record.start_error.startswith(MISSING_PROGRAM):
        return Verdict(outcome=Outcome.UNAVAILABLE, reason=f"the program is missing: {record.start_error}")
    if record is not None and record.start_error is not None and is_passing(record.start_error):
        return Verdict(outcome=Outcome.UNAVAILABLE, reason=f"the machine had no room for it: {record.start_error}")
    return None


def is_passing(start_error: str) -> bool:
    """Whether the same start may well succeed a minute later; `start_error` is `STEP: ERRNO words`."""
    _, _, words = start_error.partition(": ")
    return words.partition(" ")[0] in PASSING_WANTS


def _vanished(kind: Interruption) -> Verdict:
    words = {
        Interruption.LOST: "its keeper vanished, and how the program ended is not known",
        Interruption.TOWER_RESTART: "keeper and program were gone when the tower started again",
    }
    return Verdict(outcome=Outcome.INTERRUPTED, interruption=kind, reason=words.get(kind, kind.value))


def _ended(record: ExitRecord, evidence: Evidence) -> Verdict:
    if record.limit is not None:
        words = limit_words(record.limit, evidence.agent) or f"its keeper ended it: {record.limit}"
        unknown = Verdict(outcome=Outcome.TIMED_OUT, interruption=Interruption.TIMEOUT)
        return replace(LIMITS.get(record.limit, unknown), reason=words)
    if record.start_error is not None:
        return Verdict(outcome=Outcome.FAILED, reason=f"the program could not be started: {record.start_error}")
    if record.signal is not None:
        return _crash(f"killed by {_signal_name(record.signal)}")
    if record.code is None:
        return _vanished(Interruption.LOST)
    return _exited(record.code, evidence)


def _exited(code: int, evidence: Evidence) -> Verdict:
    """By its own choice, or by a shell's report that a signal had ended its command."""
    said = evidence.reading.record
    if said is not None and (code == 0 or not said.ok):
        return _by_its_record(said)
    if code == 0:
        if evidence.reading.promises_record:
            return Verdict(outcome=Outcome.SUSPECT, reason="exit code 0, and no result record in its output")
        return Verdict(outcome=Outcome.SUCCEEDED)
    number = code - SHELL_SIGNAL_BASE
    if 0 < number <= LAST_SIGNAL:
        return _crash(f"exit code {code}: a command of it was killed by {_signal_name(number)}")
    line = best_line(evidence.err_tail, evidence.out_tail)
    words = f"; last words: {line}" if line else ", and it printed nothing"
    return Verdict(outcome=Outcome.FAILED, reason=f"exit code {code}{words}")


def _crash(reason: str) -> Verdict:
    return Verdict(outcome=Outcome.INTERRUPTED, interruption=Interruption.CRASH, reason=reason)


def _cut(evidence: Evidence) -> Iterator[str]:
    if evidence.cut:
        yield f"it printed more than max_log_mb allows: {evidence.cut} bytes in the middle were cut out"


def _notes(record: ExitRecord | None, said: ResultRecord | None) -> Iterator[str]:
    """What a person should know although it changes no verdict."""
    if record is None:
        return
    if said is not None and (record.stopping == DONE or record.limit is not None):
        yield "it had printed its result and did not end; the tower ended it"
    if record.left:
        yield f"processes that could not be ended: {', '.join(map(str, record.left))}"
    if record.log_errors:
        yield f"{record.log_errors} writes to its logs failed; their text is lost"


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
