"""Runs the benchmarks that were named, or all, and prints their rows as they come."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from . import (
    acknowledge,
    configuration,
    door,
    drawing,
    history,
    idle,
    keeper,
    output,
    snapshots,
    start,
    status,
    throughput,
)
from .machine import describe, place
from .table import HEAD, Row, line

BENCHMARKS: Final[Mapping[str, Callable[..., list[Row]]]] = {
    module.__name__.rpartition(".")[2]: module.measure
    for module in (
        throughput,
        start,
        acknowledge,
        door,
        status,
        configuration,
        drawing,
        keeper,
        output,
        snapshots,
        idle,
        history,
    )
}


def main(arguments: Sequence[str]) -> int:
    """Print the machine and the table; 0 however fast or slow it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Tower beside other programs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument(
        "--tiny", action="store_true", help="a few of everything: shows that it works, measures nothing"
    )
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"cannot run {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    print(f"{describe(place())}\n\n{HEAD}", flush=True)
    for name in chosen.names or BENCHMARKS:
        for row in BENCHMARKS[name](tiny=chosen.tiny):
            print(line(row), flush=True)
    return 0
