"""Where things live: `[layover]` and the rails of `[defaults]` as absolute, resolved settings.

The tower's environment is asked here for systemd's folders (`STATE_DIRECTORY` and its like), nowhere else.
"""

from __future__ import annotations

import grp
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tower.config.files import is_folder, real
from tower.config.overrides import LayoverTable, overridden
from tower.config.problems import Findings
from tower.config.schema import DefaultsTable
from tower.config.tables import Checked
from tower.core import addresses
from tower.core.costs import parse
from tower.core.factory import FuelAction, OnStop, Settings

MAX_SOCKET_PATH: Final = 107
"""Bytes that the kernel takes as the path of a Unix socket (`sun_path`, 108 with its NUL)."""

_MIB: Final = 1 << 20


def resolve_settings(
    layover: Checked[LayoverTable],
    defaults: Checked[DefaultsTable],
    folder: Path,
    environ: Mapping[str, str],
    findings: Findings,
) -> Settings:
    """Settings with absolute paths, relative ones taken from `folder`; the origin of each key is kept."""
    table, rails = layover.value, defaults.value
    places = _Places(folder, environ)
    state_dir = places.take("state_dir", table.state_dir, "STATE_DIRECTORY", "", folder / ".layover")
    socket = places.take("socket", table.socket, "RUNTIME_DIRECTORY", "tower.sock", Path(state_dir) / "tower.sock")
    snapshots = places.take(
        "snapshots_dir", table.snapshots_dir, "CACHE_DIRECTORY", "snapshots", Path(state_dir) / "snapshots"
    )
    _check_socket(socket, table, places, findings)
    _check_group(table.socket_group, findings)
    _check_reach(table.http_addr, findings)
    return Settings(
        state_dir=state_dir,
        work_dir=str(real(folder / table.work_dir)),
        allowed_dirs=tuple(str(real(folder / place)) for place in table.allowed_dirs),
        prompt_dir=os.path.normpath(folder / table.prompt_dir),
        socket=socket,
        socket_group=table.socket_group,
        on_stop=OnStop(table.on_stop),
        grace_sec=table.grace_sec,
        max_body_bytes=table.max_body_bytes,
        max_log_bytes=table.max_log_mb * _MIB,
        min_free_bytes=table.min_free_mb * _MIB,
        snapshots_dir=snapshots,
        logbook=os.path.normpath(folder / table.logbook) if table.logbook else str(Path(state_dir) / "logbook.md"),
        umask=table.umask,
        retention_days=table.retention_days,
        snapshots_max=table.snapshots_max,
        keep_worktrees_sec=table.keep_worktrees_hours * 3600,
        http_addr=table.http_addr,
        public_hosts=table.public_hosts,
        notify=table.notify,
        include=table.include,
        max_concurrent_runs=rails.max_concurrent_runs,
        max_hops=rails.max_hops,
        max_runs=rails.max_runs,
        reserve=parse(rails.reserve_usd),
        fuel_action=FuelAction(rails.fuel_action),
        max_spawn_generations=rails.max_spawn_generations,
        shared_writers=rails.writers == "shared",
        origins=_origins(layover, defaults, places, environ),
    )


def _check_socket(socket: str, table: LayoverTable, places: _Places, findings: Findings) -> None:
    """Refuse a path that is too long, at whatever made it so."""
    length = len(os.fsencode(socket))
    if length <= MAX_SOCKET_PATH:
        return
    sentence = f"makes a socket path of {length} bytes, and the system takes at most {MAX_SOCKET_PATH}"
    own = f"/run/user/{os.geteuid()}"
    hint = f"set [layover] socket to a shorter path, such as one below {own if is_folder(Path(own)) else '/run'}"
    variable = places.variables.get("socket")
    if table.socket is None and variable is None and table.state_dir is None:
        variable = places.variables.get("state_dir")
    if variable is not None:
        findings.environment(variable, sentence, hint)
    else:
        is_named = table.socket is not None or table.state_dir is None
        findings.error(("layover", "socket" if is_named else "state_dir"), sentence, hint)


def _check_group(group: str | None, findings: Findings) -> None:
    if group is None:
        return
    try:
        grp.getgrnam(group)
    except KeyError:
        findings.error(
            ("layover", "socket_group"),
            f"there is no group {group!r} on this machine",
            "make it (`groupadd`), or name one that `getent group` lists",
        )


def _check_reach(http_addr: str, findings: Findings) -> None:
    if http_addr and not addresses.parse(http_addr).is_loopback:
        findings.warning(
            ("layover", "http_addr"),
            "can be reached from other machines, and what it carries, tokens too, is not encrypted",
            "write a loopback address, and put a proxy that speaks TLS before it",
        )


class _Places:
    """Takes each place from the file, else from systemd's variable, else from what is built in."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self.variables: dict[str, str] = {}
        """Key -> the variable that its value came from."""

    def take(self, key: str, written: str | None, variable: str, below: str, otherwise: Path) -> str:
        # systemd separates several folders by colons; the first is the unit's own.
        given = self._environ.get(variable, "").split(":")[0]
        if written is not None:
            place = Path(written)
        elif given:
            self.variables[key] = variable
            place = Path(given, below)
        else:
            place = otherwise
        return os.path.normpath(self._folder / place)


def _origins(
    layover: Checked[LayoverTable],
    defaults: Checked[DefaultsTable],
    places: _Places,
    environ: Mapping[str, str],
) -> dict[str, str]:
    origins = {}
    variables = places.variables | overridden(environ)
    for key in type(layover.value).model_fields:
        written = "file" if key in layover.value.model_fields_set else "built in"
        origins[f"layover.{key}"] = f"environment {variables[key]}" if key in variables else written
    for key in (
        "max_concurrent_runs",
        "max_hops",
        "max_runs",
        "max_spawn_generations",
        "reserve_usd",
        "fuel_action",
        "writers",
    ):
        origins[f"defaults.{key}"] = "file" if key in defaults.value.model_fields_set else "built in"
    return origins
