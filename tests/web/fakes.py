"""A control that remembers what it was asked, and a client that speaks plain HTTP over a Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from tower.config import written
from tower.control import Control, sending, views
from tower.control.rights import require_person
from tower.control.runs import LogPage
from tower.core.accounts import HelpRequest, Report
from tower.core.budget import Window
from tower.core.callers import Caller
from tower.core.chain import ChainState
from tower.core.choices import Choice
from tower.core.circuit import Circuit
from tower.core.consequences import Change, Consequence, ProcessChange
from tower.core.errors import TowerError
from tower.core.factory import Agent, Factory, Reserve, Runner, Settings
from tower.core.joins import Barrier, Delivery
from tower.core.pipelines import Flag, Pipeline
from tower.core.prompts import Prompt
from tower.core.records import Event, Flight, Itinerary, Process, Run, Sender, WorktreeRecord
from tower.core.residence import Residence
from tower.core.routes import Join, JoinKind, Route
from tower.core.states import Cause, RunState
from tower.engine.tower import Resident

PERSON = Sender(kind="person", name="ada")
FLIGHT = Flight(id="flt_1", itinerary="itn_1", sender=PERSON, receiver="coder", body="build", created_at=1.5)
RUN = Run(
    id="run_1",
    agent="coder",
    runner="cmd:true",
    generation=1,
    itinerary="itn_1",
    process="prc_1",
    state=RunState.RUNNING,
    attempt=1,
    cause=Cause.DISPATCH,
    number=1,
    queued_at=1.0,
    claimed_at=2.0,
    started_at=3.0,
    flights=("flt_1",),
)
HELP = HelpRequest(
    id="help_1", run="run_1", itinerary="itn_1", agent="coder", at=5.0, blocker="access", summary="no key", detail=""
)
REPORT = Report(run="run_1", at=5.0, headline="done", body="all of it", artifacts=("a.txt",))
PROCESS = Process(id="prc_1", agent="coder", folder="/state/hangars/coder/run_1", created_at=2.0, pid=77)
ITINERARY = Itinerary(id="itn_1", created_at=1.0, max_hops=8, max_runs=64, fuel_limit=5_000_000)
RESIDENT = Resident(name="coder", residence=Residence().starting(), process=PROCESS)
PIPELINE = Pipeline(
    name="build",
    entry="coder",
    flags={"deep": Flag(description="look twice")},
    choices={"coder": Choice(values={"model": None}, args=("-x",))},
)
AGENT = Agent(name="coder", runner="cmd:true", instructions=Prompt(), work_dir="/w")

FACTORY = Factory(
    path="/f/layover.toml",
    digest="d",
    settings=Settings(state_dir="/s", work_dir="/w", socket="/s/sock"),
    agents={"coder": AGENT},
    runners={"cmd:true": Runner(name="cmd:true", kind="cmd")},
    routes=(Route(sender="coder", receiver="coder"),),
    pipelines={"build": PIPELINE},
)


BARRIER = Barrier(
    receiver="coder",
    join=Join(kind=JoinKind.ALL, senders=("tester", "critic"), timeout_sec=60.0),
    parked=(Delivery(flight="flt_1", sender="critic", hops=2),),
    since=5.0,
)


CIRCUIT = Circuit(runner="cmd:true", reason="quota", opened_at=1.0, until=9.0)


def run_view() -> views.View:
    return views.run(RUN, PROCESS, now=4.0)


def itinerary_view() -> views.View:
    return views.itinerary(ITINERARY, next(iter(ChainState)), [])


def help_view() -> views.View:
    return views.help_request(HELP)


def costs_view() -> views.View:
    total = {"runs": 1, "unreported": 0, "cost": "$1.20", "cost_usd": 1.2, "charged_usd": 1.2, "source": "reported"}
    by = {"agent": [{"name": "coder", **total}], "model": [{"name": None, **total}]}
    reserve = views.reserve(Reserve(), Window())
    return {"since": None, "until": None, "total": total, "by": by, "reserve": reserve}


def story_view() -> views.View:
    return itinerary_view() | {
        "flights": [views.flight(FLIGHT)],
        "joins": [views.join(BARRIER)],
        "runs": [run_view()],
        "help": [help_view()],
        "seq": 7,
    }


WORKTREE = WorktreeRecord(
    itinerary="itn_1", live="/live", path="/t/itn_1", branch="tower/itn_1", base="c0", made_at=1.0, kept="a.txt changed"
)


def status_view() -> views.View:
    return {
        "version": "0",
        "pid": 1,
        "started_at": views.moment(1.0),
        "state": "running",
        "well": True,
        "generation": {"number": 1, "digest": "d", "loaded_at": views.moment(1.0), "path": "layover.toml"},
        "ground_stop": None,
        "slots": {"used": 1, "of": 4},
        "queue": {"queued": 0, "held": 0, "parked": 0, "halted": 0},
        "runs": [run_view()],
        "holds": [views.flight(FLIGHT, waits_for="a person")],
        "problems": [],
        "needs_restart": [],
        "warnings": [],
        "agents": [views.agent(AGENT)],
        "residents": [views.resident(RESIDENT, "ada")],
        "reserve": views.reserve(Reserve(), Window()),
        "circuits": [views.circuit(CIRCUIT, 2.0)],
        "help": 0,
    }


@dataclass
class FakeVerbs:
    """Every verb of every group; answers like the real ones, raises `error` when it is set."""

    calls: list[tuple[str, Caller, dict[str, Any]]] = field(default_factory=list)
    error: Exception | None = None
    news: anyio.Event | None = None
    """What a waiting verb waits for."""
    entered: Callable[[], None] = lambda: None
    happened: list[Event] = field(default_factory=list)

    def _called(self, verb: str, caller: Caller, /, **arguments: Any) -> None:
        self.calls.append((verb, caller, arguments))
        if self.error is not None:
            raise self.error

    async def send(self, caller: Caller, request: sending.Request) -> views.View:
        self._called("send", caller, request=request)
        return {"flight": views.flight(FLIGHT), "itinerary": "itn_1", "duplicate": False}

    async def listing(self, caller: Caller, **arguments: Any) -> views.View:
        self._called("listing", caller, **arguments)
        return {
            "flights": [views.flight(FLIGHT)],
            "runs": [run_view()],
            "itineraries": [itinerary_view()],
            "help": [help_view()],
            "worktrees": [views.worktree(WORKTREE, is_used=False)],
        }

    async def show(self, caller: Caller, text: str, **arguments: Any) -> views.View:
        self._called("show", caller, text=text, **arguments)
        if arguments.get("wait"):
            assert self.news is not None
            self.entered()
            with anyio.move_on_after(arguments["wait"]):
                await self.news.wait()
        if text.startswith("help"):
            return help_view()
        if text.startswith("itn"):
            return story_view()
        return run_view() if text.startswith("run") else views.flight(FLIGHT) | {"runs": [run_view()]}

    async def cancel(self, caller: Caller, text: str) -> views.View:
        self._called("cancel", caller, text=text)
        return await FakeVerbs().show(caller, text)

    async def release(self, caller: Caller, text: str, agent: str) -> views.View:
        self._called("release", caller, text=text, agent=agent)
        return story_view()

    async def recover(self, caller: Caller, text: str, *, note: str | None, force: bool) -> views.View:
        self._called("recover", caller, text=text, note=note, force=force)
        return views.flight(FLIGHT)

    async def log(self, caller: Caller, text: str, **arguments: Any) -> LogPage:
        self._called("log", caller, text=text, **arguments)
        return LogPage(data=b"\xff\x00out\n", offset=10, next_offset=16, ended=True)

    async def remove(self, caller: Caller, text: str, *, force: bool) -> views.View:
        self._called("remove", caller, text=text, force=force)
        return {"worktrees": [views.worktree(WORKTREE, is_used=False)]}

    async def rescue(self, caller: Caller, text: str) -> views.View:
        self._called("rescue", caller, text=text)
        return {"rescued": [{"path": WORKTREE.path, "ref": "refs/tower/rescue/itn_1"}]}

    async def diff(self, caller: Caller, text: str, form: str) -> bytes:
        self._called("diff", caller, text=text, form=form)
        return b"+f\xfcr\n"

    async def payload(self, caller: Caller, text: str) -> str:
        self._called("payload", caller, text=text)
        return "told: ä\n"

    async def answer(self, caller: Caller, text: str) -> str:
        self._called("answer", caller, text=text)
        return "<script>alert(1)</script>"

    async def resolve(self, caller: Caller, text: str, *, note: str | None) -> views.View:
        self._called("resolve", caller, text=text, note=note)
        return help_view()

    async def report_of(self, caller: Caller, text: str) -> views.View:
        self._called("report_of", caller, text=text)
        return views.report(REPORT)

    async def summary(self, caller: Caller, since: float) -> views.View:
        self._called("summary", caller, since=since)
        return {
            "since": views.moment(since),
            "outcomes": {"succeeded": 2},
            "alive": 1,
            "costs": costs_view(),
            "troubles": [run_view()],
            "changed": [],
            "waiting": [views.flight(FLIGHT)],
            "help": 0,
            "circuits": [],
            "ground_stop": None,
        }

    async def costs(self, caller: Caller, *, since: float | None, until: float | None) -> views.View:
        self._called("costs", caller, since=since, until=until)
        return costs_view()

    async def refuel(self, caller: Caller, text: str, usd: object) -> views.View:
        self._called("refuel", caller, text=text, usd=usd)
        return itinerary_view()

    async def approve(self, caller: Caller, text: str, *, note: str | None) -> views.View:
        self._called("approve", caller, text=text, note=note)
        return views.flight(FLIGHT)

    async def reject(self, caller: Caller, text: str, *, why: str) -> views.View:
        self._called("reject", caller, text=text, why=why)
        return views.flight(FLIGHT)

    async def reset_runner(self, caller: Caller, name: str) -> views.View:
        self._called("reset_runner", caller, name=name)
        return {"runner": name, "was_open": True}

    async def status(self, caller: Caller) -> views.View:
        self._called("status", caller)
        return status_view()

    async def agents(self, caller: Caller) -> views.View:
        self._called("agents", caller)
        return {"agents": [views.agent(AGENT)]}

    async def agent(self, caller: Caller, name: str) -> views.View:
        self._called("agent", caller, name=name)
        return {
            **views.agent(AGENT),
            "values": written.agent(AGENT),
            "process": views.resident(RESIDENT, None),
            "enforced": ["a run is ended after 3600 s"],
            "advisory": [],
            "variables": [{"name": "KEY", "declared_by": "agents.coder.env_from", "is_set": False}],
            "sends_to": [],
            "woken_by": [],
            "ways_in": ["person"],
        }

    async def pipelines(self, caller: Caller) -> views.View:
        self._called("pipelines", caller)
        return {"pipelines": [views.pipeline(PIPELINE)]}

    async def mapped(self, caller: Caller, pipeline: str | None) -> Factory:
        self._called("mapped", caller, pipeline=pipeline)
        return FACTORY

    async def prompt(self, caller: Caller, name: str, body: str) -> str:
        self._called("prompt", caller, name=name, body=body)
        return f"you are {name}\n{body}"

    async def find(self, caller: Caller, text: str) -> views.View:
        self._called("find", caller, text=text)
        return {"kind": "run", "id": "run_1"}

    async def reload(self, caller: Caller) -> views.View:
        self._called("reload", caller)
        return {"changed": False, "generation": 1, "changes": [], "problems": [], "needs_restart": []}

    async def compare(self, caller: Caller) -> views.View:
        self._called("compare", caller)
        changed = Consequence(agent="coder", change=Change.CHANGED, process=ProcessChange.KEPT)
        return {
            "generation": 1,
            "path": "/f/layover.toml",
            "changes": [],
            "problems": [],
            "needs_restart": [],
            "agents": [views.consequence(changed, 2)],
        }

    async def ground_stop_on(self, caller: Caller, why: str) -> views.View:
        self._called("ground_stop_on", caller, why=why)
        return status_view()

    async def ground_stop_off(self, caller: Caller) -> views.View:
        self._called("ground_stop_off", caller)
        return status_view()

    async def drain(self, caller: Caller, *, on: bool) -> views.View:
        self._called("drain", caller, on=on)
        return status_view()

    async def events(self, caller: Caller, after: int) -> AsyncIterator[views.View]:
        require_person(caller, "follow events")
        self._called("events", caller, after=after)
        for event in self.happened:
            if event.seq > after:
                yield views.event(event)
        self.entered()
        await anyio.sleep_forever()

    def control(self) -> Control:
        """All four groups are this one object."""
        every: Any = self
        return Control(*[every] * 9)


class Client(http.client.HTTPConnection):
    """`http.client` over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self.path))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem document, after a look at all of its members."""
        assert self.headers["content-type"] == "application/problem+json", self.body
        problem = self.json
        assert set(problem) == {"type", "title", "status", "detail", "hint", "code"}
        assert problem["status"] == self.status
        assert problem["type"] == f"urn:layover:problem:{problem['code']}"
        assert problem["detail"].startswith("cannot ")
        return str(problem["code"])


def ask(path: Path, method: str, target: str, document: Any = None, headers: dict[str, str] | None = None) -> Answer:
    """One request on a connection of its own. `document` is sent as JSON unless it is bytes."""
    body = document if isinstance(document, bytes | None) else json.dumps(document).encode()
    given = {"Content-Type": "application/json"} if body is not None else {}
    client = Client(path)
    try:
        client.request(method, target, body=body, headers=given | (headers or {}))
        response = client.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        client.close()


def dial(path: Path) -> socket.socket:
    """A bare connection."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(10)
    link.connect(str(path))
    return link


def read_all(link: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    data = b""
    while True:
        try:
            piece = link.recv(1 << 16)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def read_reply(link: socket.socket) -> bytes:
    """One reply with its body, as `Content-Length` says."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += link.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += link.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until a condition holds, looking often."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.005)


def fails_with(error: TowerError) -> FakeVerbs:
    return FakeVerbs(error=error)
