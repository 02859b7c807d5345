"""What no flight can reach: agents that nothing wakes, routes that nothing uses, rails that end a chain before.

All of it is warned about, for a factory without errors. How far chains get is decided by `core.ways`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from pathlib import Path

from tower.config.places import lacks_repository, way_to_a_repository
from tower.config.problems import Findings
from tower.config.tables import Tables
from tower.config.ways import RouteTable
from tower.core.factory import Access, Factory
from tower.core.routes import Join, RouteMode
from tower.core.ways import Extent, extent, open_routes, ways_in


def check_reach(factory: Factory, tables: Tables, findings: Findings) -> None:
    """Warn about agents without a description or out of reach, and about routes and pipelines without use."""
    reach = _Reach(factory)
    for name, agent in factory.agents.items():
        path = ("agents", name)
        if agent.description is None:
            findings.warning(path, "has no description", "write one line for the agents that may send to it")
        if agent.enabled and name not in reach.within.depth and (why := reach.why_not(name)):
            findings.warning(path, *why)
    for name, pipeline in factory.pipelines.items():
        if not factory.agents[pipeline.entry].enabled:
            findings.warning(
                ("pipelines", name, "entry"),
                f"{pipeline.entry} is disabled, so that nothing can be sent along this pipeline",
                f"enable {pipeline.entry}, or name another agent",
            )
    _check_isolation(factory, reach, findings)
    for index, checked in tables.routes.items():
        _check_use(index, checked.value, reach, findings)
        _check_joins(index, checked.value, reach, findings)


def _check_isolation(factory: Factory, reach: _Reach, findings: Findings) -> None:
    """Refuse what cannot be in chains with work trees of their own: residents, and trees that are no repository."""
    own = tuple(name for name, pipeline in factory.pipelines.items() if pipeline.own_worktrees)
    if not own:
        return
    for name in sorted(reach.of(own).depth):
        agent = factory.agents[name]
        if agent.access is Access.READ_WRITE and lacks_repository(Path(agent.work_dir)):
            way = way_to_a_repository(Path(agent.work_dir), Path(factory.path).parent)
            findings.error(
                ("pipelines", own[0], "workspace"),
                f"needs a git repository to make work trees of, and {agent.work_dir}, where {name} works, is none",
                f'{way}, or write workspace = "shared"',
            )
        if agent.resident:
            findings.error(
                ("agents", name, "resident"),
                f"chains of {' or '.join(own)} can reach {name}, and they work in work trees of their own",
                'remove resident, or write workspace = "shared" for that pipeline',
            )


def _check_use(index: int, table: RouteTable, reach: _Reach, findings: Findings) -> None:
    """Warn about an entry of `[[routes]]` that no chain can use."""
    agents = reach.factory.agents
    ends = [
        (sender, receiver)
        for sender, receiver in product(table.senders, table.receivers)
        if sender in reach.within.depth and agents[receiver].enabled
    ]
    if not ends:
        return
    senders = ", ".join(dict.fromkeys(sender for sender, _ in ends))
    if table.pipelines is not None and not reach.of(table.pipelines).depth.keys() & {sender for sender, _ in ends}:
        findings.warning(
            ("routes", index, "pipelines"),
            f"no chain can use this route: none of {', '.join(table.pipelines)} reaches {senders}",
            "name a pipeline whose chains come there, or remove the route",
        )
        return
    # A receiver that nothing else wakes has a warning of its own.
    ends = [(sender, receiver) for sender, receiver in ends if receiver in reach.within.depth]
    if ends and RouteMode(table.mode) is RouteMode.SPAWN and reach.within.deliveries.isdisjoint(ends):
        most = reach.factory.settings.max_spawn_generations
        findings.warning(
            ("routes", index, "mode"),
            f"no chain can use this route: it opens a chain of its own, and those that reach {senders} may not"
            f" (max_spawn_generations is {most})",
            'raise max_spawn_generations in [defaults], or write mode = "async"',
        )


def _check_joins(index: int, table: RouteTable, reach: _Reach, findings: Findings) -> None:
    """Warn about joins that let nothing through, and about senders that have no hop left for one."""
    if table.join is None:
        return
    scope = frozenset(table.pipelines) if table.pipelines is not None else None
    joins = {
        (route.receiver, route.join)
        for route in reach.factory.routes
        if (route.sender, route.pipelines) == (table.senders[0], scope) and route.receiver in table.receivers
    }
    for receiver, join in sorted(joins, key=lambda it: it[0]):
        if join is not None:
            if late := reach.late(receiver, join):
                findings.warning(
                    ("routes", index, "join"),
                    f"{' and '.join(late)} cannot afford the flight to {receiver}: no hop is left there (max_hops is"
                    f" {reach.factory.settings.max_hops})",
                    "raise max_hops in [defaults], or add a shorter route",
                )
            elif absent := reach.absent(receiver, join):
                others = [sender for sender in join.senders if sender not in absent]
                named = [it if reach.factory.agents[it].enabled else f"{it} (disabled)" for it in absent]
                what = f"{' and '.join(named)} cannot deliver in a chain in which {' and '.join(others)} can"
                findings.warning(
                    ("routes", index, "join"),
                    f"never wakes {receiver}: {what if others else 'none of its senders ever delivers'}",
                    "let routes lead one chain to all that it needs, or write how many are enough",
                )


class _Reach:
    """What the factory's ways in can wake, within the rails and without some of them."""

    def __init__(self, factory: Factory) -> None:
        self.factory = factory
        self._ways = ways_in(factory)
        self._routes = open_routes(factory)

    @cached_property
    def within(self) -> Extent:
        """Within every rail."""
        settings = self.factory.settings
        return extent(self._ways, self._routes, hops=settings.max_hops, generations=settings.max_spawn_generations)

    @cached_property
    def of_any_depth(self) -> Extent:
        """If chains had hops without end."""
        return extent(self._ways, self._routes, generations=self.factory.settings.max_spawn_generations)

    @cached_property
    def at_all(self) -> Extent:
        """If no rail were."""
        return extent(self._ways, self._routes)

    def of(self, pipelines: tuple[str, ...]) -> Extent:
        """By the chains of these pipelines, if no rail were."""
        return extent((way for way in self._ways if way.pipeline in pipelines), self._routes)

    @cached_property
    def past_joins(self) -> Extent:
        """Within every rail, if joins let everything through."""
        settings = self.factory.settings
        rails = {"hops": settings.max_hops, "generations": settings.max_spawn_generations}
        return extent(self._ways, self._routes, **rails, joined=False)

    @cached_property
    def past_everything(self) -> Extent:
        """If no rail were, and joins let everything through."""
        return extent(self._ways, self._routes, joined=False)

    def late(self, receiver: str, join: Join) -> list[str]:
        """The senders of a join that would deliver if chains had more hops; none if the receiver's warning says so."""
        if receiver not in self.within.depth and self.why_not(receiver) is not None:
            return []
        absent = self.within.missing.get((receiver, join), frozenset())
        later = self.of_any_depth.missing.get((receiver, join), frozenset()) if absent else absent
        return [it for it in join.senders if it in absent and it not in later and it in self.within.depth]

    def absent(self, receiver: str, join: Join) -> list[str]:
        """The senders for want of which a join never opens; none if it is for one that has a warning of its own."""
        absent = self.within.missing.get((receiver, join), frozenset())
        agents, depth = self.factory.agents, self.within.depth
        warned = any(agents[it].enabled and it not in depth and self.why_not(it) is not None for it in absent)
        if warned or self.within.opens(receiver, join):
            return []
        return [it for it in join.senders if it in absent]

    def why_not(self, name: str) -> tuple[str, str] | None:
        """Sentence and hint for an agent that no chain can wake; None when that is the fault of a join."""
        if name in self.past_joins.depth:
            return None
        settings = self.factory.settings
        if name in self.of_any_depth.depth:
            flights = self.of_any_depth.depth[name] + 1
            return (
                f"is {flights} flights from every way in, and max_hops is {settings.max_hops}",
                "raise max_hops in [defaults], or add a shorter route",
            )
        if name in self.at_all.depth:
            return (
                f"is woken by chains that lie {self.at_all.generation[name]} below the first alone, and"
                f" max_spawn_generations is {settings.max_spawn_generations}",
                'raise max_spawn_generations in [defaults], or write mode = "async" in a route on the way',
            )
        if name in self.past_everything.depth:
            return None
        return (
            "nothing can wake it: it is no way in, and no routes lead to it from one",
            "write entry = true, or a route to it",
        )
