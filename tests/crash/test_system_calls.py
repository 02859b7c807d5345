"""SIGKILL, or an error, at the Nth system call: an answer, an error or an end, and never a lie."""

from __future__ import annotations

import pytest

from crash.calls import Strike, every, play, sample, why_not

EVERY_DAY = sample()
STRIKES = [
    pytest.param(strike, id=strike.id, marks=() if strike in EVERY_DAY else pytest.mark.slow) for strike in every()
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("strike", STRIKES)
def test_what_is_promised_holds_whatever_the_kernel_answers(strike: Strike) -> None:
    if reason := why_not():
        pytest.skip(reason)
    result = play(strike)
    assert not result.findings, str(result.findings)
