"""Runs: supervised executions, and the accounts that they gave."""

from __future__ import annotations

from pydantic import Field

from tower.core.states import Cause, Outcome, RunState
from tower.web.shapes.base import Shape, Time


class Run(Shape):
    """One supervised execution."""

    id: str
    agent: str
    runner: str
    generation: int
    itinerary: str
    flights: list[str]
    state: RunState
    attempt: int
    cause: Cause
    number: int = Field(description="the agent's n-th run")
    follows_run: str | None
    queued_at: Time
    claimed_at: Time
    started_at: Time | None
    ended_at: Time | None
    seconds: float | None
    outcome: Outcome | None
    reason: str | None
    interruption: str | None = Field(description="what cut it off, where something did")
    stopping: str | None
    exit_code: int | None
    exit_signal: int | None
    cpu_seconds: float | None
    peak_memory: int | None
    model: str | None
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    cost_usd: float | None
    cost_source: str | None
    estimate_usd: float | None = Field(description="what it was expected to cost")
    charged_usd: float | None = Field(description="what Fuel and Reserve were charged for it")
    workspace_kind: str | None
    workspace: str | None
    base_commit: str | None
    tree_before: str | None = Field(description="git tree id of what a writer found, uncommitted files included")
    tree_after: str | None
    sandbox: str | None = Field(description="what holds the run: bubblewrap, landlock or none")
    prompt_sha256: str | None
    prompt_files: dict[str, str]
    payload_sha256: str | None
    payload_bytes: int | None
    estimate_tokens: int | None
    headline: str | None = Field(description="of its report")
    notes: list[str]
    pid: int | None
    folder: str | None
    cgroup: str | None = Field(description="control group that its processes are in, or were; null where it had none")
    process: str = Field(description="prc_...: its own, or of the resident whose turn it is")
    turn: int | None = Field(description="which turn of a resident's process; null for a process of its own")
    out_from: int | None = Field(description="of a turn: where its part of the process's output begins")
    out_to: int | None


class Runs(Shape):
    runs: list[Run]


class Report(Shape):
    """The account that a run gave of itself."""

    run: str
    at: Time
    headline: str
    body: str
    artifacts: list[str] = Field(description="files, relative to the place that it worked in")
