"""Writers of one tree: which agents could write over one another in spite of the writer's seat, or for want of one.

A seat belongs to the path of a tree (`core.admission`); here is asked whether two paths are one tree after all.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

from tower.config.files import is_inside
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.tables import Tables
from tower.core.factory import Access, Agent, Factory


def check_writers(factory: Factory, tables: Tables, findings: Findings) -> None:
    """Look at every agent that is enabled and writes in a live tree. For a factory without errors of other kinds."""
    writers = [agent for agent in factory.agents.values() if agent.enabled and agent.access is Access.READ_WRITE]
    _check_spellings(writers, tables, findings)
    if factory.settings.shared_writers:
        _check_shared(writers, tables, findings)
    else:
        _check_nested(writers, tables, findings)


def _check_spellings(writers: Iterable[Agent], tables: Tables, findings: Findings) -> None:
    """Refuse one folder under two paths, as a bind mount makes them."""
    first: dict[tuple[int, int], Agent] = {}
    for agent in {agent.work_dir: agent for agent in writers}.values():
        identity = _identity(agent.work_dir)
        other = first.setdefault(identity, agent) if identity else agent
        if other.work_dir != agent.work_dir:
            findings.error(
                _written(agent, tables),
                f"is the same folder as {other.work_dir}, where {other.name} works: each path has a writer of its own",
                "write the same path for both",
            )


def _check_nested(writers: Iterable[Agent], tables: Tables, findings: Findings) -> None:
    trees: dict[str, Agent] = {}
    for agent in writers:
        trees.setdefault(agent.work_dir, agent)
    for pair in combinations(trees.values(), 2):
        outer, inner = sorted(pair, key=lambda agent: len(agent.work_dir))
        if is_inside(Path(inner.work_dir), Path(outer.work_dir)):
            findings.warning(
                _written(inner, tables),
                f"{inner.name} works inside the tree of {outer.name}, and each of the two has a writer of its own",
                'give both the same work_dir, or write writers = "shared" in [defaults] to say that it is meant',
            )


def _check_shared(writers: list[Agent], tables: Tables, findings: Findings) -> None:
    """Warn of several writers in one tree, and where one agent may wake two of them."""
    together = [
        f"{one.name} and {other.name}" for one, other in combinations(writers, 2) if one.work_dir == other.work_dir
    ]
    if together:
        findings.warning(
            ("defaults", "writers"),
            f"lets agents write in one tree at a time, {together[0]} among them",
            'write "exclusive" to have them take turns, or give them trees of their own in work_dir',
        )
    trees = {agent.name: agent.work_dir for agent in writers}
    woken: dict[tuple[str, str], str] = {}
    for index, checked in tables.routes.items():
        for sender in checked.value.senders:
            for receiver in (name for name in checked.value.receivers if name in trees):
                other = woken.setdefault((sender, trees[receiver]), receiver)
                if other != receiver:
                    findings.warning(
                        ("routes", index),
                        f"{sender} may wake {other} and {receiver}, which then write in {trees[receiver]} at a time",
                        "let one follow the other, or give them trees of their own in work_dir",
                    )


def _written(agent: Agent, tables: Tables) -> KeyPath:
    own = tables.agents[agent.name].value.work_dir
    return ("layover", "work_dir") if own is None else ("agents", agent.name, "work_dir")


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        found = Path(folder).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
