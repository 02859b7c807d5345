"""The verdict on a run, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.evidence import Evidence, Reading, ResultRecord
from tower.core.factory import Agent
from tower.core.last_words import REASON_CHARS, best_line
from tower.core.launch import ExitRecord
from tower.core.outcome import DONE, LIMITS, STOPS, Verdict, turn_verdict, verdict
from tower.core.prompts import Prompt
from tower.core.states import Interruption, Outcome

I = Interruption  # noqa: E741
O = Outcome  # noqa: E741


def ended(code: int | None = 0, signal: int | None = None, **changes: Any) -> ExitRecord:
    values: dict[str, Any] = {
        "ended_at": 1.0,
        "cpu_seconds": 0.1,
        "peak_memory": 1,
        "out_bytes": 0,
        "err_bytes": 0,
    }
    return ExitRecord(code=code, signal=signal, **values | changes)


def judge(exit: ExitRecord | None = None, **changes: Any) -> Verdict:
    return verdict(Evidence(exit=exit, **changes))


QUOTA = Reading(unavailable="weekly limit")
SILENT = Reading(promises_record=True)
SAID = Reading(promises_record=True, record=ResultRecord(ok=True))
DOUBTED = Reading(
    promises_record=True, record=ResultRecord(ok=True, doubts=("tools were denied", "its answer is empty"))
)
FAILED = Reading(promises_record=True, record=ResultRecord(ok=False, failure="turn limit"))
WALL = Reading(promises_record=True, record=ResultRecord(ok=False), unavailable="weekly limit")


@pytest.mark.parametrize(
    ("evidence", "outcome", "interruption", "reason"),
    [
        # By its own choice.
        (Evidence(exit=ended(0)), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(0), err_tail="Error: but exit 0\n"), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(1)), O.FAILED, None, "exit code 1, and it printed nothing"),
        (
            Evidence(exit=ended(127), err_tail="sh: 1: agnet: not found\n"),
            O.FAILED,
            None,
            "exit code 127; last words: sh: 1: agnet: not found",
        ),
        (Evidence(exit=ended(128), out_tail="last\n"), O.FAILED, None, "exit code 128; last words: last"),
        (Evidence(exit=ended(193), out_tail="last\n"), O.FAILED, None, "exit code 193; last words: last"),
        (Evidence(exit=ended(255), out_tail="last\n"), O.FAILED, None, "exit code 255; last words: last"),
        # By a signal that the tower did not send.
        (Evidence(exit=ended(None, 9)), O.INTERRUPTED, I.CRASH, "killed by SIGKILL"),
        (Evidence(exit=ended(None, 11)), O.INTERRUPTED, I.CRASH, "killed by SIGSEGV"),
        (Evidence(exit=ended(None, 40)), O.INTERRUPTED, I.CRASH, "killed by signal 40"),
        (Evidence(exit=ended(129)), O.INTERRUPTED, I.CRASH, "exit code 129: a command of it was killed by SIGHUP"),
        (Evidence(exit=ended(137)), O.INTERRUPTED, I.CRASH, "exit code 137: a command of it was killed by SIGKILL"),
        (Evidence(exit=ended(192)), O.INTERRUPTED, I.CRASH, "exit code 192: a command of it was killed by SIGRTMAX"),
        # Stopped by the tower: whatever the exit.
        (Evidence(exit=ended(0, stopping="cancelled")), O.CANCELLED, I.CANCELLED, "a person cancelled it"),
        (Evidence(exit=ended(None, 15, stopping="cancelled")), O.CANCELLED, I.CANCELLED, "a person cancelled it"),
        (Evidence(exit=ended(143, stopping="halted")), O.HALTED, I.GROUND_STOP, "a ground stop ended it"),
        (Evidence(exit=ended(None, 9, stopping="stop")), O.INTERRUPTED, I.TOWER_RESTART, "the tower was stopped"),
        (Evidence(exit=ended(1, stopping="steered")), O.STEERED, I.STEERED, "a person redirected the work"),
        (
            Evidence(exit=ended(1, stopping="removed")),
            O.CANCELLED,
            I.CANCELLED,
            "its agent was removed from the configuration",
        ),
        (Evidence(exit=ended(1, stopping="whim")), O.CANCELLED, I.CANCELLED, "whim"),
        (
            Evidence(exit=ended(1, stopping="cancelled", limit="timeout")),
            O.CANCELLED,
            I.CANCELLED,
            "a person cancelled it",
        ),
        (Evidence(exit=ended(1, stopping="stop", limit="timeout")), O.TIMED_OUT, I.TIMEOUT, LIMITS["timeout"].reason),
        (
            Evidence(exit=ended(1, stopping="cancelled"), reading=QUOTA),
            O.CANCELLED,
            I.CANCELLED,
            "a person cancelled it",
        ),
        # The record of a request counts only where the keeper left no word.
        (Evidence(exit=ended(0), stopping="cancelled"), O.SUCCEEDED, None, None),
        (Evidence(exit=None, stopping="cancelled"), O.CANCELLED, I.CANCELLED, "a person cancelled it"),
        (Evidence(exit=None, stopping="halted"), O.HALTED, I.GROUND_STOP, "a ground stop ended it"),
        (Evidence(exit=None, stopping="stop"), O.INTERRUPTED, I.TOWER_RESTART, "the tower was stopped"),
        # Limits, whatever the exit.
        (Evidence(exit=ended(0, limit="timeout")), O.TIMED_OUT, I.TIMEOUT, LIMITS["timeout"].reason),
        (Evidence(exit=ended(None, 15, limit="timeout")), O.TIMED_OUT, I.TIMEOUT, LIMITS["timeout"].reason),
        (Evidence(exit=ended(None, 9, limit="stall")), O.STALLED, I.STALL, LIMITS["stall"].reason),
        (Evidence(exit=ended(143, limit="first_output")), O.NO_OUTPUT, I.FIRST_OUTPUT, LIMITS["first_output"].reason),
        (Evidence(exit=ended(1, limit="orphan")), O.INTERRUPTED, I.TOWER_RESTART, LIMITS["orphan"].reason),
        (Evidence(exit=ended(1, limit="fuel")), O.TIMED_OUT, I.TIMEOUT, "its keeper ended it: fuel"),
        # It could not work at all.
        (Evidence(exit=ended(0), reading=QUOTA), O.UNAVAILABLE, None, "weekly limit"),
        (Evidence(exit=ended(1), reading=QUOTA), O.UNAVAILABLE, None, "weekly limit"),
        (Evidence(exit=ended(None, 9, limit="timeout"), reading=QUOTA), O.UNAVAILABLE, None, "weekly limit"),
        (
            Evidence(exit=ended(None, start_error="exec: ENOENT No such file or directory")),
            O.UNAVAILABLE,
            None,
            "the program is missing: exec: ENOENT No such file or directory",
        ),
        *(
            (
                Evidence(exit=ended(None, start_error=words)),
                O.UNAVAILABLE,
                None,
                f"the machine had no room for it: {words}",
            )
            for words in (
                "fork: EAGAIN Resource temporarily unavailable",
                "log: EMFILE Too many open files",
                "record: ENOSPC No space left on device",
            )
        ),
        (
            Evidence(exit=ended(None, start_error="exec: EACCES Permission denied")),
            O.FAILED,
            None,
            "the program could not be started: exec: EACCES Permission denied",
        ),
        (
            Evidence(exit=ended(None, start_error="cwd: ENOENT No such file or directory")),
            O.FAILED,
            None,
            "the program could not be started: cwd: ENOENT No such file or directory",
        ),
        # By its own result record.
        (Evidence(exit=ended(0), reading=SAID), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(0), reading=DOUBTED), O.SUSPECT, None, "tools were denied; its answer is empty"),
        (Evidence(exit=ended(0), reading=FAILED), O.FAILED, None, "turn limit"),
        (Evidence(exit=ended(1), reading=FAILED), O.FAILED, None, "turn limit"),
        (Evidence(exit=ended(130), reading=FAILED), O.FAILED, None, "turn limit"),
        (Evidence(exit=ended(1), reading=SAID), O.FAILED, None, "exit code 1, and it printed nothing"),
        (Evidence(exit=ended(0), reading=SILENT), O.SUSPECT, None, "exit code 0, and no result record in its output"),
        (
            Evidence(exit=ended(1), reading=SILENT, err_tail="bad flag"),
            O.FAILED,
            None,
            "exit code 1; last words: bad flag",
        ),
        (Evidence(exit=ended(None, 11), reading=SAID), O.INTERRUPTED, I.CRASH, "killed by SIGSEGV"),
        # It had printed that, and stayed.
        (Evidence(exit=ended(None, 15, stopping=DONE), reading=SAID), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(None, 9, stopping=DONE), reading=FAILED), O.FAILED, None, "turn limit"),
        (
            Evidence(exit=ended(143, stopping=DONE), reading=DOUBTED),
            O.SUSPECT,
            None,
            "tools were denied; its answer is empty",
        ),
        (Evidence(exit=None, stopping=DONE, reading=SAID), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(None, 15, stopping=DONE), reading=WALL), O.UNAVAILABLE, None, "weekly limit"),
        (Evidence(exit=ended(None, 15, stopping=DONE), reading=SILENT), O.SUSPECT, None, STOPS[DONE].reason),
        (Evidence(exit=ended(None, 15, limit="timeout"), reading=SAID), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(None, 15, limit="orphan"), reading=SAID), O.SUCCEEDED, None, None),
        (Evidence(exit=ended(None, 15, limit="stall", stopping="stop"), reading=FAILED), O.FAILED, None, "turn limit"),
        (
            Evidence(exit=ended(None, 15, limit="timeout"), reading=SILENT),
            O.TIMED_OUT,
            I.TIMEOUT,
            LIMITS["timeout"].reason,
        ),
        # A stop of the tower breaks off what is not over; what a person ends is theirs.
        (Evidence(exit=ended(143, stopping="stop"), reading=SAID), O.SUCCEEDED, None, None),
        (
            Evidence(exit=ended(143, stopping="stop"), reading=FAILED),
            O.INTERRUPTED,
            I.TOWER_RESTART,
            "the tower was stopped",
        ),
        (
            Evidence(exit=ended(0, stopping="cancelled"), reading=SAID),
            O.CANCELLED,
            I.CANCELLED,
            "a person cancelled it",
        ),
        (Evidence(exit=ended(0, stopping="halted"), reading=SAID), O.HALTED, I.GROUND_STOP, "a ground stop ended it"),
        # Nobody knows.
        (
            Evidence(exit=None),
            O.INTERRUPTED,
            I.TOWER_RESTART,
            "keeper and program were gone when the tower started again",
        ),
        (
            Evidence(exit=None, without_exit=I.LOST),
            O.INTERRUPTED,
            I.LOST,
            "its keeper vanished, and how the program ended is not known",
        ),
        (
            Evidence(exit=ended(None)),
            O.INTERRUPTED,
            I.LOST,
            "its keeper vanished, and how the program ended is not known",
        ),
    ],
)
def test_every_row(evidence: Evidence, outcome: Outcome, interruption: Interruption | None, reason: str | None) -> None:
    judged = verdict(evidence)
    assert (judged.outcome, judged.interruption, judged.reason) == (outcome, interruption, reason)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("timeout", "ran for longer than 60 s (timeout_sec)"),
        ("stall", "printed nothing more for 1.5 s (stall_sec)"),
        ("first_output", "printed nothing for 1 s (first_output_sec)"),
        ("orphan", LIMITS["orphan"].reason),
        ("fuel", "its keeper ended it: fuel"),
    ],
)
def test_a_limit_is_named_with_its_time(limit: str, words: str) -> None:
    limits: dict[str, Any] = {"timeout_sec": 60.0, "stall_sec": 1.5, "first_output_sec": 1.0}
    agent = Agent(name="a", runner="r", instructions=Prompt.of("x"), work_dir="/t", **limits)
    assert judge(ended(None, 9, limit=limit), agent=agent).reason == words


def test_the_answer_and_problems_are_kept_whatever_the_outcome() -> None:
    reading = Reading(answer="42", problems=("its report cannot be read",))
    for record in (ended(0), ended(1), ended(None, 9), None):
        judged = judge(record, reading=reading)
        assert judged.answer == "42"
        assert judged.notes == ("its report cannot be read",)


def test_what_a_person_should_know_is_noted() -> None:
    assert judge(ended(0, left=(7, 8), log_errors=3)).notes == (
        "processes that could not be ended: 7, 8",
        "3 writes to its logs failed; their text is lost",
    )


@pytest.mark.parametrize(
    ("err", "out", "line"),
    [
        ("", "", None),
        (" \n\t\n", "\n", None),
        ("warning\nError: no key\nbye\n", "done\n", "Error: no key"),
        ("one\ntwo\n", "three\n", "two"),
        ("one\n", "fatal: not a git repository\n", "fatal: not a git repository"),
        ("", "a\nb\n\n", "b"),
        ("Traceback\n  File x\nValueError: bad\n", "", "ValueError: bad"),
        ("\x1b[31mError:\x1b[0m red\tand\x07 loud\n", "", "Error: red and loud"),
        ("\x1b]0;title\x07Error: x\n", "", "Error: x"),
        ("error: " + "x" * 400, "", "error: " + "x" * 292 + "…"),
    ],
)
def test_the_best_line(err: str, out: str, line: str | None) -> None:
    assert best_line(err, out) == line


@given(
    code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    limit=st.none() | st.sampled_from([*LIMITS, "other"]),
    stopping=st.none() | st.sampled_from([*STOPS, "other"]),
    start_error=st.none() | st.text(max_size=20),
    unavailable=st.none() | st.text(max_size=20),
    err=st.text(max_size=400),
)
def test_every_ending_has_a_verdict(
    code: int | None,
    signal: int | None,
    limit: str | None,
    stopping: str | None,
    start_error: str | None,
    unavailable: str | None,
    err: str,
) -> None:
    record = ended(code, signal, limit=limit, stopping=stopping, start_error=start_error)
    judged = judge(record, reading=Reading(unavailable=unavailable), err_tail=err)
    if judged.outcome is O.SUCCEEDED:
        assert (code, limit, stopping, start_error, unavailable) == (0, None, None, None, None)
    else:
        assert judged.reason is not None
        assert len(judged.reason) <= REASON_CHARS
        assert len(judged.reason.splitlines()) <= 1
    if judged.outcome in {O.FAILED, O.UNAVAILABLE}:
        assert judged.interruption is None
    if judged.outcome is O.INTERRUPTED:
        assert judged.interruption in {I.CRASH, I.LOST, I.TOWER_RESTART, I.FUEL}


ANSWER = Reading(answer="done", problems=("odd",))


@pytest.mark.parametrize(
    ("evidence", "ok", "outcome", "interruption", "reason"),
    [
        # A result stands, whatever became of the process.
        (Evidence(exit=None, reading=ANSWER), True, O.SUCCEEDED, None, None),
        (Evidence(exit=None, reading=ANSWER, stopping="stop"), True, O.SUCCEEDED, None, None),
        (Evidence(exit=ended(None, 9), reading=ANSWER), True, O.SUCCEEDED, None, None),
        (Evidence(exit=ended(0, limit="timeout"), reading=ANSWER), True, O.SUCCEEDED, None, None),
        (Evidence(exit=None, reading=ANSWER), False, O.FAILED, None, "no way"),
        (Evidence(exit=None, reading=QUOTA), False, O.UNAVAILABLE, None, "weekly limit"),
        # Unless a person wanted the turn to end.
        (Evidence(exit=None, reading=ANSWER, stopping="cancelled"), True, O.CANCELLED, I.CANCELLED, None),
        (Evidence(exit=None, reading=ANSWER, stopping="halted"), True, O.HALTED, I.GROUND_STOP, None),
        # Without one, the end of the process cut it off.
        (Evidence(exit=ended(None, 9)), None, O.INTERRUPTED, I.CRASH, "killed by SIGKILL"),
        (Evidence(exit=ended(0, limit="timeout")), None, O.TIMED_OUT, I.TIMEOUT, LIMITS["timeout"].reason),
        (Evidence(exit=ended(0, limit="mute")), None, O.INTERRUPTED, I.CRASH, LIMITS["mute"].reason),
        (Evidence(exit=ended(0, limit="deaf")), None, O.INTERRUPTED, I.CRASH, LIMITS["deaf"].reason),
        (Evidence(exit=ended(0, stopping="cancelled")), None, O.CANCELLED, I.CANCELLED, "a person cancelled it"),
        (Evidence(exit=ended(0, stopping="stop")), None, O.INTERRUPTED, I.TOWER_RESTART, "the tower was stopped"),
        (Evidence(exit=None, without_exit=I.LOST), None, O.INTERRUPTED, I.LOST, None),
        (
            Evidence(exit=ended(0)),
            None,
            O.INTERRUPTED,
            I.CRASH,
            "its program ended (exit code 0) in the middle of the turn, without a result",
        ),
        (
            Evidence(exit=ended(3), err_tail="Error: no disk\n"),
            None,
            O.INTERRUPTED,
            I.CRASH,
            "its program ended (exit code 3) in the middle of the turn, without a result: Error: no disk",
        ),
    ],
)
def test_turns(
    evidence: Evidence, ok: bool | None, outcome: Outcome, interruption: Interruption | None, reason: str | None
) -> None:
    judged = turn_verdict(evidence, ok=ok, failure="no way")
    assert (judged.outcome, judged.interruption) == (outcome, interruption)
    assert reason in (None, judged.reason)
    assert judged.answer == evidence.reading.answer
    assert judged.notes[: len(evidence.reading.problems)] == evidence.reading.problems
