"""A tree of processes: `plant.py COUNT FOLDER`. Half of them, the second half, fork twice and lead a session.

Each makes a file in FOLDER, called by its pid, and waits for a signal.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """One process of the tree is this one."""
    count, folder = int(sys.argv[1]), Path(sys.argv[2])
    for number in range(1, count):
        pid = os.fork()
        if pid == 0:
            if number >= count // 2:
                os.setsid()
                if os.fork():
                    os._exit(0)
            break
        if number >= count // 2:
            os.waitpid(pid, 0)
    (folder / str(os.getpid())).touch()
    while True:
        signal.pause()


main()
