"""What was sent and done: flights, runs, chains, their accounts and their work trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tower.control.views.plain import View, dollars, moment
from tower.core import costs
from tower.core.accounts import HelpRequest, Report
from tower.core.chain import ChainState
from tower.core.choices import as_document
from tower.core.joins import Barrier, Standing
from tower.core.records import Event, Flight, Itinerary, Process, Run, WorktreeRecord


def flight(record: Flight, *, waits_for: str | None = None) -> View:
    """A flight; `waits_for` says in words what a waiting one waits for."""
    view: View = {
        "id": record.id,
        "itinerary": record.itinerary,
        "sender": {"kind": record.sender.kind, "name": record.sender.name, "ref": record.sender.ref},
        "to": record.receiver,
        "body": record.body,
        "created_at": moment(record.created_at),
        "state": record.state,
        "hops_remaining": record.hops_remaining,
        "priority": record.priority,
        "key": record.key,
        "not_before": moment(record.not_before),
        "held_reason": record.held_reason,
        "reason": record.reason,
        "release_at": moment(record.release_at),
        "attempt": record.attempt,
        "outcome": record.outcome,
        "ended_at": moment(record.ended_at),
        "approved_by": record.approved_by,
        "approval_note": record.approval_note,
        "joined": record.joined,
    }
    words = waits_for or (record.reason if record.held_reason else None)
    if words:
        view["waits_for"] = words
    return view


def run(record: Run, process: Process | None, *, now: float, headline: str | None = None) -> View:
    """A run with what its process is known by; `headline` is that of its report."""
    end = record.ended_at or now
    seconds = None if record.started_at is None else round(max(0.0, end - record.started_at), 3)
    plain = (
        "id",
        "agent",
        "runner",
        "generation",
        "itinerary",
        "state",
        "attempt",
        "cause",
        "number",
        "follows_run",
        "outcome",
        "interruption",
        "reason",
        "stopping",
        "exit_code",
        "exit_signal",
        "cpu_seconds",
        "peak_memory",
        "model",
        "tokens_in",
        "tokens_cached",
        "tokens_out",
        "cost_source",
        "workspace_kind",
        "workspace",
        "base_commit",
        "tree_before",
        "tree_after",
        "sandbox",
        "prompt_sha256",
        "payload_sha256",
        "payload_bytes",
        "estimate_tokens",
        "process",
        "turn",
        "out_from",
        "out_to",
    )
    view: View = {name: getattr(record, name) for name in plain}
    view |= {name: moment(getattr(record, name)) for name in ("queued_at", "claimed_at", "started_at", "ended_at")}
    return view | {
        "flights": list(record.flights),
        "seconds": seconds,
        "cost_usd": dollars(record.cost),
        "estimate_usd": dollars(record.estimate),
        "charged_usd": dollars(record.charged),
        "headline": headline,
        "notes": list(record.notes),
        "prompt_files": dict(record.prompt_files),
        "pid": process.pid if process and record.ended_at is None else None,
        "folder": process.folder if process else None,
        "cgroup": process.cgroup if process and record.started_at is not None else None,
    }


def itinerary(record: Itinerary, state: ChainState, charged: list[tuple[int | None, str | None]]) -> View:
    """A chain with what it may and did use. The cost is null while no run of it has ended."""
    known = [cost for cost, _ in charged if cost is not None]
    return {
        "id": record.id,
        "name": record.name,
        "pipeline": record.pipeline,
        "flags": dict(record.flags),
        "choices": as_document(record.choices),
        "parent": record.parent,
        "state": state,
        "created_at": moment(record.created_at),
        "max_hops": record.max_hops,
        "max_runs": record.max_runs,
        "runs_started": record.runs_started,
        "cost": costs.text(sum(known), [source for _, source in charged]) if charged else None,
        "cost_usd": dollars(sum(known)) if known else None,
        "cost_source": costs.weakest(source for _, source in charged if source),
        "unreported_runs": sum(source == costs.CostSource.UNREPORTED for _, source in charged),
        "fuel": {
            "limit_usd": dollars(record.fuel_limit),
            "spent_usd": dollars(record.fuel_spent),
            "reserved_usd": dollars(record.fuel_reserved),
            "overshot_at": moment(record.overshot_at),
        },
    }


def join(record: Barrier) -> View:
    """A join of a chain to which something was delivered, as it stands."""
    return {
        "receiver": record.receiver,
        "join": record.join.count or record.join.kind,
        "from": list(record.join.senders),
        "wave": record.wave,
        "parked": [
            {"flight": it.flight, "sender": it.sender, "counts": it.standing} for it in record.so_far(*Standing)
        ],
        "missing": list(record.missing) if record.parked else [],
        "given_up": record.is_given_up,
        "due_at": moment(record.due_at),
        "words": record.words() if record.parked else None,
    }


def event(record: Event) -> View:
    """One thing that happened."""
    data: Mapping[str, Any] = record.data
    return {
        "seq": record.seq,
        "at": moment(record.at),
        "type": record.type,
        "itinerary": record.itinerary,
        "flight": record.flight,
        "run": record.run,
        "agent": record.agent,
        "data": dict(data),
    }


def report(record: Report) -> View:
    """The account of a run."""
    return {
        "run": record.run,
        "at": moment(record.at),
        "headline": record.headline,
        "body": record.body,
        "artifacts": list(record.artifacts),
    }


def help_request(record: HelpRequest) -> View:
    """What a run wants a person to know or do."""
    return {
        "id": record.id,
        "run": record.run,
        "itinerary": record.itinerary,
        "agent": record.agent,
        "at": moment(record.at),
        "blocker": record.blocker,
        "summary": record.summary,
        "detail": record.detail,
        "fatal": record.fatal,
        "state": "open" if record.resolved_at is None else "resolved",
        "resolved_at": moment(record.resolved_at),
        "resolved_by": record.resolved_by,
        "note": record.note,
    }


def worktree(record: WorktreeRecord, *, is_used: bool) -> View:
    """The work tree of a chain."""
    return {
        "itinerary": record.itinerary,
        "live": record.live,
        "path": record.path,
        "branch": record.branch,
        "made_at": moment(record.made_at),
        "in_use": is_used,
        "kept": record.kept,
    }
