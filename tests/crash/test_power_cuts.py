"""Power cuts: what was acknowledged was on disk, and a start that may have happened is not taken for none."""

from __future__ import annotations

import pytest

from crash.power import Cut, cuts, play, sample, why_not

EVERY_DAY = sample()
CUTS = [pytest.param(cut, id=cut.id, marks=() if cut in EVERY_DAY else pytest.mark.slow) for cut in cuts()]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("cut", CUTS)
def test_what_is_promised_holds_after_a_power_cut(cut: Cut) -> None:
    if reason := why_not():
        pytest.skip(reason)
    result = play(cut)
    assert not result.findings, str(result.findings)
