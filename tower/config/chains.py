"""What has to hold in every chain: the flags that its prompts test are declared, and it has one orchestrator at most.

Which agents a chain may wake is decided by `core.ways`, what a prompt comes to under flags by `core.prompts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from tower.config.composition import Tested
from tower.config.known import nearest
from tower.config.problems import Findings, key_text
from tower.core.factory import Factory, Position
from tower.core.ways import WayIn, extent, open_routes, ways_in


def check_flags(factory: Factory, tested: Mapping[str, tuple[Tested, ...]], findings: Findings) -> None:
    """Refuse a flag that a prompt tests and a way in that leads to its agent does not declare."""
    if not any(tested.values()):
        return
    led_to = _led_to(factory)
    for name, places in tested.items():
        ways = {way: _declared(factory, way) for way, agents in led_to.items() if name in agents}
        for place in places:
            lacking = next((way for way, flags in ways.items() if place.flag not in flags), None)
            if lacking is not None:
                _refuse(name, place, lacking, {flag for flags in ways.values() for flag in flags}, findings)


def check_orchestrators(factory: Factory, findings: Findings) -> None:
    """Refuse two orchestrators that one way in leads to."""
    seated = [name for name, agent in factory.agents.items() if agent.position is Position.ORCHESTRATOR]
    if len(seated) < 2:
        return
    for way, agents in _led_to(factory).items():
        both = [name for name in seated if name in agents]
        if len(both) > 1:
            findings.error(
                ("agents", both[1], "position"),
                f"{both[0]} is an orchestrator too, and {_words(way)} may reach both",
                'write position = "participant" in one of the two',
            )
            return


def _led_to(factory: Factory) -> dict[WayIn, Set[str]]:
    """Each way in with the agents that it may lead to, whatever the rails; chains opened on the way keep its flags.

    A person may release a join, so none stands in the way.
    """
    routes = open_routes(factory)
    return {way: extent([way], routes, joined=False).depth.keys() for way in ways_in(factory)}


def _declared(factory: Factory, way: WayIn) -> Set[str]:
    return factory.pipelines[way.pipeline].flags.keys() if way.pipeline is not None else frozenset()


def _words(way: WayIn) -> str:
    if way.pipeline is None:
        return f"a chain that is sent straight to {way.entry} (entry = true)"
    return f"a chain of pipeline {way.pipeline}"


def _refuse(name: str, place: Tested, way: WayIn, declared: Set[str], findings: Findings) -> None:
    sentence = f"tests the flag {place.flag}, which {_words(way)} does not have"
    hint = nearest(place.flag, declared, f"every way in that leads to {name} has to be a pipeline that declares it")
    if place.path is None:
        findings.inside(("agents", name, "prompt"), place.line, "@include", sentence, hint)
    else:
        key = key_text(("agents", name))
        findings.add(findings.shown(place.path), place.line, 1, key, sentence, hint, "error")
