"""SIGKILL at each point of a turn and of a resident's keeper: told once, and never two processes."""

from __future__ import annotations

import pytest

from crash.matrix import Cell
from crash.residents import cells, play, sample

EVERY_DAY = sample()
CELLS = [pytest.param(cell, id=cell.id, marks=() if cell in EVERY_DAY else pytest.mark.slow) for cell in cells()]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("cell", CELLS)
def test_what_is_promised_holds_after_a_crash(cell: Cell) -> None:
    result = play(cell)
    assert result.reached
    assert not result.findings, str(result.findings)
