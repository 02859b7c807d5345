"""How long a drawing takes: a factory of 25 agents and one of 200, each as a picture. Beside Graphviz, if it is there.

Graphviz draws the same boxes and arrows; its words and the styles of ours are not the same work, so that the ratio is
coarse.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tower.core.drawing.svg import picture
from tower.core.factory import Agent, Factory, Runner, Settings
from tower.core.factory_map import FactoryMap, factory_map
from tower.core.prompts import Prompt
from tower.core.routes import Route

from . import machine
from .table import Row, bounded, compared

SIZES: Final = {25: 45, 200: 300}
"""Agents -> routes."""
ROUNDS: Final = 7
UNDER_MS: Final = 2000.0
DOT: Final = shutil.which("dot")


def measure(*, tiny: bool = False) -> list[Row]:
    """Wall clock of each, in turns."""
    return [_drawing(agents, routes, rounds=1 if tiny else ROUNDS) for agents, routes in SIZES.items()]


def mapped(agents: int, routes: int) -> FactoryMap:
    """A factory in which most routes lead on and some lead back, always the same."""
    chance = Random(agents)
    names = [f"agent-{number}" for number in range(agents)]
    edges = {(names[max(0, number - chance.randint(1, 8))], names[number]) for number in range(1, agents)}
    while len(edges) < routes:
        edges.add((chance.choice(names), chance.choice(names)))
    return factory_map(
        Factory(
            path="/f/layover.toml",
            digest="",
            settings=Settings(state_dir="/s", work_dir="/w", socket="/s/sock"),
            agents={
                name: Agent(name=name, runner="mine", instructions=Prompt(), work_dir="/w", entry=name == names[0])
                for name in names
            },
            runners={"mine": Runner(name="mine", kind="command")},
            routes=tuple(Route(sender=sender, receiver=receiver) for sender, receiver in sorted(edges)),
        )
    )


def _drawing(agents: int, routes: int, *, rounds: int) -> Row:
    what = f"drawing {agents} agents, {routes} routes"
    shown = mapped(agents, routes)
    ours: list[float] = []
    theirs: list[float] = []
    with machine.folder() as folder:
        source = folder / "map.dot"
        source.write_text(_as_dot(shown))
        for _ in range(rounds):
            ours.append(_milliseconds(lambda: picture(shown)))
            if DOT:
                theirs.append(_milliseconds(lambda: _by_graphviz(DOT, source)))
    if not DOT:
        return bounded(what, sorted(ours)[len(ours) // 2], unit="ms", under=UNDER_MS, reference="dot: not installed")
    return compared(what, ours, theirs, unit="ms", reference="dot -Tsvg")


def _as_dot(shown: FactoryMap) -> str:
    links = "".join(f'"{link.source}" -> "{link.target}"\n' for link in shown.links)
    return f"digraph {{ rankdir=LR node [shape=box]\n{links}}}\n"


def _by_graphviz(program: str, source: Path) -> None:
    subprocess.run([program, "-Tsvg", str(source)], check=True, stdout=subprocess.DEVNULL)


def _milliseconds(work: Callable[[], Any]) -> float:
    before = time.perf_counter()
    work()
    return (time.perf_counter() - before) * 1e3
