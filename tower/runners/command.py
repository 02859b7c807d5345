"""`command = [...]`: any program, with placeholders; the payload on its standard input.

What its output means says `output`: plain text is the answer; for what an agent program prints there is a reader each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.core.placeholders import fill_command
from tower.runners import claude, tools
from tower.runners import report as reports
from tower.runners.invocation import Invocation
from tower.runners.text import answer

REPORT: Final = "report"
"""The `output` that promises a report file."""

READERS: Final[Mapping[str, Callable[[Runner, bytes, str | None], Reading]]] = {claude.NAME: claude.read}
"""By `output`: readers of programs that close what they print with a result record."""


def argv(runner: Runner, agent: Agent, *, context: Invocation) -> tuple[str, ...]:
    """The command with its placeholders filled; arguments of the runner, then of the agent."""
    return fill_command(
        runner.command, (*tools.arguments(runner), *runner.args, *agent.args), values(runner, agent, context)
    )


def read(runner: Runner, stdout_tail: bytes, report: str | None) -> Reading:
    """By the reader of its output; else that is the answer, and a report is looked for where there is to be one."""
    if runner.output in READERS:
        return READERS[runner.output](runner, stdout_tail, report)
    if runner.output != REPORT:
        return Reading(answer=answer(stdout_tail))
    return reports.reading(answer(stdout_tail), report, promised=True)


def values(runner: Runner, agent: Agent, context: Invocation) -> dict[str, str | None]:
    """What each placeholder stands for; None is unset."""
    return {
        "prompt": context.prompt,
        "model": agent.model,
        "effort": effort_of(runner, agent),
        "context": agent.context,
        "mcp": tools.offer(runner, context.mcp_url, context.run_dir).value,
        "name": agent.name,
        "workspace": context.workspace,
        "run_dir": context.run_dir,
        "session": context.session,
        "config_dir": context.config_dir,
    }


def effort_of(runner: Runner, agent: Agent) -> str | None:
    """What the program calls the effort that is asked for; None when none is, or it has no word for it."""
    return None if agent.effort is None else runner.efforts.get(agent.effort, agent.effort) or None
