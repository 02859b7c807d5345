"""All checks in one command, the same for people and CI: `python tests/check.py [NAME ...]`.

Format, lint, types, floors, dead dependencies, and the tests, which look at the unit file and the image as well. Names
choose some of them; arguments after `--` go to pytest. Prints one line a check, what failed in full, and exits 1 if any
did.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TESTS = "tests"


@dataclass(frozen=True, slots=True)
class Check:
    """One command."""

    name: str
    command: Sequence[str]


def checks(pytest_arguments: Sequence[str]) -> list[Check]:
    """Everything that must hold, the quick ones first."""
    tool = lambda name: str(BIN / name)  # noqa: E731
    return [
        Check("format", [tool("ruff"), "format", "--check", "."]),
        Check("lint", [tool("ruff"), "check", "."]),
        Check("types", [tool("mypy")]),
        Check("floors", [tool("lint-imports"), "--no-cache"]),
        Check("dependencies", [tool("deptry"), "."]),
        Check(TESTS, [sys.executable, "-m", "pytest", *pytest_arguments]),
    ]


def run(check: Check) -> tuple[Check, int, str, float]:
    """Exit code, output and seconds."""
    began = time.monotonic()
    if check.name == TESTS:
        # Shown as it goes: it is the long one, and its last line is what people look for.
        print(f"tests: {' '.join(check.command)}", flush=True)
        code = subprocess.run(check.command, cwd=ROOT, check=False).returncode
        return check, code, "", time.monotonic() - began
    done = subprocess.run(check.command, cwd=ROOT, check=False, capture_output=True, text=True)
    return check, done.returncode, done.stdout + done.stderr, time.monotonic() - began


def main(arguments: Sequence[str]) -> int:
    """Run the named checks, or all."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, pytest_arguments = arguments[:split], arguments[split + 1 :]
    every = checks(pytest_arguments)
    unknown = set(names) - {check.name for check in every}
    if unknown:
        print(f"cannot run {', '.join(sorted(unknown))}; there are {', '.join(check.name for check in every)}")
        return 2
    chosen = [check for check in every if not names or check.name in names]
    failed = []
    with ThreadPoolExecutor(2) as pool:
        for check, code, output, seconds in pool.map(run, [check for check in chosen if check.name != TESTS]):
            print(f"{check.name}: {'FAILED' if code else 'ok'} ({seconds:.1f} s)", flush=True)
            if code:
                failed.append(check.name)
                print(output, flush=True)
    failed += [check.name for check in chosen if check.name == TESTS and run(check)[1]]
    print("all checks passed" if not failed else f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
