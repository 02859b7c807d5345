"""Every path of the API: which verb it becomes, and how its answer looks."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tower.control import sending
from tower.core.choices import Choice
from tower.core.errors import (
    BusyError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TowerError,
    UnreachableError,
)
from tower.core.states import FlightState

from .conftest import TOKEN, Open, Served
from .fakes import RUN, eventually, fails_with

SEND = {"to": "coder", "body": "build"}


@pytest.mark.parametrize(
    ("method", "target", "document", "status", "verb", "arguments"),
    [
        ("GET", "/status", None, 200, "status", {}),
        ("GET", "/find/9KX2", None, 200, "find", {"text": "9KX2"}),
        ("GET", "/flights", None, 200, "listing", {"waiting": False, "state": None, "agent": None, "limit": 100}),
        (
            "GET",
            "/flights?waiting=true&state=held&agent=coder&limit=5",
            None,
            200,
            "listing",
            {"waiting": True, "state": FlightState.HELD, "agent": "coder", "limit": 5},
        ),
        ("GET", "/flights/flt_1", None, 200, "show", {"text": "flt_1"}),
        ("DELETE", "/flights/flt_1", None, 200, "cancel", {"text": "flt_1"}),
        ("GET", "/itineraries?limit=3", None, 200, "listing", {"limit": 3}),
        ("GET", "/itineraries/itn_1", None, 200, "show", {"text": "itn_1", "wait": 0.0, "after": 0}),
        ("POST", "/itineraries/itn_1/cancel", {}, 200, "cancel", {"text": "itn_1"}),
        ("POST", "/itineraries/itn_1/release", {"agent": "coder"}, 200, "release", {"text": "itn_1", "agent": "coder"}),
        ("GET", "/runs?all=true&agent=coder", None, 200, "listing", {"every": True, "agent": "coder", "limit": 100}),
        ("POST", "/itineraries/itn_1/refuel", {"usd": "5.00"}, 200, "refuel", {"text": "itn_1", "usd": "5.00"}),
        ("POST", "/itineraries/itn_1/refuel", {"usd": 5}, 200, "refuel", {"text": "itn_1", "usd": 5.0}),
        ("POST", "/flights/flt_1/approve", {"note": "go"}, 200, "approve", {"text": "flt_1", "note": "go"}),
        ("POST", "/flights/flt_1/reject", {"why": "no"}, 200, "reject", {"text": "flt_1", "why": "no"}),
        ("POST", "/runners/fake:a%2Fb.toml/reset", {}, 200, "reset_runner", {"name": "fake:a/b.toml"}),
        ("GET", "/costs", None, 200, "costs", {"since": None, "until": None}),
        ("GET", "/costs?since=1970-01-01T00:00:09Z", None, 200, "costs", {"since": 9.0, "until": None}),
        ("GET", "/summary?since=1970-01-01T00:00:09Z", None, 200, "summary", {"since": 9.0}),
        ("GET", "/runs/run_1", None, 200, "show", {"text": "run_1"}),
        ("POST", "/runs/run_1/cancel", {}, 202, "cancel", {"text": "run_1"}),
        ("POST", "/runs/run_1/recover", {}, 200, "recover", {"text": "run_1", "note": None, "force": False}),
        (
            "POST",
            "/runs/run_1/recover",
            {"note": "mind the gap", "force": True},
            200,
            "recover",
            {"text": "run_1", "note": "mind the gap", "force": True},
        ),
        ("GET", "/agents", None, 200, "agents", {}),
        ("GET", "/worktrees", None, 200, "listing", {}),
        ("DELETE", "/worktrees/itn_1?force=true", None, 200, "remove", {"text": "itn_1", "force": True}),
        ("POST", "/worktrees/itn_1/rescue", {}, 200, "rescue", {"text": "itn_1"}),
        ("GET", "/agents/coder", None, 200, "agent", {"name": "coder"}),
        ("GET", "/agents/coder/prompt?body=say%20hi", None, 200, "prompt", {"name": "coder", "body": "say hi"}),
        ("GET", "/pipelines", None, 200, "pipelines", {}),
        ("GET", "/graph?pipeline=build", None, 200, "mapped", {"pipeline": "build"}),
        ("GET", "/config/diff", None, 200, "compare", {}),
        ("POST", "/reload", {}, 200, "reload", {}),
        ("POST", "/ground-stop", {"why": "fire"}, 200, "ground_stop_on", {"why": "fire"}),
        ("DELETE", "/ground-stop", None, 200, "ground_stop_off", {}),
        ("POST", "/drain", {}, 200, "drain", {"on": True}),
        ("DELETE", "/drain", None, 200, "drain", {"on": False}),
    ],
)
def test_a_request_becomes_a_verb(
    door: Served, method: str, target: str, document: Any, status: int, verb: str, arguments: dict[str, Any]
) -> None:
    answer = door.ask(method, target, document)
    assert answer.status == status, answer.body
    ((called, caller, given),) = door.verbs.calls
    assert (called, given) == (verb, arguments)
    assert caller.is_person
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["date"].endswith("GMT")
    assert "server" not in answer.headers


def test_sending(door: Served) -> None:
    wanted = SEND | {"name": "n", "key": "k", "priority": -3, "not_before": "2026-01-02T03:04:05.500+01:00"}
    answer = door.ask("POST", "/flights", wanted)
    assert answer.status == 202
    assert answer.json["flight"]["id"] == "flt_1"
    assert answer.json["itinerary"] == "itn_1"
    assert answer.json["duplicate"] is False
    ((_, _, given),) = door.verbs.calls
    assert given["request"] == sending.Request(
        to="coder", body="build", name="n", key="k", priority=-3, not_before=1767319445.5
    )


def test_sending_into_a_pipeline(door: Served) -> None:
    answer = door.ask("POST", "/flights", {"pipeline": "build", "flags": {"deep": True}})
    assert answer.status == 202
    ((_, _, given),) = door.verbs.calls
    assert given["request"] == sending.Request(pipeline="build", flags={"deep": True})


def test_sending_with_choices(door: Served) -> None:
    asked = {"coder": {"model": "huge", "effort": None, "args": ["-c", "--deep"]}, "tester": {"context": "1m"}}
    answer = door.ask("POST", "/flights", SEND | {"choices": asked})
    assert answer.status == 202
    ((_, _, given),) = door.verbs.calls
    assert given["request"].choices == {
        "coder": Choice(values={"model": "huge", "effort": None}, args=("-c", "--deep")),
        "tester": Choice(values={"context": "1m"}),
    }


@pytest.mark.parametrize(
    ("query", "accept", "media"),
    [
        ("", None, "image/svg+xml"),
        ("", "text/html,image/svg+xml;q=0.9,*/*;q=0.8", "image/svg+xml"),
        ("", "application/json", "application/json"),
        ("", "image/svg+xml;q=0.2, text/plain;q=0.3, application/json;q=odd", "text/vnd.mermaid; charset=utf-8"),
        ("?format=mermaid", "application/json", "text/vnd.mermaid; charset=utf-8"),
        ("?format=json&pipeline=build", None, "application/json"),
        ("?format=svg", "application/json", "image/svg+xml"),
    ],
)
def test_the_map_is_drawn_as_asked(door: Served, query: str, accept: str | None, media: str) -> None:
    answer = door.ask("GET", f"/graph{query}", headers={"accept": accept} if accept else {})
    assert (answer.status, answer.headers["content-type"]) == (200, media)
    begins = {"image/svg+xml": b"<svg", "application/json": b"{"}.get(media, b"flowchart LR")
    assert answer.body.startswith(begins)
    policy = answer.headers.get("content-security-policy")
    assert policy == ("default-src 'none'; style-src 'unsafe-inline'; sandbox" if "svg" in media else None)


def test_the_map_of_no_pipeline_is_refused_by_the_verb(open_door: Open) -> None:
    answer = open_door(fails_with(NotFoundError("unknown-pipeline", "cannot find it"))).ask("GET", "/graph?pipeline=x")
    assert (answer.status, answer.code) == (404, "unknown-pipeline")


def test_health_needs_no_verb(door: Served) -> None:
    answer = door.ask("GET", "/health")
    assert answer.json["status"] == "ok"
    assert door.verbs.calls == []


def test_a_log_is_bytes_with_its_place(door: Served) -> None:
    answer = door.ask("GET", "/runs/run_1/log?stream=stderr&offset=-100&limit=6&wait=0.5")
    assert answer.body == b"\xff\x00out\n"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert (answer.headers["x-offset"], answer.headers["x-next-offset"], answer.headers["x-ended"]) == ("10", "16", "1")
    ((_, _, given),) = door.verbs.calls
    assert given == {"text": "run_1", "stream": "stderr", "offset": -100, "limit": 6, "wait": 0.5}


def test_a_diff_is_bytes_whatever_the_files_hold(door: Served) -> None:
    answer = door.ask("GET", "/runs/run_1/diff?form=stat")
    assert (answer.headers["content-type"], answer.body) == ("application/octet-stream", b"+f\xfcr\n")
    assert door.verbs.calls[-1][2] == {"text": "run_1", "form": "stat"}
    assert door.ask("GET", "/runs/run_1/diff?form=odd").status == 422


@pytest.mark.parametrize("what", ["payload", "answer"])
def test_text_is_text_whatever_it_says(door: Served, what: str) -> None:
    answer = door.ask("GET", f"/runs/run_1/{what}")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.body.decode() in ("told: ä\n", "<script>alert(1)</script>")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RefusedError("no-route", "cannot send", "add a route"), 403),
        (NotFoundError("unknown-id", "cannot find it"), 404),
        (ConflictError("over", "cannot cancel it"), 409),
        (InvalidError("bad-key", "cannot use this key"), 422),
        (BusyError("busy", "cannot answer now"), 503),
        (BusyError("disk-full", "cannot write"), 507),
        (UnreachableError("odd", "cannot happen here"), 500),
        (TowerError("odd", "cannot happen either"), 500),
    ],
)
def test_an_error_is_a_problem_document(open_door: Open, error: TowerError, status: int) -> None:
    answer = open_door(fails_with(error)).ask("GET", "/status")
    assert answer.status == status
    assert answer.code == error.code
    assert answer.json["detail"] == error.sentence
    assert answer.json["hint"] == error.hint
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)


def test_a_bug_is_a_problem_document_that_tells_nothing(open_door: Open, caplog: pytest.LogCaptureFixture) -> None:
    door = open_door()
    door.verbs.error = KeyError("secret detail")
    answer = door.ask("GET", "/status")
    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret" not in answer.body
    eventually(lambda: "secret detail" in caplog.text)
    door.verbs.error = None
    assert door.ask("GET", "/status").status == 200


def test_a_name_that_is_no_utf8_reaches_the_client(open_door: Open) -> None:
    door = open_door(fails_with(NotFoundError("no-file", "cannot find \udcff")))
    assert door.ask("GET", "/status").json["detail"] == "cannot find ?"


def test_json_escapes_what_is_no_utf8(door: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(*_: object) -> dict[str, str]:
        return {"kind": "run", "id": "\udcff"}

    monkeypatch.setattr(type(door.verbs), "find", find)
    assert door.ask("GET", "/find/x").json["id"] == "\udcff"


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "/nothing", 404, "no-such-path"),
        ("GET", "/", 404, "no-such-path"),
        ("GET", "/flights/", 404, "no-such-path"),
        ("GET", "/docs", 404, "no-such-path"),
        ("PUT", "/status", 405, "no-such-method"),
        ("HEAD", "/status", 405, None),
        ("GET", "/flights?limit=0", 422, "invalid"),
        ("GET", "/flights?limit=many", 422, "invalid"),
        ("GET", "/flights?stat=held", 422, "invalid"),
        ("GET", "/flights?state=flying", 422, "invalid"),
        ("GET", "/itineraries/x?wait=61", 422, "invalid"),
        ("GET", "/itineraries/x?wait=nan", 422, "invalid"),
        ("GET", "/itineraries/x?after=9223372036854775808", 422, "invalid"),
        ("GET", "/runs/x/log?stream=stdin", 422, "invalid"),
        ("GET", f"/runs/{'x' * 81}", 422, "invalid"),
        ("GET", "/events?after=-1", 422, "invalid"),
    ],
)
def test_what_the_framework_refuses_is_a_problem_document(
    door: Served, method: str, target: str, status: int, code: str | None
) -> None:
    answer = door.ask(method, target)
    assert answer.status == status
    if code is not None:
        assert answer.code == code
    if status == 405:
        assert answer.headers["allow"] == "GET"
    assert door.verbs.calls == []


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({"too": 1, "body": 5}, "body: input should be a valid string; too: extra inputs are not permitted"),
        (SEND | {"flags": {"deep": 1}}, "flags.deep: input should be a valid boolean"),
        (SEND | {"choices": {"coder": {"modle": "x"}}}, "choices.coder.modle: extra inputs are not permitted"),
        (SEND | {"choices": {"coder": {"model": ""}}}, "choices.coder.model: string should have at least 1 character"),
        (SEND | {"choices": {"coder": {"effort": "huge"}}}, "choices.coder.effort: input should be 'none', 'minimal'"),
        (SEND | {"choices": {"coder": {"args": ["a\0b"]}}}, "choices.coder.args.0: value error, holds a zero byte"),
        (SEND | {"too": 1}, "too: extra inputs are not permitted"),
        (SEND | {"priority": "high"}, "priority: input should be a valid integer"),
        (SEND | {"priority": True}, "priority: input should be a valid integer"),
        (SEND | {"priority": 1 << 63}, "priority: input should be less than"),
        (SEND | {"body": 5}, "body: input should be a valid string"),
        (SEND | {"body": ["x" * 100_000]}, "body: input should be a valid string"),
        (SEND | {"not_before": "2026-01-02T03:04:05"}, "not_before: value error, should name its time zone"),
        (SEND | {"not_before": "soon"}, "not_before: value error"),
        (SEND | {"not_before": 12}, "not_before: value error, should be an ISO 8601 time"),
        ([], "body: "),
        ("text", "body: "),
        (None, "body: "),
    ],
)
def test_all_that_is_wrong_with_a_body_is_named(door: Served, document: Any, named: str) -> None:
    answer = door.ask("POST", "/flights", json.dumps(document).encode())
    assert (answer.status, answer.code) == (422, "invalid")
    assert named in answer.json["detail"]
    assert len(answer.body) < 1000
    assert door.verbs.calls == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"to": "coder", "body": "x"} {}', b"[" * 100_000, b"\xef\xbb\xbf[]", b"to=coder&body=x", b"NaN,"],
)
def test_what_is_no_json(door: Served, body: bytes) -> None:
    answer = door.ask("POST", "/flights", body)
    assert answer.status in (400, 422)
    assert answer.code in ("malformed", "invalid")
    assert door.verbs.calls == []


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/flights", b'{"to": "coder", "body": "half \\ud800 a pair"}'),
        ("/flights", b'{"to": "coder", "body": "x", "key": "\\udc00"}'),
        ("/runs/run_1/recover", b'{"note": "\\ud800"}'),
        ("/ground-stop", b'{"why": "\\ud800"}'),
    ],
)
def test_half_a_character_is_no_text(door: Served, target: str, body: bytes) -> None:
    answer = door.ask("POST", target, body)
    assert (answer.status, answer.code) == (422, "invalid")
    assert "surrogate" in answer.json["detail"] or "unicode" in answer.json["detail"]
    assert door.verbs.calls == []


def test_a_run_with_its_token_is_that_run(door: Served) -> None:
    assert door.ask("POST", "/flights", SEND, {"Authorization": f"Bearer {TOKEN}"}).status == 202
    ((_, caller, _),) = door.verbs.calls
    assert (caller.name, caller.run) == (RUN.agent, RUN.id)


def test_a_run_may_not_follow_events(door: Served) -> None:
    answer = door.ask("GET", "/events", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status, answer.code) == (403, "person-only")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
class TestCurl:
    """`curl --unix-socket` is a documented client; B114: what a web page could make a browser send is refused."""

    def curl(self, door: Served, *arguments: str) -> tuple[int, dict[str, Any]]:
        argv = ["curl", "-s", "--max-time", "10", "-w", "\n%{http_code}", "--unix-socket", str(door.path), *arguments]
        shown = subprocess.run(argv, capture_output=True, text=True, check=True)
        body, _, status = shown.stdout.rpartition("\n")
        return int(status), json.loads(body)

    def test_it_is_a_person(self, door: Served) -> None:
        assert self.curl(door, "http://localhost/status")[0] == 200
        assert self.curl(door, "http://tower/flights", "--json", json.dumps(SEND))[0] == 202
        assert self.curl(door, "-X", "DELETE", "http://localhost/drain")[0] == 200

    @pytest.mark.parametrize(
        ("arguments", "status", "code"),
        [
            (["http://evil.example/status"], 403, "foreign-host"),
            (["http://localhost/status", "-H", "Host: evil.example"], 403, "foreign-host"),
            (["http://localhost/status", "-H", "Origin: https://evil.example"], 403, "foreign-origin"),
            (["http://localhost/status", "-H", "Origin: null"], 403, "foreign-origin"),
            (["http://localhost/events", "-H", "Origin: https://evil.example"], 403, "foreign-origin"),
            (["http://evil.example/flights", "--json", json.dumps(SEND)], 403, "foreign-host"),
            (
                ["http://localhost/flights", "--json", json.dumps(SEND), "-H", "Origin: https://evil.example"],
                403,
                "foreign-origin",
            ),
            (["http://localhost/flights", "-d", json.dumps(SEND), "-H", "Content-Type: text/plain"], 415, "media-type"),
            (["http://localhost/flights", "-d", "to=coder&body=x"], 415, "media-type"),
            (["http://localhost/flights", "-F", "to=coder"], 415, "media-type"),
            (["http://localhost/drain", "-X", "POST"], 415, "media-type"),
        ],
    )
    def test_a_page_cannot_reach_it(self, door: Served, arguments: list[str], status: int, code: str) -> None:
        told, problem = self.curl(door, *arguments)
        assert (told, problem["code"]) == (status, code)
        assert door.verbs.calls == []

    def test_a_large_body_is_refused_before_it_is_sent(self, door: Served, tmp_path: Path) -> None:
        body = tmp_path / "body"
        body.write_bytes(b'"' + b"x" * (20 << 20) + b'"')
        status, problem = self.curl(door, "http://localhost/flights", "--json", f"@{body}")
        assert (status, problem["code"]) == (413, "too-large")
