"""The limit on open files: raised once, and said when it comes near. Each test has a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys

RAISE = """
import resource
from tower.system.descriptors import raise_descriptor_limit
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
print(raise_descriptor_limit(), resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
print(raise_descriptor_limit() == hard)
"""

USE_UP = """
import os
from tower.system.descriptors import shortage
print(shortage())
held = []
while len(os.listdir("/proc/self/fd")) < 56:
    held.append(os.open("/dev/null", os.O_RDONLY))
print(shortage())
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    print(shortage())
"""


def run(code: str) -> str:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))

    done = subprocess.run([sys.executable, "-c", code], preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_raised_to_the_hard_limit_and_the_old_one_is_told() -> None:
    assert run(RAISE).split() == ["64", "True", "True"]


def test_it_is_said_when_few_are_left_and_when_none_is() -> None:
    plenty, few, none = run(USE_UP).splitlines()
    assert plenty == "None"
    assert "of 64 file descriptors are in use" in few
    assert "LimitNOFILE" in few
    assert "no file descriptor is left" in none
