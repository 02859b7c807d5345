"""The map of a factory, and its pictures: everything is in them, and no name can be anything but text."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.choices import Choice
from tower.core.drawing.mermaid import flowchart
from tower.core.drawing.svg import picture
from tower.core.drawing.text import mermaid, one_line, width, xml
from tower.core.factory import Access, Agent, Factory, Runner, Settings
from tower.core.factory_map import FactoryMap, LinkKind, document, factory_map
from tower.core.pipelines import Pipeline
from tower.core.prompts import Prompt
from tower.core.routes import Join, JoinKind, Route, RouteMode

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """The tree of a document, which has to be well formed."""
    return ElementTree.fromstring(text)  # noqa: S314 - our own


def agent(name: str, **values: object) -> Agent:
    plain = Agent(name=name, runner="claude", instructions=Prompt(), work_dir="/w")
    return replace(plain, **values)


def factory(*agents: Agent, routes: tuple[Route, ...] = (), pipelines: tuple[Pipeline, ...] = ()) -> Factory:
    return Factory(
        path="/f/layover.toml",
        digest="",
        settings=Settings(state_dir="/s", work_dir="/w", socket="/s/sock"),
        agents={it.name: it for it in agents},
        runners={
            "claude": Runner(name="claude", kind="command"),
            "cmd:echo secret": Runner(name="cmd:echo secret", kind="cmd"),
        },
        routes=routes,
        pipelines={it.name: it for it in pipelines},
    )


def route(ends: str, *pipelines: str, mode: RouteMode = RouteMode.ASYNC) -> Route:
    sender, receiver = ends.split()
    return Route(sender=sender, receiver=receiver, mode=mode, pipelines=frozenset(pipelines) or None)


FACTORY = factory(
    agent("planner", entry=True, model="opus", effort="high"),
    agent("coder", description="writes <code>"),
    agent("reviewer", access=Access.READ_ONLY, resident=True),
    agent("herald", runner="cmd:echo secret", enabled=False),
    agent("hermit", approve=True),
    routes=(
        route("planner coder"),
        route("coder reviewer", "build"),
        route("reviewer coder", "build", "audit"),
        route("coder herald", mode=RouteMode.SPAWN),
        route("coder coder"),
        route("planner reviewer"),
        route("planner reviewer", "audit"),
    ),
    pipelines=(
        Pipeline(name="build", entry="coder", choices={"coder": Choice(values={"model": "haiku"})}),
        Pipeline(name="audit", entry="reviewer", description="look again"),
    ),
)


def test_every_agent_way_in_and_route_is_on_the_map() -> None:
    shown = document(factory_map(FACTORY))
    assert shown["pipeline"] is None
    assert [(it["agent"], it["pipeline"]) for it in shown["ways_in"]] == [
        ("planner", None),
        ("coder", "build"),
        ("reviewer", "audit"),
    ]
    assert [(it["name"], it["runner"], it["model"], it["depth"]) for it in shown["agents"]] == [
        ("planner", "claude", "opus", 0),
        ("coder", "claude", None, 0),
        ("reviewer", "claude", None, 0),
        ("herald", "cmd", None, None),
        ("hermit", "claude", None, None),
    ]
    assert [(it["from"], it["to"], it["mode"], it["pipelines"]) for it in shown["routes"]] == [
        ("planner", "coder", "async", None),
        ("coder", "reviewer", "async", ["build"]),
        ("reviewer", "coder", "async", ["audit", "build"]),
        ("coder", "herald", "spawn", None),
        ("coder", "coder", "async", None),
        ("planner", "reviewer", "async", None),
    ]


def test_the_map_of_a_pipeline_has_what_its_chains_can_come_to_as_they_have_it() -> None:
    shown = document(factory_map(FACTORY, "build"))
    assert [(it["agent"], it["pipeline"]) for it in shown["ways_in"]] == [("coder", "build")]
    assert [(it["name"], it["model"], it["depth"]) for it in shown["agents"]] == [
        ("coder", "haiku", 0),
        ("reviewer", None, 1),
        ("herald", None, None),
    ]
    assert {(it["from"], it["to"]) for it in shown["routes"]} == {
        ("coder", "reviewer"),
        ("reviewer", "coder"),
        ("coder", "herald"),
        ("coder", "coder"),
    }
    assert all(it["pipelines"] is None for it in shown["routes"])


BUILD = Join(kind=JoinKind.QUORUM, senders=("tester", "reviewer"), count=1, timeout_sec=1800)
AUDIT = Join(kind=JoinKind.ALL, senders=("tester", "reviewer"))
JOINED = factory(
    *(agent(name) for name in ("tester", "reviewer", "release")),
    routes=tuple(
        Route(sender=sender, receiver="release", join=join, pipelines=frozenset({scope}))
        for scope, join in (("build", BUILD), ("audit", AUDIT))
        for sender in join.senders
    ),
    pipelines=(Pipeline(name="build", entry="tester"), Pipeline(name="audit", entry="reviewer")),
)


def test_each_join_stands_before_its_receiver() -> None:
    shown = factory_map(JOINED)
    answer = document(shown)
    assert answer["joins"] == [
        {"receiver": "release", "when": "1 of 2 · 30m", "senders": ["tester", "reviewer"]},
        {"receiver": "release", "when": "all", "senders": ["tester", "reviewer"]},
    ]
    assert [(it["from"], it["to"], it["join"], it["pipelines"]) for it in answer["routes"]] == [
        ("tester", "release", 0, ["build"]),
        ("reviewer", "release", 0, ["build"]),
        ("tester", "release", 1, ["audit"]),
        ("reviewer", "release", 1, ["audit"]),
    ]
    releases = [link for link in shown.links if link.kind is LinkKind.RELEASE]
    assert [(link.source, link.target) for link in releases] == [
        ("join:release:1", "agent:release"),
        ("join:release:2", "agent:release"),
    ]
    root = parsed(picture(shown))
    titles = [it.text for it in root.iter(f"{SVG}title")]
    assert "release wakes once: 1 of 2 · 30m of tester, reviewer" in titles
    assert "  j0 --> a2" in flowchart(shown).splitlines()
    assert document(factory_map(JOINED, "audit"))["joins"] == answer["joins"][1:]


@pytest.mark.parametrize(
    ("seconds", "words"), [(90, "all · 90s"), (3600, "all · 1h"), (172800, "all · 2d"), (0.5, "all · 0.5s")]
)
def test_a_duration_is_shown_in_the_unit_that_suits_it(seconds: float, words: str) -> None:
    join = replace(AUDIT, timeout_sec=seconds)
    routes = tuple(Route(sender=sender, receiver="release", join=join) for sender in join.senders)
    assert [it.words for it in factory_map(replace(JOINED, routes=routes)).joins] == [words]


def test_a_pipeline_that_there_is_not_has_no_map() -> None:
    with pytest.raises(KeyError):
        factory_map(FACTORY, "none")


def test_the_picture_has_a_figure_for_everything() -> None:
    shown = factory_map(FACTORY)
    root = parsed(picture(shown))
    agents = [it.get("data-agent") for it in root.iter(f"{SVG}g") if it.get("data-agent")]
    assert sorted(agents) == sorted(FACTORY.agents)
    links = [(it.get("data-from"), it.get("data-to")) for it in root.iter(f"{SVG}g") if it.get("data-from")]
    assert sorted(links) == sorted((link.source, link.target) for link in shown.links)
    words = "".join(root.itertext())
    for text in (
        "planner",
        "claude · opus · high",
        "read-only",
        "resident",
        "disabled",
        "out of reach",
        "audit, build",
    ):
        assert text in words
    titles = [it.text for it in root.iter(f"{SVG}title")]
    assert "coder: writes <code>" in titles
    assert "pipeline audit: look again" in titles
    assert "secret" not in words


def test_the_legend_explains_what_occurs_and_nothing_else() -> None:
    small = picture(factory_map(factory(agent("a", entry=True))))
    assert "a person may send" in small
    assert "opens a chain of its own" not in small
    assert "opens a chain of its own" in picture(factory_map(FACTORY))


def test_the_picture_stands_by_itself_in_light_and_dark() -> None:
    text = picture(factory_map(FACTORY))
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"<script|href|url\(|@import|\bon[a-z]+=|<image|<foreignObject|<!", text)


def test_the_flowchart_reads_as_expected() -> None:
    assert flowchart(factory_map(FACTORY)) == FLOWCHART


FLOWCHART = """\
flowchart LR
  w0(["a person"]):::entry
  w1(["pipeline build"]):::entry
  w2(["pipeline audit"]):::entry
  a0["planner<br/>claude · opus · high"]:::writer
  a1["coder<br/>claude"]:::writer
  a2[["reviewer<br/>claude<br/>read-only, resident"]]:::reader
  a3["herald<br/>cmd<br/>disabled"]:::disabled
  a4["hermit<br/>claude<br/>asks first, out of reach"]:::writer
  w0 ==> a0
  w1 ==> a1
  w2 ==> a2
  a0 --> a1
  a1 -->|"build"| a2
  a2 -->|"audit, build"| a1
  a1 -.->|"opens a chain"| a3
  a1 --> a1
  a0 --> a2
  classDef writer stroke:#2f6fde,stroke-width:2px
  classDef reader stroke:#8593a1,stroke-width:1px
  classDef disabled stroke-dasharray:4 3,opacity:0.55
  classDef join stroke:#b7791f
  classDef entry stroke:#1a8a5a
"""

HOSTILE = (
    '"]; click a0 call alert()',
    "</text><script>alert(1)</script>",
    "%%{init: {}}%%\nend",
    "`**bold**` <br/> &amp; #quot;",
    "\x1b[31m\u202eevil\u2066\x00",
    "]]>--> a0",
    "名前" * 40,
)


def hostile(text: str) -> FactoryMap:
    """A factory in which everything that a person may name freely has this name."""
    return factory_map(
        factory(
            agent("a", model=text, description=text, entry=True),
            agent("b", access=Access.READ_ONLY),
            routes=(Route(sender="a", receiver="b", pipelines=frozenset({text})),),
            pipelines=(Pipeline(name=text, entry="a", description=text),),
        )
    )


LINE = re.compile(
    r"flowchart LR"
    r"|  [wa]\d(?:\(\[|\[\[?|\{\{)\"[^\"`\\<>&]*(?:<br/>[^\"`\\<>&]*)*\"(?:\]\)|\]\]?|\}\}):::[a-z]+"
    r"|  [wa]\d (?:==>|-->|-\.->)(?:\|\"[^\"`\\<>&]*\"\|)? [wa]\d"
    r"|  classDef [a-z]+ [a-z0-9#:, .-]+"
)


@given(st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1)))
def test_no_name_can_be_anything_but_text(text: str) -> None:
    shown = hostile(text)
    root = parsed(picture(shown))
    assert {it.tag.removeprefix(SVG) for it in root.iter()} <= {
        "svg", "title", "style", "rect", "g", "text", "path", "circle"
    }  # fmt: skip
    assert not any(name.startswith("on") or "href" in name for it in root.iter() for name in it.attrib)
    for line in flowchart(shown).splitlines():
        assert LINE.fullmatch(line), line


@given(st.text())
def test_text_is_one_visible_line_in_a_drawing(text: str) -> None:
    line = one_line(text, 20)
    assert len(line) <= 20
    assert line.isprintable() or not line.isascii()
    assert not set(line) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f\n\r\t\x00")
    assert parsed(f"<a b='{xml(text)}'>{xml(text)}</a>").get("b") == one_line(text)
    assert not set(mermaid(text)) & set("\"`<>&[]{}|\\%()@'*~^")


def test_width_grows_with_text_and_knows_wide_characters() -> None:
    assert width("", 10) == 0
    assert width("ab", 10) > width("a", 10)
    assert width("名", 10) > width("n", 10) > width("i", 10)
    assert width("a\u0301", 10) == width("a", 10)
    assert width("a", 10, bold=True) > width("a", 10)


@pytest.mark.parametrize("count", [25, 200])
def test_a_large_factory_is_drawn_whole(count: int) -> None:
    names = [f"agent-{index}" for index in range(count)]
    routes = [Route(sender=one, receiver=other) for one, other in pairwise(names)]
    routes += [
        Route(sender=names[index], receiver=names[index * 7 % count], mode=mode)
        for index in range(count)
        for mode in [RouteMode.SPAWN if index % 5 == 0 else RouteMode.ASYNC]
    ]
    shown = factory_map(factory(agent(names[0], entry=True), *map(agent, names[1:]), routes=tuple(routes)))
    root = parsed(picture(shown))
    assert sum(it.get("data-agent") is not None for it in root.iter()) == count
    assert sum(it.get("data-from") is not None for it in root.iter()) == len(shown.links)
    assert any(link.kind is LinkKind.SPAWN for link in shown.links)
