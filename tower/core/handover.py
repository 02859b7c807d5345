"""The handover note: what a new run is told about the one that it takes over from.

Written from the tower's records, without a model. Here are the facts as values and their wording; gathering them
(the store's flights, git's view of the tree, the end of the log) is the engine's work. Everything that an agent
wrote is fenced, and every part has a cap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tower.core.accounts import HelpRequest, Report
from tower.core.fences import fence, inline, tail
from tower.core.records import Flight
from tower.core.states import Interruption

LAST_WORDS_BYTES: Final = 2000
"""Bytes of the earlier run's last output that are quoted."""

RECORDED_BYTES: Final = 2000
"""Bytes of what the earlier run wrote down that are quoted, of each kind."""

NAMES_SHOWN: Final = 40
"""Flights, commits and files that are listed, each; the rest is counted."""

LINE_CHARS: Final = 200
"""Characters of one listed flight, commit or file."""

REASON_CHARS: Final = 300
"""Characters of the reason on an outcome, as `outcome` cuts it."""

NOTE_CHARS: Final = 4000
"""Characters of a person's note."""

WHY: Final = {
    Interruption.TOWER_RESTART: "the tower and the run were gone when the tower started again",
    Interruption.CRASH: "its program was killed by something other than the tower",
    Interruption.LOST: "the process that watched over it vanished",
    Interruption.TIMEOUT: "it ran longer than it may, and the tower ended it",
    Interruption.STALL: "it printed nothing for longer than it may, and the tower ended it",
    Interruption.FIRST_OUTPUT: "it printed nothing in the time that it has for a first output, and the tower ended it",
    Interruption.GROUND_STOP: "a ground stop ended all runs",
    Interruption.CANCELLED: "a person cancelled it",
    Interruption.STEERED: "a person redirected the work",
    Interruption.FUEL: "it took its chain past what it may spend, and the tower ended it; more was given since",
}
"""Why a run did not finish, in words that complete "Run ... did not finish: "."""

FAILED_ITSELF: Final = "its program ended on its own and said that it had failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The place that the earlier run worked in, as it is now."""

    kind: str
    """live, or snapshot: the new run has a new one, and the changes of the earlier run are not in it."""
    branch: str | None = None
    commits: tuple[str, ...] = ()
    """Made since the earlier run began, one line each, newest first."""
    files: tuple[str, ...] = ()
    """Changed and not committed."""
    more_files: int = 0
    """Such files beyond those that are named."""
    unknown: str | None = None
    """In words, why the commits could not be told: silence would read as if there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFacts:
    """All that is known about the earlier run. Unknown is None or empty, and is passed over in silence."""

    run: str
    why: Interruption | None
    """None: it ended by its own choice, as failed."""
    attempt: int
    """Number of the new run: 2 is the first one after the dispatch."""
    attempts: int
    """How many there may be without a person's word."""
    reason: str | None = None
    """The line that its outcome gave; it may hold the program's own words."""
    ended_at: float | None = None
    """Seconds since the epoch; when it was last seen alive, if nothing better is known."""
    seconds: float | None = None
    """How long it ran."""
    note: str | None = None
    """What the person who restarted it wrote."""
    sent: tuple[Flight, ...] = ()
    remembered: tuple[str, ...] = ()
    """Entries that it wrote to its memory, oldest first."""
    logged: tuple[str, ...] = ()
    """And to the logbook."""
    report: Report | None = None
    asked: tuple[HelpRequest, ...] = ()
    """What it asked a person for."""
    tree: Tree | None = None
    last_words: bytes = b""
    """The end of its output."""


def recovery_note(facts: RecoveryFacts) -> str:
    """The text of the handover section, without its heading."""
    done = (_sent(facts.sent), *_recorded(facts), *_changes(facts.tree))
    words = _last_words(facts.last_words)
    # How it ended is always known, and says nothing of what it did.
    closing = (
        "This is what was recorded, not necessarily all that was done."
        if any((*done, words))
        else "Nothing that it did was recorded: it may have done anything from nothing to almost everything."
    )
    paragraphs = [
        "You continue work that was interrupted. " + _what_ended(facts),
        "You are a new process and remember nothing of that run. Before you repeat anything that changes the world "
        "(a message, a push, a publication, a payment), check whether it was already done: twice is worse than late.",
        _note(facts.note),
        _fresh_snapshot(facts.tree),
        *done,
        _reason(facts.reason),
        words,
        closing,
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTurn:
    """A turn that a process before this one had."""

    run: str
    sender: str
    ended_at: float | None
    outcome: str
    answer: str | None = None


def new_process_note(why: str | None, session: str | None, turns: Sequence[EarlierTurn]) -> str:
    """What the first turn of a resident's new process is told when there was one before it.

    `why` is how the one before ended, `session` what it called its conversation, `turns` its last, oldest first.
    """
    ended = f" The one before it is gone: {inline(why, REASON_CHARS)}." if why else ""
    offered = (
        f" Its conversation was called {inline(session, LINE_CHARS)}; if you could resume that, you remember it."
        if session
        else ""
    )
    paragraphs = [
        f"You stay for many messages, and this is the first for a new process of yours.{ended}{offered}"
        " Unless you remember otherwise, what stands here is all that you know of the time before.",
        *map(_earlier_turn, turns),
    ]
    return "\n\n".join(paragraphs)


def _earlier_turn(turn: EarlierTurn) -> str:
    at = f" at {_moment(turn.ended_at)}" if turn.ended_at is not None else ""
    told = f"Turn {turn.run}, for {inline(turn.sender, LINE_CHARS)}, ended{at}: {turn.outcome}."
    if not turn.answer or not turn.answer.strip():
        return told
    return f"{told} The end of its answer:\n\n{fence(tail(turn.answer.encode(), LAST_WORDS_BYTES))}"


def _what_ended(facts: RecoveryFacts) -> str:
    why = FAILED_ITSELF if facts.why is None else WHY[facts.why]
    ended = f" It ended at {_moment(facts.ended_at)}." if facts.ended_at is not None else ""
    ran = f" It had run for {_span(facts.seconds)}." if facts.seconds is not None else ""
    beyond = facts.attempt > facts.attempts
    limit = "given by a person beyond the limit" if beyond else f"of at most {facts.attempts}"
    return f"Run {facts.run} did not finish: {why}.{ended}{ran} This is attempt {facts.attempt} {limit}."


def _note(note: str | None) -> str:
    if not note or not note.strip():
        return ""
    words = note if len(note) <= NOTE_CHARS else note[:NOTE_CHARS] + "…"
    return f"The person who started it again says:\n\n{fence(words)}"


def _sent(flights: Sequence[Flight]) -> str:
    lines = (f"{flight.id} to {flight.receiver} ({_fate(flight)}): {_first_line(flight.body)}" for flight in flights)
    return _listed("Already sent by the earlier run, and not to be sent again:", lines, len(flights))


def _fate(flight: Flight) -> str:
    return f"{flight.state}, {flight.outcome}" if flight.outcome else flight.state


def _first_line(body: str) -> str:
    return next((line for line in body.splitlines() if line.strip()), "")


def _recorded(facts: RecoveryFacts) -> Iterable[str]:
    """What the run wrote down itself."""
    for title, entries in (
        ("What it wrote into memory:", facts.remembered),
        ("What it wrote into the logbook:", facts.logged),
    ):
        if entries:
            words = "\n\n".join(entries)
            yield f"{title}\n\n{fence(_head(words))}"
    if facts.report is not None:
        told = "\n\n".join(part for part in (facts.report.headline, facts.report.body) if part)
        yield f"What it reported:\n\n{fence(_head(told))}"
    lines = (f"{it.id} ({it.blocker}, {_answered(it)}): {it.summary}" for it in facts.asked)
    yield _listed("What it asked a person for:", lines, len(facts.asked))


def _answered(request: HelpRequest) -> str:
    if request.resolved_at is None:
        return "open"
    return f"resolved: {request.note}" if request.note else "resolved"


def _head(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= RECORDED_BYTES else raw[:RECORDED_BYTES].decode(errors="ignore") + "…"


def _changes(tree: Tree | None) -> tuple[str, ...]:
    if tree is None:
        return ()
    where = f" on branch {inline(tree.branch, LINE_CHARS)}" if tree.branch else ""
    return (
        _listed(f"Commits made since that run began{where}, by whomever:", tree.commits, len(tree.commits)),
        _listed("Files changed and not committed, by whomever:", tree.files, len(tree.files) + tree.more_files),
        f"What was committed since that run began could not be told:\n\n{fence(inline(tree.unknown, REASON_CHARS))}"
        if tree.unknown
        else "",
    )


def _fresh_snapshot(tree: Tree | None) -> str:
    if tree is None or tree.kind != "snapshot":
        return ""
    return "You work in a new snapshot: what the earlier run changed in its own is not here."


def _reason(reason: str | None) -> str:
    return f"How the tower recorded its end:\n\n{fence(inline(reason, REASON_CHARS))}" if reason else ""


def _last_words(output: bytes) -> str:
    words = tail(output, LAST_WORDS_BYTES)
    return f"The last that the earlier run printed:\n\n{fence(words)}" if words.strip() else ""


def _listed(title: str, lines: Iterable[str], count: int) -> str:
    if not count:
        return ""
    shown = [inline(line, LINE_CHARS) for line, _ in zip(lines, range(NAMES_SHOWN), strict=False)]
    more = f"\n\nAnd {count - len(shown)} more." if count > len(shown) else ""
    quoted = fence("\n".join(shown))
    return f"{title}\n\n{quoted}{more}"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _span(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
