"""The environment of a run, built from nothing: a few names that every program needs, and what was declared.

Pure: the tower's own environment and its credentials are passed in. What is missing or cannot be passed on is said
by name, with the key that declared it, and never with its value. The `LAYOVER_*` names are the caller's to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tower.core.factory import Agent, Runner

AS_THE_TOWER_HAS_THEM: Final = ("USER", "LOGNAME", "SHELL", "LANG", "TZ")
PREFIXES_AS_THE_TOWER_HAS_THEM: Final = ("LC_", "XDG_")

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What a shell falls back to; used when the tower itself was started without PATH."""

OWN_PREFIX: Final = "LAYOVER_"
"""Names that say who a run is. No declaration overrides them."""

NEVER: Final = frozenset({"NOTIFY_SOCKET", "CLAUDECODE", "CREDENTIALS_DIRECTORY"})
NEVER_PREFIXES: Final = ("LISTEN_", "WATCHDOG_", "TOWER_")
"""With these a run could speak as the service, or would take itself for part of another program."""

MAX_BYTES: Final = 128 << 10
"""The kernel's MAX_ARG_STRLEN: `NAME=value` with its final NUL may not be larger, or nothing can be executed."""

PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"})
NO_PROXY: Final = ("NO_PROXY", "no_proxy")
NOT_SET: Final = "is not set"

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Agent programs send even loopback calls through a proxy unless these names are exempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a program is started with. Never printed: `names` is what may be shown."""

    values: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    """Values that were forwarded by name, to be masked wherever they appear."""
    forwarded: tuple[str, ...] = ()
    """The names that these have."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """One variable that cannot be passed on."""

    variable: str
    key: str
    """The key of the configuration that declared it."""
    why: str
    """Completes the sentence that begins with the variable's name."""

    @property
    def is_absent(self) -> bool:
        """It is simply not there; anything else is wrong with what was declared."""
        return self.why == NOT_SET

    def __str__(self) -> str:
        return f"{self.variable} (declared by {self.key}) {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The run cannot start: every variable that is not there, or cannot be passed on."""

    agent: str
    variables: tuple[Unfit, ...]

    def __str__(self) -> str:
        return f"cannot give {self.agent} its environment: {'; '.join(map(str, self.variables))}"


def build(
    *,
    own: Mapping[str, str],
    credentials: Callable[[str], str | None],
    agent: Agent,
    runner: Runner,
    layover: Mapping[str, str],
    home: str,
    tmpdir: str,
    private_home: bool = False,
) -> Environment | Missing:
    """The whole environment of one run of `agent` by `runner`, or what stands in its way.

    `own` is the tower's environment; `credentials` looks a name up where the service manager put secrets; `layover`
    holds the `LAYOVER_*` values; with `private_home`, `home` is the agent's alone.
    A literal in `env` beats a forwarded name, and both beat the common names.
    """
    shared = common(own, home=home, tmpdir=tmpdir)
    if private_home:
        # These lead programs to the tower's own folders, past the HOME that they are given.
        shared = {name: value for name, value in shared.items() if not name.startswith("XDG_")}
    declared = forwarded_names(agent, runner)
    found = {name: own[name] if name in own else credentials(name) for name in declared if not _never(name)}
    forwarded = {name: value for name, value in found.items() if value is not None}
    values = _exempt_loopback({**shared, **forwarded, **agent.env}, own) | dict(layover)

    origin = dict.fromkeys(values, "the tower") | declared | dict.fromkeys(agent.env, f"agents.{agent.name}.env")
    absent = (Unfit(variable=name, key=declared[name], why=NOT_SET) for name in found if name not in values)
    barred = (
        Unfit(variable=name, key=origin[name], why="belongs to the tower and is never passed on")
        for name in sorted({*declared, *agent.env})
        if _never(name)
    )
    unfit = (*absent, *barred, *_impossible(values, origin))
    if unfit:
        return Missing(agent=agent.name, variables=unfit)
    secret = tuple(name for name in secret_names(forwarded, agent.env) if forwarded[name])
    return Environment(
        values=values, secrets=tuple(dict.fromkeys(forwarded[name] for name in secret)), forwarded=secret
    )


def common(own: Mapping[str, str], *, home: str, tmpdir: str) -> dict[str, str]:
    """The few names that every program needs, from the tower's own environment; nothing secret is among them."""
    kept = {
        name: value
        for name, value in own.items()
        if name in AS_THE_TOWER_HAS_THEM or name.startswith(PREFIXES_AS_THE_TOWER_HAS_THEM)
    }
    # HOME is always set: a program without it writes into the real one, which it looks up itself.
    return {"PATH": own.get("PATH") or DEFAULT_PATH, "HOME": home, "TMPDIR": tmpdir, "TERM": "dumb"} | kept


def forwarded_names(agent: Agent, runner: Runner) -> dict[str, str]:
    """The names that are declared to be passed on, each with the key that declares it."""
    by_runner = dict.fromkeys(runner.env_from, f"runners.{runner.name}.env_from")
    return by_runner | dict(agent.env_from)


def _never(name: str) -> bool:
    return name in NEVER or name.startswith((*NEVER_PREFIXES, OWN_PREFIX))


def _exempt_loopback(values: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """`values`, with the loopback names exempt from any proxy in them, in both spellings."""
    if PROXIES.isdisjoint(values):
        return dict(values)
    hosts = [
        host.strip() for name in NO_PROXY for host in values.get(name, own.get(name, "")).split(",") if host.strip()
    ]
    # A star exempts everything, and only when it stands alone.
    exempt = "*" if "*" in hosts else ",".join(dict.fromkeys([*hosts, *LOOPBACK]))
    return dict(values) | dict.fromkeys(NO_PROXY, exempt)


def _impossible(values: Mapping[str, str], origin: Mapping[str, str]) -> Iterable[Unfit]:
    """Variables that the kernel could not hand to a program."""
    for name, value in values.items():
        why = _flaw(name, value)
        if why:
            yield Unfit(variable=name, key=origin.get(name, "the tower"), why=why)


def _flaw(name: str, value: str) -> str | None:
    if "\0" in name or "\0" in value:
        return "holds a NUL character"
    if not name or "=" in name:
        return "is no name for a variable"
    size = len(f"{name}={value}".encode(errors="surrogateescape")) + 1
    return f"is too large: {size} bytes with its name, and {MAX_BYTES} is the limit" if size > MAX_BYTES else None


def secret_names(forwarded: Iterable[str], literals: Container[str] = ()) -> tuple[str, ...]:
    """Those of the names that are passed on whose values are secret. One that every run gets, or a list of hosts, is
    none, and a literal stands in the file for everybody."""
    open_names = {"PATH", "HOME", "TMPDIR", "TERM", *AS_THE_TOWER_HAS_THEM, *NO_PROXY}
    return tuple(
        name
        for name in forwarded
        if name not in open_names and name not in literals and not name.startswith(PREFIXES_AS_THE_TOWER_HAS_THEM)
    )
