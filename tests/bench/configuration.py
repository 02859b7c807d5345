"""A factory of fifty agents: how long its file takes to be checked, and an edit of it to be live.

The reference loads the same file with tomllib and validates each table with the same pydantic models, and does nothing
else: no inheritance, no places, no cross-checks. Where prompts stand in files of their own it reads these.
"""

from __future__ import annotations

import os
import statistics
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from tower.config.load import load
from tower.config.schema import AgentTable, DefaultsTable, RunnerTable
from tower.config.ways import RouteTable

from . import machine, served
from .table import Row, bounded, compared

AGENTS: Final = 50
ROUNDS: Final = 60
AT_MOST: Final = 2.0
SAVES: Final = 40
P95_UNDER_MS: Final = 500.0
RUNNING: Final = 4

INSTRUCTIONS: Final = "Do what the message asks for, and say what you did.\n" * 40
"""Two kilobytes."""


def measure(*, tiny: bool = False) -> list[Row]:
    """CPU of checking, in this process, in turns; then a real tower whose file is replaced by renaming."""
    rounds = 2 if tiny else ROUNDS
    return [
        _checking(f"checking {AGENTS} agents, prompts inline", inline=True, rounds=rounds),
        _checking(f"checking {AGENTS} agents, a prompt file each", inline=False, rounds=rounds),
        _reloading(3 if tiny else SAVES),
    ]


def factory(*, inline: bool) -> str:
    """The file. Nothing is wrong with it, given its prompt files and its work tree."""
    head = "[defaults]\nrunner = 'mine'\nmodel = 'large'\n[runners.mine]\ncommand = ['true', '{model}']\n"
    return head + "".join(_agent(number, inline) for number in range(AGENTS))


def _agent(number: int, inline: bool) -> str:
    prompt = f"prompt = '''\n{INSTRUCTIONS}'''" if inline else f"prompt_file = '{number}.md'"
    return (
        f"\n[agents.a{number}]\ndescription = 'Agent {number}'\n{prompt}\nentry = true\ntimeout_sec = '15m'\n"
        "env = { MODE = 'x' }\nargs = ['--x', '{name}']\nrecover_on = ['crash', 'timeout']\n"
        f"[[routes]]\nfrom = 'a{number}'\nto = ['a{(number + 1) % AGENTS}', 'a{(number + 7) % AGENTS}']\n"
    )


def _checking(what: str, *, inline: bool, rounds: int) -> Row:
    ours: list[float] = []
    theirs: list[float] = []
    with machine.folder() as folder:
        (folder / "workspace").mkdir()
        (folder / "prompts").mkdir()
        for number in range(0 if inline else AGENTS):
            (folder / "prompts" / f"{number}.md").write_text(INSTRUCTIONS)
        file = folder / "layover.toml"
        file.write_text(factory(inline=inline))
        for counts in (False, *[True] * rounds):
            took = _milliseconds(lambda: _by_tower(file)), _milliseconds(lambda: _by_reference(file))
            if counts:
                ours.append(took[0])
                theirs.append(took[1])
    return compared(what, ours, theirs, unit="ms", reference="tomllib and pydantic", at_most=AT_MOST)


def _milliseconds(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return (time.process_time() - before) * 1e3


def _by_tower(file: Path) -> None:
    loaded = load(file, environ={"PATH": os.environ["PATH"]})
    if loaded.problems:
        raise RuntimeError(f"the file is not sound: {loaded.problems[0]}")


def _by_reference(file: Path) -> list[BaseModel]:
    document = tomllib.loads(file.read_text())
    agents = [AgentTable.model_validate(table) for table in document["agents"].values()]
    for agent in agents:
        if agent.prompt_file:
            (file.parent / "prompts" / agent.prompt_file).read_text()
    return [
        DefaultsTable.model_validate(document["defaults"]),
        *(RunnerTable.model_validate(table) for table in document["runners"].values()),
        *agents,
        *(RouteTable.model_validate(table) for table in document["routes"]),
    ]


def _reloading(saves: int) -> Row:
    """From the rename to the status that shows the next generation, while runs go on."""
    slow = (
        "\n[agents.slow]\nrunner = 'cmd:read line; sleep 600'\nprompt = 'Wait.'\nentry = true\naccess = 'read-only'\n"
    )
    with machine.folder() as folder:
        agents = factory(inline=True).removeprefix("[defaults]\n")
        with served.tower(folder, slow + agents.split("\n", 2)[2], defaults="\n".join(agents.split("\n")[:2])) as tower:
            flights = [tower.send("slow") for _ in range(RUNNING)]
            served.until(lambda: None not in _pids(tower, flights))
            before = _pids(tower, flights)
            took = [_save(tower, number) for number in range(saves)]
            if _pids(tower, flights) != before:
                raise RuntimeError("an edit touched what was running")
    p95 = statistics.quantiles(took, n=20)[-1]
    what = f"from save to new generation, {AGENTS} agents, {RUNNING} runs going on, p95"
    return bounded(what, p95 * 1e3, unit="ms", under=P95_UNDER_MS)


def _pids(tower: served.Served, flights: list[str]) -> list[int | None]:
    """The process of each flight's only run, as long as it runs."""
    shown = [tower.ask("GET", f"/flights/{flight}") for flight in flights]
    return [it["runs"][0]["pid"] if it["state"] == "running" and len(it["runs"]) == 1 else None for it in shown]


def _save(tower: served.Served, number: int) -> float:
    """Seconds."""
    file = tower.folder / "layover.toml"
    draft = file.with_suffix(".new")
    draft.write_text(file.read_text().split("# ")[0] + f"# {number}\n")
    generation = tower.ask("GET", "/status")["generation"]["number"]
    began = time.perf_counter()
    draft.rename(file)
    served.until(lambda: tower.ask("GET", "/status")["generation"]["number"] > generation)
    return time.perf_counter() - began
