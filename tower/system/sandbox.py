"""What this machine can confine runs with, found by trying, and the walls of one run as a command and as paths.

Which mechanism holds an agent decides `core.confinement`; the keeper puts the walls up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tower.core.confinement import LEAST_LANDLOCK, Abilities, Confinement, Mechanism
from tower.core.launch import Overlay, Walls
from tower.system.keeper.walls import landlock_abi
from tower.system.keeping import ROOT

TRIAL_SEC: Final = 10.0
"""For one trial: it takes some 30 ms, on a machine that swaps a hundred times that."""

_KEPT_BY_ROOT: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""What root needs for files of others; with more it could take the walls down."""

_TRY_OVERLAY: Final = """
import os, sys
sys.path.append(sys.argv[1])
from tower.system.keeper.walls import put_up
lower, upper, work, at = (os.path.join(sys.argv[2], name) for name in ("lower", "upper", "work", "at"))
try:
    put_up({"prefix": [], "overlay": [os.fsencode(path) for path in (lower, upper, work, at)], "landlock": None})
except OSError as error:
    sys.exit(f"the kernel refuses an overlay ({error})")
os.execv(sys.argv[3], sys.argv[3:])
"""

_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - these are the paths themselves, and nothing is made there


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The places around one run; absolute paths."""

    home: str
    hidden: tuple[str, ...]
    """Folders that it must not see: the state folder, the snapshots', the control socket's."""
    socket: str
    """The control socket, which may lie elsewhere."""
    readable: tuple[str, ...]
    """What it needs to see although it may lie in a hidden or a temporary folder."""
    writable: tuple[str, ...]
    """Its workspace (for a reader its private copy), its `out` and `tmp`."""
    tmp: str
    """What it sees as /tmp."""
    cwd: str
    overlay: Overlay | None = None


def abilities(path: str, scratch: str) -> Abilities:
    """Try what can be had: bubblewrap from the search path `path`, an overlay on the disk of the folder `scratch`."""
    program = shutil.which("bwrap", path=path)
    no_bubblewrap = "the program bwrap is not installed" if program is None else _try_bubblewrap(program)
    no_overlay = no_bubblewrap
    if program is not None and not no_bubblewrap:
        no_overlay = _try_overlay(program, scratch)
    abi = landlock_abi()
    return Abilities(
        bubblewrap=program,
        no_bubblewrap=no_bubblewrap,
        no_overlay=no_overlay,
        landlock=abi,
        is_root=os.geteuid() == 0,
        no_landlock="" if abi >= LEAST_LANDLOCK else _no_landlock(abi),
    )


def walls(held: Confinement, around: Surroundings, program: str | None) -> Walls | None:
    """What is put up around a run that `held` says how to confine; `program` is bubblewrap's path."""
    home = Path(around.home)
    more = (*(str(home / place) for place in held.home_writable), *held.writable)
    if held.mechanism is Mechanism.BUBBLEWRAP and program is not None:
        return Walls(prefix=tuple(_bubblewrap(program, held, around, more)), overlay=around.overlay)
    if held.mechanism is Mechanism.LANDLOCK:
        return Walls(landlock=("/dev", *_temporary(around), *around.writable, *more))
    return None


def _temporary(around: Surroundings) -> Iterator[str]:
    """Landlock has no /tmp of a run's own: the common one may be written, unless something of ours lies there."""
    for folder in _TEMPORARY:
        if not any(_is_below(path, folder) for path in (*around.hidden, *around.readable)):
            yield folder


def _bubblewrap(program: str, held: Confinement, around: Surroundings, more: Iterable[str]) -> Iterator[str]:
    """The command up to its `--`. Later mounts lie over earlier ones, so outer folders come before inner ones."""
    yield from (program, "--die-with-parent", "--unshare-pid")
    if not held.network:
        yield "--unshare-net"
    if os.geteuid() == 0:
        yield from ("--cap-drop", "ALL")
        for name in _KEPT_BY_ROOT:
            yield from ("--cap-add", f"CAP_{name}")
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    for folder in _TEMPORARY:
        if Path(folder).is_dir():
            yield from ("--bind", around.tmp, folder)
    yield from _mounts(around, more)
    yield from ("--chdir", around.cwd)


def _mounts(around: Surroundings, more: Iterable[str]) -> Iterator[str]:
    """What is hidden, and what can be seen or written in spite of it."""
    hidden = [folder for folder in around.hidden if Path(folder).is_dir()]
    mounts: dict[str, tuple[str, ...]] = dict.fromkeys(hidden, ("--tmpfs",))
    mounts |= {path: ("--bind-try", path) for path in (*more, *around.writable)}
    if around.overlay is not None:
        mounts[around.overlay.at] = ("--bind", around.overlay.at)

    def is_seen(path: str) -> bool:
        """The innermost folder around it decides."""
        return max((one for one in (*_TEMPORARY, *mounts) if _is_below(path, one)), key=len, default="") not in (
            *_TEMPORARY,
            *hidden,
        )

    for path in around.readable:
        if not is_seen(path) and path not in mounts:
            mounts[path] = ("--ro-bind-try", path)
    if Path(around.socket).exists() and is_seen(around.socket):
        mounts[around.socket] = ("--ro-bind", os.devnull)
    for path, mount in sorted(mounts.items()):
        yield from (*mount, path)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _try_bubblewrap(program: str) -> str:
    words = ("--die-with-parent", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    return _trial((program, *words, "--", "true"))


def _try_overlay(program: str, scratch: str) -> str:
    """Mount one as a keeper would, start bubblewrap in it, and look whether it holds what it should."""
    try:
        with tempfile.TemporaryDirectory(prefix=".trial-", dir=scratch) as folder:
            for name in ("lower", "upper", "work", "at"):
                Path(folder, name).mkdir()
            Path(folder, "lower/seen").touch()
            inside = f"{folder}/at"
            test = 'test -e "$0/seen" && echo > "$0/made"'
            words = (program, "--dev-bind", "/", "/", "--", "sh", "-c", test, inside)
            problem = _trial((sys.executable, "-I", "-S", "-c", _TRY_OVERLAY, ROOT, folder, *words))
            if not problem and not Path(folder, "upper/made").exists():
                problem = "an overlay does not hold what is written into it"
            # The kernel leaves a folder that only root may enter.
            for left in Path(folder, "work").iterdir():
                left.chmod(0o700)
            return problem
    except OSError as error:
        return f"it cannot be tried in {scratch}: {(error.strerror or str(error)).lower()}"


def _trial(command: tuple[str, ...]) -> str:
    """What speaks against it: the command's last words; "" when it ends well."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TRIAL_SEC,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {TRIAL_SEC:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (words[-1] if words else f"it ended with code {done.returncode}")


def _no_landlock(abi: int) -> str:
    if abi == 0:
        return "the kernel has none"
    return f"the kernel has ABI {abi}, and before {LEAST_LANDLOCK} truncating is not covered"
