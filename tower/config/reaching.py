"""What no flight can reach: agents that nothing wakes, routes that nothing uses, rails that end a chain before.

All of it is warned about, for a factory without errors. How far chains get is decided by `core.ways`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product

from tower.config.problems import Findings
from tower.config.schema import RouteTable
from tower.config.tables import Tables
from tower.core.factory import Factory
from tower.core.routes import RouteMode
from tower.core.ways import Extent, extent, open_routes, ways_in


def check_reach(factory: Factory, tables: Tables, findings: Findings) -> None:
    """Warn about agents without a description or out of reach, and about routes and pipelines without use."""
    reach = _Reach(factory)
    for name, agent in factory.agents.items():
        path = ("agents", name)
        if agent.description is None:
            findings.warning(path, "has no description", "write one line for the agents that may send to it")
        if agent.enabled and name not in reach.within.depth:
            findings.warning(path, *reach.why_not(name))
    for name, pipeline in factory.pipelines.items():
        if not factory.agents[pipeline.entry].enabled:
            findings.warning(
                ("pipelines", name, "entry"),
                f"{pipeline.entry} is disabled, so that nothing can be sent along this pipeline",
                f"enable {pipeline.entry}, or name another agent",
            )
    for index, checked in tables.routes.items():
        _check_use(index, checked.value, reach, findings)


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

    def why_not(self, name: str) -> tuple[str, str]:
        """Sentence and hint for an agent that no chain can wake."""
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
        return (
            "nothing can wake it: it is no way in, and no routes lead to it from one",
            "write entry = true, or a route to it",
        )
