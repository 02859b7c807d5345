"""`cmd:SCRIPT`: any shell command; the payload on its standard input, the answer on its output.

It learns who it is from the `LAYOVER_*` variables, and may write what it used to the file `LAYOVER_REPORT`.
"""

from __future__ import annotations

from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.core.placeholders import fill_command
from tower.runners import command
from tower.runners import report as reports
from tower.runners.invocation import SHELL, Invocation
from tower.runners.text import answer


def argv(runner: Runner, agent: Agent, *, context: Invocation) -> tuple[str, ...]:
    """The script as one argument of the shell, never pasted together with anything.

    Arguments of the runner, then of the agent, are its `$1`, `$2`, ...
    """
    (script,) = runner.command
    args = fill_command((), (*runner.args, *agent.args), command.values(runner, agent, context))
    return (SHELL, "-c", script, *(("sh", *args) if args else ()))


def read(runner: Runner, stdout_tail: bytes, report: str | None) -> Reading:
    """The output is the answer; a report is welcome and not demanded, unless `output = "report"`."""
    return reports.reading(answer(stdout_tail), report, promised=runner.output == command.REPORT)
