"""`fake:FILE`: the scripted agent that ships with the product. Its program is `tower.system.fake_agent`."""

from __future__ import annotations

from tower.core.evidence import Reading
from tower.core.factory import Agent, Runner
from tower.core.placeholders import fill_command
from tower.runners import cmd, command
from tower.runners.invocation import Invocation


def argv(runner: Runner, agent: Agent, *, context: Invocation) -> tuple[str, ...]:
    """The program file, its script and what it may echo; without site packages it starts in hundredths of a second."""
    args = fill_command((), (*runner.args, *agent.args), command.values(runner, agent, context))
    return (context.python, "-I", "-S", context.fake_agent, runner.detail, *args)


def read(runner: Runner, stdout_tail: bytes, report: str | None) -> Reading:
    """By the reader of the program that it stands for; else the output is the answer, and a report is welcome."""
    if runner.output in command.READERS:
        return command.read(runner, stdout_tail, report)
    return cmd.read(runner, stdout_tail, report)
