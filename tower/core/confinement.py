"""How a run is confined: by which mechanism, where it may write, and in words what that enforces and what it does not.

One pure decision over the agent, its runner and what this machine can do. Trying what the machine can do is
`system.sandbox`'s, carrying it out the keeper's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tower.core.factory import Access, Agent, Runner

LEAST_LANDLOCK: Final = 3
"""Before ABI 3 (Linux 6.2) `truncate` works on any file outside."""

CONFIGURATION_HOMES: Final = {
    "claude": (".claude", ".claude.json", ".config/claude", ".cache/claude"),
    "codex": (".codex",),
    "copilot": (".copilot", ".config/github-copilot"),
    "gemini": (".gemini",),
    "opencode": (".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
    "qwen": (".qwen",),
}
"""Program -> what it keeps of its own below HOME, and cannot work without writing."""

CACHES: Final = (
    ".npm",
    ".cache/pip",
    ".cache/uv",
    ".cargo/registry",
    ".cargo/git",
    ".cache/go-build",
    "go/pkg",
)
"""Below HOME: caches of package tools, which writers may fill."""


BEYOND: Final = "what it has another daemon do for it (cron, docker) is not confined, and not seen to be a run's"
"""True of every mechanism."""


class Mechanism(StrEnum):
    """What holds a run."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


class Layer(StrEnum):
    """How a reader's snapshot lies before it."""

    OVERLAY = "overlay"
    """The frozen tree, with a scratch layer of the run's own over it."""
    SHARED = "shared"
    """The frozen tree itself, which nobody may write."""
    COPY = "copy"
    """A private copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What was tried on this machine; a text says why something is not to be had, "" that it is."""

    bubblewrap: str | None = None
    """Path of the program."""
    no_bubblewrap: str = "it was not looked for"
    no_overlay: str = "it was not looked for"
    landlock: int = 0
    """ABI version; 0: none."""
    no_landlock: str = "it was not looked for"
    is_root: bool = False
    """Whether runs are root's, who may read what Landlock closes to others."""

    @property
    def has_bubblewrap(self) -> bool:
        return self.bubblewrap is not None and not self.no_bubblewrap

    @property
    def has_landlock(self) -> bool:
        return self.landlock >= LEAST_LANDLOCK and not self.no_landlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What holds the runs of one agent here."""

    mechanism: Mechanism
    layer: Layer | None = None
    """Of a reader; None for a writer."""
    network: bool = True
    """Whether it has the machine's network."""
    home_writable: tuple[str, ...] = ()
    """Below HOME: where it may write beside its workspace."""
    writable: tuple[str, ...] = ()
    """Absolute paths of `sandbox_writable`."""
    enforced: tuple[str, ...] = ()
    advisory: tuple[str, ...] = ()
    refusal: str | None = None
    """In words: why no run may start; then the rest does not matter."""


def confine(agent: Agent, runner: Runner, can: Abilities) -> Confinement:
    """How runs of `agent` are confined on a machine that can do this, with what is said about it."""
    mechanism, why_not = _choose(agent, runner, can)
    is_reader = agent.access is Access.READ_ONLY
    layer = _layer(agent, mechanism, can) if is_reader else None
    network = agent.network or mechanism is not Mechanism.BUBBLEWRAP
    homes = (*_homes(runner), *(() if is_reader else CACHES)) if mechanism is not Mechanism.NONE else ()
    return Confinement(
        mechanism=mechanism,
        layer=layer,
        network=network,
        home_writable=homes,
        writable=agent.sandbox_writable if mechanism is not Mechanism.NONE else (),
        enforced=tuple(_enforced(mechanism, layer, network, homes, agent, can)),
        advisory=tuple(_advisory(mechanism, layer, why_not, agent, can)),
        refusal=_refusal(agent, mechanism, why_not),
    )


def _choose(agent: Agent, runner: Runner, can: Abilities) -> tuple[Mechanism, str]:
    """The strongest mechanism to be had, and why it is none, if it is."""
    if agent.sandbox == "off":
        return Mechanism.NONE, f"agents.{agent.name}.sandbox is off"
    if can.has_bubblewrap:
        return Mechanism.BUBBLEWRAP, ""
    if can.has_landlock and not runner.own_sandbox:
        return Mechanism.LANDLOCK, ""
    other = (
        f"runner {runner.name} has a sandbox of its own, which fails under Landlock"
        if can.has_landlock
        else f"Landlock: {can.no_landlock}"
    )
    return Mechanism.NONE, f"bubblewrap: {can.no_bubblewrap}; {other}"


def _layer(agent: Agent, mechanism: Mechanism, can: Abilities) -> Layer:
    if agent.snapshot_writes == "keep" or agent.resident:
        return Layer.COPY
    if agent.snapshot_writes == "deny":
        return Layer.COPY if mechanism is Mechanism.NONE else Layer.SHARED
    return Layer.OVERLAY if mechanism is Mechanism.BUBBLEWRAP and not can.no_overlay else Layer.COPY


def _homes(runner: Runner) -> tuple[str, ...]:
    """What the program of a runner keeps below HOME."""
    words = runner.command if runner.kind == "command" else ()
    return CONFIGURATION_HOMES.get(words[0].rpartition("/")[2], ()) if words else ()


def _refusal(agent: Agent, mechanism: Mechanism, why_not: str) -> str | None:
    if agent.sandbox != "require" or mechanism is not Mechanism.NONE:
        return None
    return (
        f"no sandbox is to be had here, and agents.{agent.name}.sandbox requires one ({why_not});"
        ' install bubblewrap, or set sandbox = "auto"'
    )


def _enforced(
    mechanism: Mechanism, layer: Layer | None, network: bool, homes: Iterable[str], agent: Agent, can: Abilities
) -> Iterable[str]:
    if layer is not None:
        yield "it starts in its snapshot, or not at all, and git there moves only the snapshot's own branches"
    if mechanism is Mechanism.NONE:
        return
    places = ["its workspace" if layer is not Layer.SHARED else "no part of its snapshot", "its TMPDIR"]
    places += [f"~/{home}" for home in homes]
    places += agent.sandbox_writable
    yield f"{mechanism}: it can write to {', '.join(places)}, and nowhere else"
    if layer is not None:
        yield f"{mechanism}: the live tree cannot be written"
    if mechanism is Mechanism.LANDLOCK:
        if not can.is_root:
            yield "landlock: environment and memory of processes outside the run cannot be read"
        return
    yield "bubblewrap: processes of other runs, other hangars and the control socket cannot be seen"
    if layer is Layer.OVERLAY:
        yield "bubblewrap: what it writes into its snapshot is a layer of its own, and is discarded"
    if not network:
        yield "bubblewrap: it has no network"


def _advisory(mechanism: Mechanism, layer: Layer | None, why_not: str, agent: Agent, can: Abilities) -> Iterable[str]:
    if mechanism is Mechanism.NONE:
        yield f"no sandbox ({why_not}): the agent could write to anything that the tower's user can write"
        yield "other runs of the tower's user can read its environment, and it theirs"
        if agent.sandbox_writable:
            yield "sandbox_writable means nothing without a sandbox"
    if mechanism is Mechanism.LANDLOCK:
        yield "landlock does not keep it from changing modes and owners (chmod), nor from seeing processes and files"
        if can.is_root:
            yield "the tower runs as root, to whom Landlock does not close the environment of other processes"
    if layer is Layer.COPY and agent.snapshot_writes == "deny":
        yield 'snapshot_writes = "deny" needs a sandbox: what it writes into its snapshot is discarded'
    if not agent.network and mechanism is not Mechanism.BUBBLEWRAP:
        yield "network = false needs bubblewrap: it has the machine's network"
