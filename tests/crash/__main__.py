"""`python -m tests.crash [KIND...] [--sample] [--only TEXT] [--each] [--jobs N]`, from the root of the repository.

Kinds are points, residents, calls, power; all of them when none is named. Prints a Markdown table for each; what did
not hold goes to standard error, and the exit code is 1 when there is any. `--only` makes pieces of what takes long:
`calls --only full-disk`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# As pytest does it for the tests here.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash import calls, matrix, power, residents
from tower.core.failpoint import KEEPER_NAMES, NAMES

KINDS: dict[str, Any] = {"points": matrix, "residents": residents, "calls": calls, "power": power}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("kinds", nargs="*", choices=list(KINDS), help="which tables; all by default")
    parser.add_argument("--sample", action="store_true", help="only what every test run does")
    parser.add_argument("--only", metavar="TEXT", default="", help="only those whose id has this text")
    parser.add_argument("--each", action="store_true", help="a row for each crash at a point, not one for each point")
    parser.add_argument("--jobs", type=int, default=2, help="crashes at a time")
    given = parser.parse_args(arguments)
    failed = False
    for name in given.kinds or KINDS:
        kind = KINDS[name]
        reason = None if kind in (matrix, residents) else kind.why_not()
        if reason:
            print(f"{name}: left out, since {reason}\n", flush=True)
            continue
        results: list[Any] = []
        with ThreadPoolExecutor(given.jobs) as pool:
            played = _collected(pool.map(kind.play, _chosen(name, given.only, sample=given.sample)), results)
            rows = kind.table if given.each or kind in (calls, power) else matrix.summary
            for row in rows(played):
                print(row, flush=True)
        print(flush=True)
        failed = failed or any(result.findings for result in results)
    return int(failed)


def _chosen(name: str, only: str, *, sample: bool) -> list[Any]:
    if name == "points":
        every = matrix.sample([*NAMES, *KEEPER_NAMES]) if sample else matrix.cells()
    elif name == "residents":
        every = residents.sample() if sample else residents.cells()
    elif name == "calls":
        every = calls.sample() if sample else calls.every()
    else:
        every = power.sample() if sample else power.cuts()
    return [one for one in every if only in one.id]


def _collected(played: Iterable[Any], results: list[Any]) -> Iterator[Any]:
    for result in played:
        results.append(result)
        if result.findings:
            print(f"{result.what.id}:\n{result.findings}\n", file=sys.stderr, flush=True)
        yield result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
