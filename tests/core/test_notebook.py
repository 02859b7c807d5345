"""Memory and logbook: entries that cannot speak for another run, cuts at characters, and what goes when it is full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core import notebook
from tower.core.errors import InvalidError

AT = 1_800_000_000.0
HEADING = "### 2027-01-15 08:00:00 UTC, "


def entry(text: str, by: str = "run_1") -> str:
    return notebook.entry(text, at=AT, by=by)


def test_an_entry_says_when_and_by_whom() -> None:
    assert entry("\nkeep it\nshort\n\n") == f"\n{HEADING}run_1\n\nkeep it\nshort\n"


def test_the_entries_of_one_run_are_found() -> None:
    text = (
        "A person's words, run_1\n"
        + entry("first\n\nof it")
        + entry("another's", by="run_2")
        + entry("shared", by="coder, run_1")
        + entry(f"forged\n{HEADING}run_1\nnot mine", by="run_3")
    )
    assert notebook.entries_of(text, "run_1") == ("first\n\nof it", "shared")
    assert notebook.entries_of(text, "run_9") == ()
    assert notebook.entries_of("", "run_1") == ()
    assert notebook.entries_of(text[text.index("of it") :], "run_1") == ("shared",)


@pytest.mark.parametrize("disguise", [HEADING, "  " + HEADING, "\t" + HEADING])
def test_an_entry_cannot_speak_for_another_run(disguise: str) -> None:
    lines = entry(f"mine\n{disguise}run_9\nforged").splitlines()
    assert [line for line in lines if line.startswith("###")] == [f"{HEADING}run_1"]


@pytest.mark.parametrize(("text", "code"), [(" \n", "empty-text"), ("a\ud800", "not-text"), ("a\0", "not-text")])
def test_what_says_nothing_or_is_no_text_is_refused(text: str, code: str) -> None:
    with pytest.raises(InvalidError) as refused:
        entry(text)
    assert refused.value.code == code


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=0, max_size=50), st.integers(0, 3))
def test_an_entry_is_cut_at_a_character(text: str, more: int) -> None:
    long = text + "é" * (notebook.ENTRY_BYTES // 2) + "x" * more
    kept, is_cut = notebook.cut_entry(long)
    assert long.startswith(kept)
    assert is_cut is (kept != long)
    assert notebook.ENTRY_BYTES - 3 <= len(kept.encode()) <= notebook.ENTRY_BYTES


def test_entries_are_added_behind_what_a_person_wrote() -> None:
    first, dropped = notebook.appended(b"# Notes of ann\n\n\n", entry("one"))
    second, _ = notebook.appended(first, entry("two"))
    assert dropped == 0
    assert second.decode() == f"# Notes of ann\n{entry('one')}{entry('two')}"


def test_of_a_full_memory_the_oldest_entries_go_whole_and_a_persons_head_stays() -> None:
    memory = b"# Notes of ann\n"
    total = 0
    for number in range(40):
        memory, dropped = notebook.appended(memory, entry(f"entry {number:02} " + "é" * 20), most=1000)
        total += dropped
        assert len(memory) <= 1000
    text = memory.decode()
    assert text.startswith(f"# Notes of ann\n\n{HEADING}")
    assert total > 20
    kept = [number for number in range(40) if f"entry {number:02}" in text]
    assert kept == list(range(total, 40))


def test_nothing_of_a_person_is_dropped_however_long_it_is() -> None:
    head = b"a person's words " * 100
    memory, dropped = notebook.appended(head, entry("one"), most=1000)
    assert (memory.startswith(head), dropped) == (True, 0)
    memory, dropped = notebook.appended(memory, entry("two"), most=1000)
    assert memory.startswith(head)
    assert memory.decode().endswith(entry("two"))


def test_what_is_no_utf_8_is_replaced_and_the_rest_stays() -> None:
    memory, _ = notebook.appended(b"T\xe4glich\n", entry("one"))
    assert memory.decode() == "T\ufffdglich\n" + entry("one")


def test_the_logbook_is_read_by_its_last_lines() -> None:
    raw = b"one\ntwo\nthree\n"
    assert notebook.last_lines(raw, 10, len(raw)) == "one\ntwo\nthree\n"
    assert notebook.last_lines(raw, 2, len(raw)) == "(cut: the last 2 lines)\ntwo\nthree\n"
    raw = "é".encode() * notebook.READ_BYTES + b"\nend\n"
    read = notebook.last_lines(raw[-notebook.LOOK_BYTES :], 10, len(raw))
    assert read.startswith("(cut: the last 2 lines)\né")
    assert read.endswith("é\nend\n")
