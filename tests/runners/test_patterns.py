"""What a program prints when it has no quota, by the patterns of its runner."""

from __future__ import annotations

import pytest

from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.core.prompts import Prompt
from tower.runners import effort_of, recognised
from tower.runners.patterns import LINE_CHARS, LINES

MINE = Runner(name="mine", kind="command", command=("x",), unavailable_patterns=("[Qq]uota", "rate.limit"))


@pytest.mark.parametrize(
    ("tails", "said"),
    [
        (("", "fine"), None),
        (("", "one\nQuota is gone \nthree"), "the program printed: Quota is gone"),
        (("rate limit", "quota"), "the program printed: rate limit"),
        (("quota 1\nquota 2\n", ""), "the program printed: quota 2"),
        (("quota\n" + "x\n" * LINES, ""), None),
        (("x" * LINE_CHARS + "quota", ""), None),
    ],
)
def test_the_last_line_that_matches_says_it(tails: tuple[str, ...], said: str | None) -> None:
    assert recognised(MINE, Reading(answer="a"), *tails) == Reading(answer="a", unavailable=said)


def test_without_patterns_and_where_the_reader_knows_better_nothing_is_looked_for() -> None:
    plain = Runner(name="x", kind="cmd", command=("x",))
    assert recognised(plain, Reading(), "quota") == Reading()
    assert recognised(MINE, Reading(unavailable="sign in"), "quota") == Reading(unavailable="sign in")


@pytest.mark.parametrize(
    ("effort", "efforts", "sent"),
    [
        (None, {}, None),
        ("high", {}, "high"),
        ("high", {"high": "ultra"}, "ultra"),
        ("high", {"high": ""}, None),
        ("low", {"high": "x"}, "low"),
    ],
)
def test_an_effort_in_the_program_s_own_words(effort: str | None, efforts: dict[str, str], sent: str | None) -> None:
    agent = Agent(name="a", runner="mine", instructions=Prompt.of("x"), work_dir="/", effort=effort)
    assert effort_of(Runner(name="mine", kind="command", command=("x",), efforts=efforts), agent) == sent
