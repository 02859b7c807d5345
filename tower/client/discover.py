"""Where a tower may be listening, in the order in which a client tries.

Owns the list of places and why each is on it. Reads the nearest configuration file only for the two keys that say
where the socket is; whether that file is good is the daemon's business, so a broken one is no error here.
"""

# Importing pathlib costs a third of a bare interpreter's start, and `tower status` would wait for it.
# ruff: noqa: PTH112, PTH113, PTH118, PTH120, PTH123

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

CONFIG_NAME: Final = "layover.toml"
STATE_NAME: Final = ".layover"
SOCKET_NAME: Final = "tower.sock"
POINTER_NAME: Final = "socket.path"
SYSTEM_SOCKET: Final = "/run/tower/tower.sock"

MAX_CONFIG_BYTES: Final = 4 << 20
MAX_POINTER_BYTES: Final = 4096
"""`socket.path` holds one path; PATH_MAX is 4096."""


class Place(NamedTuple):
    """One socket that may be a tower's."""

    path: str
    origin: str
    """Who named it: `--socket`, a variable, a file, or a well-known place."""
    config: str | None = None
    """The configuration file that led here, where one did."""


def places(given: str | None, environ: Mapping[str, str], folder: str | None) -> list[Place]:
    """Every place to try, best first; never empty.

    `given` is the value of `--socket`; it, or one that the environment names, is the only place: who names a tower does
    not want another one. `folder` is where the search upwards for a configuration file begins (None: nowhere).
    """
    if given:
        return [Place(path=_absolute(given, folder), origin="--socket")]
    for name in ("TOWER_SOCKET", "LAYOVER_SOCKET"):  # the second is what a tower tells its runs
        if named := environ.get(name):
            return [Place(path=_absolute(named, folder), origin=f"${name}")]
    found = list(_configured(environ, folder))
    found.append(Place(path=SYSTEM_SOCKET, origin="the system's place"))
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        found.append(Place(path=f"{runtime}/tower/{SOCKET_NAME}", origin="$XDG_RUNTIME_DIR"))
    return [place for i, place in enumerate(found) if place.path not in {earlier.path for earlier in found[:i]}]


def nearest_config(environ: Mapping[str, str], folder: str | None) -> str | None:
    """The configuration file of this place: `$TOWER_CONFIG`, else the nearest `layover.toml` from `folder` upwards."""
    if named := environ.get("TOWER_CONFIG"):
        path = _absolute(named, folder)
        return f"{path}/{CONFIG_NAME}" if os.path.isdir(path) else path
    while folder is not None:
        path = f"{folder.rstrip('/')}/{CONFIG_NAME}"
        if os.path.isfile(path):
            return path
        folder = os.path.dirname(folder) if folder != "/" else None
    return None


def _configured(environ: Mapping[str, str], folder: str | None) -> Iterator[Place]:
    config = nearest_config(environ, folder)
    if config is None:
        yield from _left_behind(folder)
        return
    home = os.path.dirname(config)
    layover = _layover_table(config)
    if socket := environ.get("TOWER_LAYOVER__SOCKET") or layover.get("socket"):
        yield Place(path=_absolute(str(socket), home), origin=f"`socket` of {config}", config=config)
    state = state_dir(config, environ, layover)
    pointer = f"{state}/{POINTER_NAME}"
    if written := _first_line(pointer):
        yield Place(path=written, origin=pointer, config=config)
        return
    # Inside the unit (`ExecReload=tower reload`) systemd names the folder that the daemon was given.
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    yield Place(path=f"{runtime or state}/{SOCKET_NAME}", origin=f"the state folder of {config}", config=config)


def _left_behind(folder: str | None) -> Iterator[Place]:
    """What a tower that runs wrote down in the nearest state folder: its configuration file may be moved meanwhile."""
    while folder is not None:
        pointer = f"{folder.rstrip('/')}/{STATE_NAME}/{POINTER_NAME}"
        if written := _first_line(pointer):
            yield Place(path=written, origin=pointer)
            return
        folder = os.path.dirname(folder) if folder != "/" else None


def state_dir(config: str, environ: Mapping[str, str], layover: Mapping[str, Any] | None = None) -> str:
    """The state folder that belongs to a configuration file, as far as a cheap look at it can tell."""
    table = _layover_table(config) if layover is None else layover
    named = environ.get("TOWER_LAYOVER__STATE_DIR") or table.get("state_dir")
    named = named or environ.get("STATE_DIRECTORY", "").partition(":")[0] or STATE_NAME
    return _absolute(str(named), os.path.dirname(config))


def _layover_table(config: str) -> Mapping[str, Any]:
    try:
        with open(config, "rb") as file:
            raw = file.read(MAX_CONFIG_BYTES)
        if b"socket" not in raw and b"state_dir" not in raw:
            return {}  # the common case, and a TOML parser saved
        import tomllib

        table = tomllib.loads(raw.decode()).get("layover")
    except (OSError, ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _first_line(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            line = os.fsdecode(file.read(MAX_POINTER_BYTES).split(b"\n", 1)[0])
    except OSError:
        return None
    return line if line.startswith("/") and "\0" not in line else None


def _absolute(path: str, folder: str | None) -> str:
    return os.path.join(folder or "/", path)
