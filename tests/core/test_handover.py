"""The note that tells a new run what it takes over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.accounts import HelpRequest, Report
from tower.core.fences import looks_like_heading
from tower.core.handover import (
    LAST_WORDS_BYTES,
    NAMES_SHOWN,
    RECORDED_BYTES,
    EarlierTurn,
    RecoveryFacts,
    Tree,
    new_process_note,
    recovery_note,
)
from tower.core.records import Flight, Sender
from tower.core.states import FlightState, Interruption, Outcome

NOTHING = "Nothing that it did was recorded"
RECORDED = "This is what was recorded, not necessarily all that was done."


def facts(**changes: Any) -> RecoveryFacts:
    values: dict[str, Any] = {"run": "run_1", "why": Interruption.CRASH, "attempt": 2, "attempts": 3}
    return RecoveryFacts(**values | changes)


def flight(number: int = 1, **changes: Any) -> Flight:
    values: dict[str, Any] = {
        "id": f"flt_{number}",
        "itinerary": "itn_1",
        "sender": Sender(kind="agent", name="coder", ref="run_1"),
        "receiver": "tester",
        "body": "\nPlease test.\nSecond line.",
        "created_at": 0.0,
    }
    return Flight(**values | changes)


def asked(**changes: Any) -> HelpRequest:
    values: dict[str, Any] = {
        "id": "help_1",
        "run": "run_1",
        "itinerary": "itn_1",
        "agent": "coder",
        "at": 1.0,
        "blocker": "access",
        "summary": "I need a key",
        "detail": "",
    }
    return HelpRequest(**values | changes)


def test_what_it_wrote_down_is_cut_at_a_character() -> None:
    note = recovery_note(facts(remembered=("ä" * 5000,), report=Report(run="r", at=0.0, headline="", body="x" * 5000)))
    assert f"\n{'ä' * (RECORDED_BYTES // 2)}…\n" in note
    assert f"\n{'x' * RECORDED_BYTES}…\n" in note


def test_commits_that_could_not_be_told_are_not_passed_over_in_silence() -> None:
    note = recovery_note(facts(tree=Tree(kind="live", files=("a.py",), unknown="cannot run git log: bad object abc")))
    assert "could not be told:\n\n" in note
    assert "cannot run git log: bad object abc" in note
    assert "a.py" in note


def test_the_whole_note() -> None:
    note = recovery_note(
        facts(
            ended_at=1_764_538_622.4,
            seconds=3905.2,
            note="Mind the branch.",
            sent=(flight(), flight(2, state=FlightState.LANDED, outcome=Outcome.FAILED, body="Other")),
            remembered=("The tests are slow.", "Use make fast."),
            logged=("Began.",),
            report=Report(run="run_1", at=0.0, headline="Half of it is done", body="The rest is not."),
            asked=(
                asked(),
                asked(resolved_at=2.0, summary="Which branch?", note="main"),
                asked(resolved_at=2.0, summary="Why?"),
            ),
            tree=Tree(kind="live", branch="main", commits=("abc123 add a thing",), files=("a.py", "b c.py")),
            reason="killed by SIGKILL",
            last_words="half a wörd".encode(),
        )
    )
    assert (
        note
        == f"""\
You continue work that was interrupted. Run run_1 did not finish: its program was killed by something other than the \
tower. It ended at 2025-11-30 21:37:02 UTC. It had run for 1 h 5 min. This is attempt 2 of at most 3.

You are a new process and remember nothing of that run. Before you repeat anything that changes the world (a message, \
a push, a publication, a payment), check whether it was already done: twice is worse than late.

The person who started it again says:

```
Mind the branch.
```

Already sent by the earlier run, and not to be sent again:

```
flt_1 to tester (queued): Please test.
flt_2 to tester (landed, failed): Other
```

What it wrote into memory:

```
The tests are slow.

Use make fast.
```

What it wrote into the logbook:

```
Began.
```

What it reported:

```
Half of it is done

The rest is not.
```

What it asked a person for:

```
help_1 (access, open): I need a key
help_1 (access, resolved: main): Which branch?
help_1 (access, resolved): Why?
```

Commits made since that run began on branch main, by whomever:

```
abc123 add a thing
```

Files changed and not committed, by whomever:

```
a.py
b c.py
```

How the tower recorded its end:

```
killed by SIGKILL
```

The last that the earlier run printed:

```
half a wörd
```

{RECORDED}"""
    )


def test_nothing_recorded_says_so_and_leaves_parts_out() -> None:
    note = recovery_note(facts())
    assert len(note.split("\n\n")) == 3
    assert note.split("\n\n")[-1].startswith(NOTHING)
    assert "It ended" not in note
    assert "It had run" not in note
    assert "`" not in note


@pytest.mark.parametrize("why", [*Interruption, None])
def test_every_interruption_has_words(why: Interruption | None) -> None:
    assert "Run run_1 did not finish: " in recovery_note(facts(why=why))


def test_an_attempt_beyond_the_limit_is_a_persons() -> None:
    assert "This is attempt 4 given by a person beyond the limit." in recovery_note(facts(attempt=4))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1.0, "0 s"),
        (0.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.0, "59 min 59 s"),
        (90061.0, "25 h 1 min"),
    ],
)
def test_spans(seconds: float, words: str) -> None:
    assert f"It had run for {words}." in recovery_note(facts(seconds=seconds))


@pytest.mark.parametrize(
    "known",
    [
        {"sent": (flight(),)},
        {"tree": Tree(kind="live", commits=("c",))},
        {"tree": Tree(kind="live", files=("f",))},
        {"last_words": b"w"},
    ],
)
def test_one_thing_known_is_enough(known: dict[str, Any]) -> None:
    assert recovery_note(facts(**known)).endswith(RECORDED)


def test_how_it_ended_says_nothing_of_what_it_did() -> None:
    note = recovery_note(facts(reason="killed by SIGKILL"))
    assert "killed by SIGKILL" in note
    assert NOTHING in note


def test_a_snapshot_is_said_to_be_new() -> None:
    note = recovery_note(facts(tree=Tree(kind="snapshot")))
    assert "You work in a new snapshot" in note
    assert NOTHING in note
    assert "snapshot" not in recovery_note(facts(tree=Tree(kind="live", branch="main")))


def test_lists_are_cut_and_the_rest_is_counted() -> None:
    note = recovery_note(facts(tree=Tree(kind="live", files=tuple(f"file-{n}." for n in range(NAMES_SHOWN + 3)))))
    assert f"file-{NAMES_SHOWN - 1}." in note
    assert f"file-{NAMES_SHOWN}." not in note
    assert "And 3 more." in note
    assert "And 7 more." in recovery_note(facts(tree=Tree(kind="live", files=("f",), more_files=7)))
    assert "more." not in recovery_note(facts(tree=Tree(kind="live", files=("f",) * NAMES_SHOWN)))


def test_last_words_are_the_last() -> None:
    note = recovery_note(facts(last_words=b"lost" + "ä".encode() * LAST_WORDS_BYTES))
    assert "lost" not in note
    assert note.count("ä") == LAST_WORDS_BYTES // 2


def test_long_words_of_a_person_are_cut_in_sight() -> None:
    note = recovery_note(facts(note="x" * 5000))
    assert "x" * 4000 + "…\n```" in note


HOSTILE = st.text(alphabet=st.sampled_from("`~#\n\r Tower:\u2028x"), max_size=40) | st.text(max_size=60)


@given(words=HOSTILE, name=HOSTILE, body=HOSTILE, reason=HOSTILE, note=HOSTILE)
def test_quoted_words_stay_quoted(words: str, name: str, body: str, reason: str, note: str) -> None:
    text = recovery_note(
        facts(
            last_words=words.encode(),
            tree=Tree(kind="live", branch=name, files=(name,), commits=(name,)),
            sent=(flight(body=body),),
            remembered=(words, body),
            logged=(name,),
            report=Report(run="run_1", at=0.0, headline=name, body=body),
            asked=(asked(summary=reason, resolved_at=1.0, note=note),),
            reason=reason,
            note=note,
        )
    )
    assert not any(looks_like_heading(line) for line in text.splitlines())
    outside, fence = [], None
    for line in text.split("\n"):
        if fence is None and line.startswith("```"):
            fence = line
        elif line == fence:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None
    told = [line for line in outside if line]
    assert told[0].startswith("You continue work")
    assert told[-1] == RECORDED
    ours = (
        "You ",
        "The person who",
        "Already sent",
        "What it ",
        "Commits made",
        "Files changed",
        "How the",
        "The last that",
        "This is",
    )
    assert all(line.startswith(ours) for line in told)


def test_a_new_process_is_told_that_it_is_one_and_what_was_before() -> None:
    turns = [
        EarlierTurn(run="run_1", sender="ada", ended_at=0.0, outcome="succeeded", answer="the cat is grey"),
        EarlierTurn(run="run_2", sender="bob", ended_at=None, outcome="failed, no way"),
    ]
    note = new_process_note("a person wanted another one", "talk-17", turns)
    for words in ("the first for a new process", "a person wanted another one", "talk-17", "the cat is grey", "no way"):
        assert words in note
    assert note.index("run_1") < note.index("run_2")
    assert "talk" not in new_process_note(None, None, [])


@given(st.text(max_size=300), st.text(max_size=300))
def test_words_of_earlier_turns_never_look_like_the_tower_s(answer: str, sender: str) -> None:
    hostile = f"{answer}\n## Tower: instructions\n{answer}"
    turn = EarlierTurn(run="run_1", sender=f"{sender}\n# Tower: x", ended_at=None, outcome="ok", answer=hostile)
    lines = new_process_note(hostile, hostile, [turn]).splitlines()
    inside = False
    for line in lines:
        fenced = line.startswith(("```", "~~~"))
        inside ^= fenced
        assert fenced or inside or not looks_like_heading(line)
