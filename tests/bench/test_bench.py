"""Every benchmark works; how fast anything is stands in no test."""

from __future__ import annotations

import pytest

from . import run
from .table import HEAD, compared, line


@pytest.mark.parametrize("name", run.BENCHMARKS)
def test_a_benchmark_prints_the_machine_and_its_rows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--tiny", name]) == 0
    machine, nothing, *table = capsys.readouterr().out.splitlines()
    assert "cores" in machine
    assert nothing == ""
    assert table[:2] == HEAD.splitlines()
    assert table[2:]
    assert {row.count(" | ") for row in table[2:]} == {5}


def test_a_ratio_is_taken_within_each_round_and_then_the_median() -> None:
    row = compared("it", [10, 20, 400], [10, 10, 100], unit="/s", reference="other", at_least=2.5)
    assert line(row) == "| it | 20 /s | other: 10 /s | 2.00 x | at least 2.5 x | no |"


@pytest.mark.parametrize(("ratio", "word"), [(1.9, "yes"), (2.0, "yes"), (2.1, "no")])
def test_a_bound_from_above_holds_for_what_is_below_it(ratio: float, word: str) -> None:
    row = compared("it", [ratio], [1.0], unit="ms", reference="other", at_most=2.0)
    assert line(row).endswith(f"| at most 2 x | {word} |")


def test_an_unknown_name_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["nothing"])
    assert "cannot run nothing; there are throughput, start" in capsys.readouterr().err
