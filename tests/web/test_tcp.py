"""Over TCP: tokens and nothing else say who asks, and pages of browsers get nothing, by whatever name they ask."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from tower.core.callers import Caller
from tower.core.errors import BusyError
from tower.web.gate import OverTcp

from .conftest import BETWEEN, TOKEN, Open, Served
from .fakes import Answer, fails_with
from .fakes import ask as ask_socket

AS_RUN = {"Authorization": f"Bearer {TOKEN}"}


class WhoCame:
    """A door that says who came in."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller = scope["state"]["caller"]
        told = {"run": caller.run, "process": caller.process, "person": caller.is_person}
        await JSONResponse(told)(scope, receive, send)


door = WhoCame()


def ask(
    served: Served, method: str, target: str, document: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    body = None if document is None else json.dumps(document).encode()
    given = {"Content-Type": "application/json"} if body is not None else {}
    try:
        client.request(method, target, body=body, headers=given | (headers or {}))
        response = client.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        client.close()


def test_without_a_token_there_is_liveness_and_nothing_else(open_door: Open) -> None:
    served = open_door(door=door)
    assert ask(served, "GET", "/health").status == 200
    for method, path in (("GET", "/status"), ("GET", "/openapi.json"), ("POST", "/flights"), ("POST", "/mcp")):
        answer = ask(served, method, path, {} if method == "POST" else None)
        assert (answer.status, answer.code) == (401, "no-token")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert served.verbs.calls == []


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], TOKEN.upper()])
def test_a_forged_token_is_refused_before_anything(open_door: Open, token: str) -> None:
    served = open_door(door=door)
    answer = ask(served, "POST", "/mcp", {}, {"Authorization": f"Bearer {token}"})
    assert (answer.status, answer.code) == (401, "bad-token")


def test_a_token_in_the_query_is_none(open_door: Open) -> None:
    answer = ask(open_door(door=door), "POST", f"/mcp?token={TOKEN}&access_token={TOKEN}", {})
    assert (answer.status, answer.code) == (401, "no-token")


def test_a_run_comes_in_by_its_token_and_is_no_person(open_door: Open) -> None:
    served = open_door(door=door)
    assert ask(served, "POST", "/mcp", {}, AS_RUN).json == {"run": "run_1", "process": None, "person": False}
    told = ask(served, "POST", "/mcp", {}, {"Authorization": f"Bearer {BETWEEN}"}).json
    assert told == {"run": None, "process": "prc_1", "person": False}


def test_on_the_socket_the_door_is_for_agents_as_well(open_door: Open) -> None:
    served = open_door(door=door)
    answer = served.ask("POST", "/mcp", {})
    assert (answer.status, answer.code) == (401, "no-token")
    assert served.ask("POST", "/mcp", {}, AS_RUN).json["run"] == "run_1"


def test_a_run_has_the_rights_of_a_run(open_door: Open) -> None:
    served = open_door()
    assert ask(served, "POST", "/flights", {"to": "coder", "body": "x"}, AS_RUN).status == 202
    ((verb, caller, _),) = served.verbs.calls
    assert (verb, caller) == ("send", Caller(name="coder", run="run_1"))


def test_where_the_api_is_switched_off_the_door_stays(open_door: Open) -> None:
    served = open_door(door=door, over_tcp=OverTcp())
    answer = ask(served, "POST", "/flights", {"to": "coder", "body": "x"}, AS_RUN)
    assert (answer.status, answer.code) == (403, "not-over-tcp")
    assert ask(served, "POST", "/mcp", {}, AS_RUN).status == 200
    assert ask(served, "GET", "/health").status == 200
    assert served.ask("GET", "/status").status == 200


HERE = ["localhost", "localhost:80", "127.0.0.1", "127.8.9.1:1", "[::1]", "LOCALHOST", "tower.lan", "tower.lan.:8080"]
FOREIGN = ["evil.example", "evil.example:80", "tower", "a.localhost", "10.0.0.1", "tower.lan.evil.example", "", "[bad"]


@pytest.mark.parametrize("host", HERE)
def test_names_that_are_served(open_door: Open, host: str) -> None:
    served = open_door(door=door, over_tcp=OverTcp(hosts=frozenset({"tower.lan"})))
    assert ask(served, "POST", "/mcp", {}, AS_RUN | {"Host": host}).status == 200
    assert ask(served, "POST", "/mcp", {}, AS_RUN | {"Origin": f"http://{host}"}).status == 200


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/mcp", "/health", "/flights"])
def test_a_rebound_name_and_a_foreign_page_reach_nothing(open_door: Open, host: str, path: str) -> None:
    served = open_door(door=door, over_tcp=OverTcp(hosts=frozenset({"tower.lan"}), serves_api=True))
    method, body = ("GET", None) if path == "/health" else ("POST", {})
    answer = ask(served, method, path, body, AS_RUN | {"Host": host})
    assert (answer.status, answer.code) == (403, "foreign-host")
    answer = ask(served, method, path, body, AS_RUN | {"Origin": f"http://{host}"})
    assert (answer.status, answer.code) == (403, "foreign-origin")
    assert ask(served, method, path, body, AS_RUN | {"Origin": "null"}).code == "foreign-origin"
    assert served.verbs.calls == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_page_can_post_unasked_is_no_json(open_door: Open, kind: str) -> None:
    answer = ask(open_door(door=door), "POST", "/mcp", {}, AS_RUN | {"Content-Type": kind})
    assert (answer.status, answer.code) == (415, "media-type")


def test_a_huge_request_is_refused(open_door: Open) -> None:
    served = open_door(door=door, max_body_bytes=1024)
    answer = ask(served, "POST", "/mcp", "x" * (1 << 20), AS_RUN)
    assert (answer.status, answer.code) == (413, "too-large")


def test_a_busy_tower_is_a_problem_here_too(open_door: Open) -> None:
    served = open_door(fails_with(BusyError("disk-full", "cannot take a flight: the disk is full", "make room")))
    answer = ask(served, "POST", "/flights", {"to": "coder", "body": "x"}, AS_RUN)
    assert (answer.status, answer.code) == (507, "disk-full")
    assert ask_socket(served.path, "GET", "/health").status == 200
