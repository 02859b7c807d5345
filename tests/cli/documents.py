"""Documents as the API gives them, each with every key, to be changed where a test cares."""

from __future__ import annotations

from typing import Any

FLT = "flt_01J0000000000000000000F001"
ITN = "itn_01J0000000000000000000T001"
RUN = "run_01J0000000000000000000R001"

Document = dict[str, Any]


def flight(**changes: Any) -> Document:
    return {
        "id": FLT,
        "itinerary": ITN,
        "sender": {"kind": "person", "name": "ada", "ref": None},
        "to": "writer",
        "body": "Write it down.",
        "created_at": "2031-05-06T07:08:09.010Z",
        "state": "queued",
        "hops_remaining": 7,
        "priority": 0,
        "key": None,
        "not_before": None,
        "held_reason": None,
        "reason": None,
        "release_at": None,
        "attempt": 1,
        "outcome": None,
        "ended_at": None,
        "joined": None,
        "approved_by": None,
        "approval_note": None,
    } | changes


def landed(**changes: Any) -> Document:
    return flight(state="landed", outcome="succeeded", ended_at="2031-05-06T07:08:12.000Z") | changes


def held(reason: str, words: str, **changes: Any) -> Document:
    return flight(state="held", held_reason=reason, reason=words, waits_for=words) | changes


def run(**changes: Any) -> Document:
    return {
        "id": RUN,
        "agent": "writer",
        "runner": "mine",
        "generation": 1,
        "itinerary": ITN,
        "flights": [FLT],
        "state": "running",
        "attempt": 1,
        "cause": "dispatch",
        "number": 3,
        "follows_run": None,
        "queued_at": "2031-05-06T07:08:09.010Z",
        "claimed_at": "2031-05-06T07:08:09.020Z",
        "started_at": "2031-05-06T07:08:09.030Z",
        "ended_at": None,
        "seconds": 2.5,
        "outcome": None,
        "reason": None,
        "exit_code": None,
        "exit_signal": None,
        "cpu_seconds": None,
        "peak_memory": None,
        "model": None,
        "tokens_in": None,
        "tokens_cached": None,
        "tokens_out": None,
        "cost_usd": None,
        "cost_source": None,
        "estimate_usd": 0.25,
        "charged_usd": None,
        "workspace_kind": "live",
        "workspace": "/f/workspace",
        "base_commit": None,
        "tree_before": None,
        "tree_after": None,
        "sandbox": "none",
        "payload_bytes": 300,
        "estimate_tokens": 957,
        "headline": None,
        "notes": [],
        "stopping": None,
        "pid": 4711,
        "folder": "/f/.layover/hangars/writer/" + RUN,
        "cgroup": None,
        "process": RUN.replace("run_", "prc_"),
        "turn": None,
        "out_from": None,
        "out_to": None,
    } | changes


def ended(**changes: Any) -> Document:
    return (
        run(
            state="ended",
            outcome="succeeded",
            ended_at="2031-05-06T07:08:12.000Z",
            exit_code=0,
            cpu_seconds=0.4,
            peak_memory=5 << 20,
            pid=None,
        )
        | changes
    )


def itinerary(state: str, flights: list[Document], runs: list[Document], **changes: Any) -> Document:
    return {
        "id": ITN,
        "name": None,
        "pipeline": None,
        "flags": {},
        "choices": {},
        "parent": None,
        "state": state,
        "created_at": "2031-05-06T07:08:09.010Z",
        "max_hops": 8,
        "max_runs": 64,
        "runs_started": len(runs),
        "cost": "not reported",
        "cost_usd": None,
        "cost_source": "unreported",
        "unreported_runs": len(runs),
        "fuel": {"limit_usd": 5.0, "spent_usd": 0.25, "reserved_usd": 0.0, "overshot_at": None},
        "flights": flights,
        "joins": [],
        "runs": runs,
        "help": [],
        "seq": 1,
    } | changes


def status(**changes: Any) -> Document:
    return {
        "version": "0.1.0",
        "pid": 99,
        "started_at": "2031-05-06T07:00:00.000Z",
        "state": "running",
        "well": True,
        "generation": {"number": 2, "digest": "ab", "loaded_at": "2031-05-06T07:00:00.000Z", "path": "/f/layover.toml"},
        "ground_stop": None,
        "slots": {"used": 1, "of": 4},
        "queue": {"queued": 3, "held": 0, "parked": 0, "halted": 0},
        "runs": [run()],
        "holds": [],
        "problems": [],
        "needs_restart": [],
        "warnings": [],
        "agents": [],
        "residents": [],
        "reserve": {"limit_usd": 100.0, "window_hours": 24.0, "spent_usd": 1.5, "reserved_usd": 0.0},
        "circuits": [],
        "help": 0,
    } | changes


def finding(**changes: Any) -> Document:
    return {
        "file": "layover.toml",
        "line": 14,
        "column": 3,
        "key": "agents.tester.timeout_sec",
        "sentence": "must be greater than 0",
        "hint": "write seconds",
        "severity": "error",
    } | changes
