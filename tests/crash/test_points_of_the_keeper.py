"""SIGKILL at each point of a keeper: nothing is lost, doubled or leaked, and the records are true."""

from __future__ import annotations

import pytest

from crash.matrix import Cell, cells, play, sample
from tower.core.failpoint import KEEPER_NAMES

EVERY_DAY = sample(KEEPER_NAMES)
CELLS = [
    pytest.param(cell, id=cell.id, marks=() if cell in EVERY_DAY else pytest.mark.slow)
    for cell in cells()
    if cell.point in KEEPER_NAMES
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("cell", CELLS)
def test_what_is_promised_holds_after_a_crash(cell: Cell) -> None:
    """B008: also where the tower is killed between the fork of a program and its record."""
    result = play(cell)
    assert result.reached
    assert not result.findings, str(result.findings)


def test_every_day_each_point_is_visited() -> None:
    assert {cell.point for cell in EVERY_DAY} == set(KEEPER_NAMES)
    assert set(EVERY_DAY) <= set(cells())
