"""A start as one value, and a workspace as one value.

`Launch` is what the engine decides about one run before anything exists: argv, environment, limits. `Workspace`
is the place made for it. `KeeperPlan` is the two joined with paths and secrets, in the shape that crosses to the
keeper process; it is the only value that holds secrets, and it is never written to disk or logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KEEPER_PROTOCOL: Final = 1
"""Version of what tower and keeper say to each other, of `start` and of `exit.json`."""


LIVE: Final = "live"
WORKTREE: Final = "worktree"
SNAPSHOT: Final = "snapshot"
"""Kinds of workspaces: the live tree, the work tree of a chain, and a snapshot of either."""

WRITTEN: Final = frozenset({LIVE, WORKTREE})
"""Kinds that writers work in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """A scratch layer over a tree that stays as it is; absolute paths."""

    lower: str
    upper: str
    work: str
    """Empty, on the disk of `upper`; the kernel's own."""
    at: str
    """Where both are seen as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A place to work, and what is known and enforced about it."""

    path: str
    kind: str
    """`LIVE`, `WORKTREE` or `SNAPSHOT`."""
    root: str
    """The real path of the live tree that it is or was taken from."""
    repository: str | None = None
    """Of a live tree: the top folder of the repository that it is or lies in; None: there is none."""
    base: str | None = None
    """Commit that HEAD named when the place was made; None where there is no commit or no repository."""
    tree: str | None = None
    """Git tree id of the content at the start, where it was named."""
    writable: tuple[str, ...] = ()
    """Absolute paths that a sandbox leaves writable: what belongs to the place."""
    readable: tuple[str, ...] = ()
    """Absolute paths that it needs beside them: what a snapshot was made of."""
    overlay: Overlay | None = None
    """What the keeper mounts at the start, so that there is something in `path`."""
    frozen: str | None = None
    """The name of the frozen tree that it reads."""
    sandbox: str | None = None
    """Which mechanism holds the run."""
    enforced: tuple[str, ...] = ()
    advisory: tuple[str, ...] = ()
    """In words: what is promised by kindness only ("the agent could write to the live tree by its absolute path")."""
    notes: tuple[str, ...] = ()
    """In words: what the place does not hold and a reader might expect ("left out, pipes: a, b")."""

    @property
    def watched(self) -> str | None:
        """The live tree behind a snapshot, where it was named so that it can be compared afterwards."""
        return self.root if self.kind == SNAPSHOT and self.tree is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the keeper carries out, in seconds of its own counting; None means no such limit."""

    timeout: float | None
    stall: float | None
    first_output: float | None
    grace: float
    linger: float
    orphan: float
    """How long the run may go on with no tower connected; 0 is for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start, decided: what would be executed and told. Made by a dry run too, with nothing started."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the program, secrets included: never shown, only its names are."""
    secrets: tuple[str, ...]
    """Values to mask wherever they appear: forwarded variables and the run's token."""
    forwarded: tuple[str, ...]
    """The names of these variables, which are no secret."""
    payload: str
    limits: Limits
    stop_signal: str = "TERM"
    files: Mapping[str, str] = field(default_factory=dict)
    """Name in the run's folder -> text that the program reads there; no secret is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What is put around the program before it starts."""

    prefix: tuple[str, ...] = ()
    """A bubblewrap command up to its `--`, which then starts the program; empty: none."""
    overlay: Overlay | None = None
    """Mounted before that, in a namespace of the run's own."""
    landlock: tuple[str, ...] | None = None
    """The only places beneath which it may write; None: no Landlock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperPlan:
    """Everything that a keeper needs. Crosses to it over a socket, as a marshalled dict of these fields."""

    run: str
    folder: str
    """Run folder, absolute: payload.md is there; start, logs and exit.json will be."""
    socket_dir: str
    socket_name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    umask: int
    limits: Limits
    max_log_bytes: int
    stop_signal: int
    secrets: tuple[str, ...] = ()
    walls: Walls | None = None
    resident: bool = False
    """The program stays for many turns: `turns/` is there, and of the limits only `orphan` counts between them."""
    cgroup: str | None = None
    """Control group that is to be made for the program and all that it starts; None where none was delegated."""
    descriptor_limit: int | None = None
    """Soft limit on open files that the program gets; None leaves it as the tower has it."""
    failpoints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """`RUN/start`: whoever creates the file decides whether the program may run."""

    void: bool
    """Made by a tower that found the claim without a start: no keeper may run this any more."""
    pid: int
    """Of the keeper (or of the tower that voided it)."""
    ticks: int
    boot_id: str
    protocol: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """`RUN/exit.json`: how the program ended, by the word of its keeper."""

    code: int | None
    """Exit code, or None when a signal ended it or it never ran."""
    signal: int | None
    ended_at: float
    cpu_seconds: float
    """User and system time of the whole tree that the keeper reaped."""
    peak_memory: int
    """Bytes, of the largest process."""
    out_bytes: int
    """Logical size of the standard output after masking: the end offset of its log."""
    err_bytes: int
    limit: str | None = None
    """timeout, stall, first_output or orphan, when the keeper ended the run because of it; of a resident also mute
    (standard output closed) and deaf (standard input closed)."""
    stopping: str | None = None
    """The word that came with a tower's request to stop (cancelled, halted, stop, removed)."""
    start_error: str | None = None
    """The program could not be executed: the step and the system's words. Then code and signal are None."""
    swept: bool = False
    """No process of the run is left (`wait` answered ECHILD)."""
    left: tuple[int, ...] = ()
    """Pids that could not be ended."""
    log_errors: int = 0
    """Writes to the logs that failed and were dropped."""
