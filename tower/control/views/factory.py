"""What stands in the factory: agents, ways in, money, and what is wrong with it."""

from __future__ import annotations

from tower.config.problems import Problem
from tower.control.views.plain import View, dollars, moment
from tower.core.budget import Window
from tower.core.choices import as_document
from tower.core.circuit import Circuit
from tower.core.consequences import Consequence
from tower.core.factory import Agent, Reserve
from tower.core.pipelines import Pipeline
from tower.engine.tower import Resident


def agent(record: Agent, paused_by: str | None = None) -> View:
    """A configured agent, in short."""
    return {
        "name": record.name,
        "description": record.description,
        "runner": record.runner,
        "access": record.access,
        "entry": record.entry,
        "enabled": record.enabled,
        "resident": record.resident,
        "paused_by": paused_by,
        "recovery": record.recovery,
        "work_dir": record.work_dir,
    }


def resident(record: Resident, paused_by: str | None) -> View:
    """A resident and the process that is kept for it."""
    residence, process = record.residence, record.process
    return {
        "agent": record.name,
        "state": residence.state,
        "why": residence.why,
        "until": moment(residence.until),
        "process": process.id if process else None,
        "since": moment(process.created_at) if process else None,
        "turns": process.turns if process else None,
        "run": record.turn.live.run.id if record.turn else None,
        "paused_by": paused_by,
    }


def pipeline(record: Pipeline) -> View:
    """A named way in."""
    return {
        "name": record.name,
        "description": record.description,
        "entry": record.entry,
        "trigger": "manual",
        "priority": record.priority,
        "body": record.body,
        "flags": {
            name: {"default": flag.default, "description": flag.description} for name, flag in record.flags.items()
        },
        "agents": as_document(record.choices),
    }


def reserve(record: Reserve, window: Window) -> View:
    """The money of the factory; `limit_usd` is null when it is unlimited."""
    return {
        "limit_usd": dollars(record.fuel) if record.fuel else None,
        "window_hours": record.window_hours,
        "spent_usd": dollars(window.spent),
        "reserved_usd": dollars(window.reserved),
    }


def circuit(record: Circuit, now: float) -> View:
    """A runner that cannot work at the moment."""
    return {
        "runner": record.runner,
        "state": "open" if record.is_open(now) else "half open",
        "reason": record.reason,
        "since": moment(record.opened_at),
        "until": moment(record.until),
        "failures": record.failures,
        "probe": record.probe,
    }


def problem(record: Problem) -> View:
    """One thing that is wrong with the configuration."""
    return {
        "file": str(record.file),
        "line": record.line,
        "column": record.column,
        "key": record.key,
        "sentence": record.sentence,
        "hint": record.hint,
        "severity": record.severity,
    }


def consequence(record: Consequence, held: int) -> View:
    """What a reload would do to an agent, and to `held` flights that wait for it."""
    return {"name": record.agent, "change": record.change, "process": record.process, "held": held}
