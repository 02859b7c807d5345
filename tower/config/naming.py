"""Tools of the tower that prompts name: each has to be one, and of use to the agent that is told of it.

Which tools there are is `core.tools`'. Names are looked for in the texts as they were read, whatever flags decide.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from tower.config.problems import Findings, Severity, key_text
from tower.config.tables import Tables
from tower.config.texts import Library
from tower.core.factory import Factory
from tower.core.tools import TOOLS

_NAMED: Final = re.compile(r"(?<![A-Za-z0-9])layover_(?!_)[a-z0-9]+(?:_[a-z0-9]+)*")
"""Also behind what a program puts in front of it: `mcp__layover__layover_send`."""

_ALIKE: Final = 0.85
"""Of 1: what they all begin with makes any two of them alike to 0.6."""

_SENDING: Final = frozenset({"layover_send", "layover_peers"})
"""Of no use to an agent without a route."""


def check_named_tools(factory: Factory, tables: Tables, library: Library, findings: Findings) -> None:
    """Refuse a name that looks like a tool and is none, and warn about one that its agent has no use for."""
    files = {str(text.path): text for text in library.texts}
    senders = {route.sender for route in factory.routes}
    refused: set[str] = set()
    for name, agent in factory.agents.items():
        for file in agent.instructions.digests.keys() & files.keys():
            path = files[file].path
            for line, tool, _ in _named(files[file].text):
                problem = _problem(tool, name, name in senders)
                # What is no tool is none for every agent that the file is told to.
                if problem and (file not in refused or problem[2] == "warning"):
                    findings.add(findings.shown(path), line, 1, key_text(("agents", name)), *problem)
            refused.add(file)
        for line, tool, beginning in _named(tables.agents[name].value.prompt or ""):
            problem = _problem(tool, name, name in senders)
            if problem:
                findings.inside(("agents", name, "prompt"), line, beginning, *problem)


def _problem(tool: str, agent: str, sends: bool) -> tuple[str, str, Severity] | None:
    if tool not in TOOLS:
        near = difflib.get_close_matches(tool, TOOLS, n=1, cutoff=_ALIKE)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(TOOLS)}"
        return f"names {tool}, which is no tool of the tower", hint, "error"
    if tool in _SENDING and not sends:
        return f"tells {agent} of {tool}, and no route begins at it", "write a route, or leave the tool out", "warning"
    return None


def _named(text: str) -> Iterator[tuple[int, str, str]]:
    """Each name with its line, counted from 1, and how that line begins; one name once a line."""
    if "layover_" not in text:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        for tool in dict.fromkeys(_NAMED.findall(line)):
            yield number, tool, line.lstrip(" ")[:40]
