"""Environment variables that the file declares: their names, and whether they are set now.

Values of `env` stand in a file that is committed, so a name that looks like a credential's is refused there; names in
`env_from` are forwarded from the tower's environment or its credentials folder. Building a run's environment is left
to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tower.config.files import exists
from tower.config.overrides import PREFIX
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.tables import Tables

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRAY: Final = re.compile(r"TOWER_[A-Z]+__.*", re.DOTALL)
"""Meant as an override of another table than `[layover]`, the only one that can be overridden."""

_CREDENTIAL_PARTS: Final = frozenset(
    {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"},
)
_CREDENTIAL_ENDINGS: Final = (*sorted(_CREDENTIAL_PARTS), "_KEY", "_PAT", "_PWD")
_HARMLESS_ENDINGS: Final = frozenset({"FILE", "PATH", "DIR", "LIMIT", "BUDGET", "COUNT", "SIZE", "TTL"})
"""What says that a name is about a credential rather than holding one (`TOKEN_FILE`)."""

_OURS: Final = "LAYOVER_"
"""Names that the tower sets for each run itself."""


def check_variables(tables: Tables, environ: Mapping[str, str], findings: Findings) -> None:
    """Check every name in `env` and `env_from`, and warn about declared variables that are not set now."""
    for path, names in _literals(tables):
        for name in names:
            if _is_name((*path, name), name, findings) and looks_like_credential(name):
                findings.error(
                    (*path, name),
                    "looks like a credential, which has no place in a file",
                    f'write env_from = ["{name}"] and set it in the tower\'s environment',
                )
    for path, names in _forwarded(tables):
        for index, name in enumerate(names):
            if _is_name((*path, index), name, findings) and not is_set(name, environ):
                findings.warning(
                    (*path, index),
                    f"{name} is not set now",
                    "set it in the tower's environment or as a credential; flights that need it are held until then",
                )
    for variable in sorted(environ):
        if _STRAY.fullmatch(variable) and not variable.startswith(PREFIX):
            findings.environment(variable, "overrides nothing", f"only {PREFIX}NAME does", severity="warning")


def looks_like_credential(name: str) -> bool:
    """Whether a variable of this name would usually hold a secret."""
    parts = name.upper().split("_")
    if parts[-1] in _HARMLESS_ENDINGS:
        return False
    return name.upper().endswith(_CREDENTIAL_ENDINGS) or not _CREDENTIAL_PARTS.isdisjoint(parts)


def _literals(tables: Tables) -> Iterator[tuple[KeyPath, Iterable[str]]]:
    yield ("defaults", "env"), tables.defaults.value.env
    for name, agent in tables.agents.items():
        yield ("agents", name, "env"), agent.value.env


def _forwarded(tables: Tables) -> Iterator[tuple[KeyPath, Iterable[str]]]:
    yield ("defaults", "env_from"), tables.defaults.value.env_from
    for name, runner in tables.runners.items():
        yield ("runners", name, "env_from"), runner.value.env_from
    for name, agent in tables.agents.items():
        yield ("agents", name, "env_from"), agent.value.env_from


def _is_name(path: KeyPath, name: str, findings: Findings) -> bool:
    if not _NAME.fullmatch(name):
        findings.error(path, "is not a name for a variable", "use letters, digits and _, beginning with no digit")
        return False
    if name.startswith(_OURS):
        findings.error(path, f"names beginning with {_OURS} are set by the tower", "choose another name")
        return False
    return True


def is_set(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a run could be given the variable: it is in the tower's environment, or among its credentials."""
    folder = environ.get("CREDENTIALS_DIRECTORY")
    return name in environ or bool(folder and exists(Path(folder, name)))
