"""Asking a tower, and what is said when it does not answer as it should."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tower.client.api import Api, quote
from tower.core.errors import (
    BusyError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TowerError,
    UnreachableError,
)

from .fake_tower import FakeTower, problem, raw, reply, silence


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[FakeTower]:
    with FakeTower(tmp_path / "t.sock") as fake:
        yield fake


def api_of(tower: FakeTower, **environ: str) -> Api:
    return Api(str(tower.path), environ, None, seconds=0.3)


def test_a_request_carries_what_it_should_and_nothing_else(tower: FakeTower) -> None:
    tower.routes = {"GET /runs": reply({"runs": []}), "POST /flights": reply({"id": 1}, 202)}
    api = api_of(tower)
    assert api.get("/runs", {"all": True, "agent": "a&b=c d", "limit": 3, "state": None}) == {"runs": []}
    assert api.post("/flights", {"body": "ä"}) == {"id": 1}
    get, post = tower.requests
    assert get.query == {"all": "true", "agent": "a&b=c d", "limit": "3"}
    assert "authorization" not in get.headers
    assert get.body == b""
    assert post.headers["content-type"] == "application/json"
    assert post.document == {"body": "ä"}


def test_inside_a_run_the_token_is_sent(tower: FakeTower) -> None:
    tower.routes["GET /status"] = reply({})
    api_of(tower, LAYOVER_RUN_TOKEN="s3cret").get("/status")
    assert tower.requests[0].headers["authorization"] == "Bearer s3cret"


def test_a_token_that_would_break_the_request_is_not_sent(tower: FakeTower) -> None:
    tower.routes["GET /status"] = reply({})
    api_of(tower, LAYOVER_RUN_TOKEN="a\r\nX-Evil: 1").get("/status")
    assert "authorization" not in tower.requests[0].headers
    assert "x-evil" not in tower.requests[0].headers


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidError),
        (401, RefusedError),
        (403, RefusedError),
        (404, NotFoundError),
        (409, ConflictError),
        (413, InvalidError),
        (422, InvalidError),
        (429, BusyError),
        (503, BusyError),
        (507, BusyError),
        (500, TowerError),
    ],
)
def test_a_problem_document_becomes_the_error_that_it_describes(
    tower: FakeTower, status: int, kind: type[TowerError]
) -> None:
    tower.routes["GET /status"] = problem(status, "some-code", "cannot do it", "do that")
    with pytest.raises(TowerError) as caught:
        api_of(tower).get("/status")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.sentence, caught.value.hint) == ("some-code", "cannot do it", "do that")


def test_a_problem_without_words_still_has_a_sentence(tower: FakeTower) -> None:
    tower.routes["GET /status"] = raw(409, b'{"detail": 7}', "application/problem+json")
    with pytest.raises(ConflictError, match="HTTP status 409"):
        api_of(tower).get("/status")


@pytest.mark.parametrize(
    "answer",
    [
        raw(200, b"<html>", "text/html"),
        raw(200, b"{", "application/json"),
        raw(200, b"[1]", "application/json"),
        raw(200, b"[" * 100_000, "application/json"),
        raw(200, b"\xff\xfe\x00", "application/json"),
        raw(502, b"bad gateway", "text/plain"),
        reply({"message": "page not found"}, 404),
        b"220 mail.example.org ESMTP\r\n",
    ],
)
def test_what_is_no_tower_is_said_to_be_none(tower: FakeTower, answer: bytes) -> None:
    tower.routes["GET /status"] = answer
    with pytest.raises(UnreachableError) as caught:
        api_of(tower).get("/status")
    assert caught.value.code == "not-a-tower"
    assert str(tower.path) in caught.value.sentence


def test_half_an_answer_to_a_question_says_try_again(tower: FakeTower) -> None:
    tower.routes["GET /status"] = reply({"state": "running"})[:-4]
    with pytest.raises(UnreachableError, match="ended after") as caught:
        api_of(tower).get("/status")
    assert "try again" in caught.value.hint


def test_half_an_answer_to_an_order_says_that_it_may_have_been_carried_out(tower: FakeTower) -> None:
    tower.routes["POST /flights"] = reply({"flight": 1})[:-4]
    with pytest.raises(UnreachableError) as caught:
        api_of(tower).post("/flights", {})
    assert "not known" in caught.value.hint


def test_a_deletion_may_answer_with_nothing(tower: FakeTower) -> None:
    tower.routes["DELETE /drain"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert api_of(tower).delete("/drain") == {}


def test_silence_is_reported_in_time_and_the_socket_stays(tower: FakeTower) -> None:
    tower.routes["GET /status"] = silence
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"no answer came within 0\.3 s") as caught:
        api_of(tower).get("/status")
    assert time.monotonic() - began < 3
    assert f"process {os.getpid()} lives" in caught.value.hint
    assert "nothing was removed" in caught.value.hint
    assert tower.path.is_socket()


def test_a_stopped_daemon_is_named_with_what_lets_it_go_on(tmp_path: Path) -> None:
    path = tmp_path / "s"
    program = (
        f"import socket, time; s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); s.listen()\n"
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as frozen:
        assert frozen.stdout is not None
        frozen.stdout.readline()
        frozen.send_signal(signal.SIGSTOP)
        os.waitpid(frozen.pid, os.WUNTRACED)
        with pytest.raises(UnreachableError) as caught:
            Api(str(path), {}, None, seconds=0.2).get("/status")
        frozen.kill()
    assert f"kill -CONT {frozen.pid}" in caught.value.hint
    assert path.is_socket()


def test_a_wait_that_was_asked_for_is_borne(tower: FakeTower) -> None:
    def late(_: Any) -> bytes:
        time.sleep(0.6)
        return reply({"seq": 2})

    tower.routes["GET /itineraries/x"] = late
    assert api_of(tower).get("/itineraries/x", wait=1.0) == {"seq": 2}


def test_when_nobody_is_there_all_that_was_tried_is_named(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").write_text('[layover]\nsocket = "mine.sock"\n')
    (tmp_path / "plain").touch()
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "plain")}
    with pytest.raises(UnreachableError) as caught:
        Api(None, environ, str(tmp_path)).get("/status")
    words = str(caught.value)
    assert f"{tmp_path}/mine.sock (`socket` of {tmp_path}/layover.toml): no such file or directory" in words
    assert f"{tmp_path}/.layover/tower.sock" in words
    assert "/run/tower/tower.sock" in words
    assert f"{tmp_path}/plain/tower/tower.sock ($XDG_RUNTIME_DIR): not a directory" in words
    assert f"tower serve --config {tmp_path}/layover.toml" in words


def leftover(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.mark.parametrize("there", [Path.touch, Path.mkdir, leftover])
def test_what_is_no_listening_socket_is_passed_over_and_left_alone(
    tmp_path: Path, there: Callable[[Path], None]
) -> None:
    path = tmp_path / "thing"
    there(path)
    with pytest.raises(UnreachableError, match="connection refused"):
        Api(str(path), {}, None).get("/status")
    assert path.exists()


def test_a_tower_that_is_not_ours_is_refused_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: socket.socket, path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tower.client.wire._connect", denied)
    with pytest.raises(RefusedError, match="permission denied") as caught:
        Api(str(tmp_path / "s"), {}, None).get("/status")
    assert "socket_group" in caught.value.hint


def test_falling_past_the_configured_tower_is_said(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").touch()
    (tmp_path / "run" / "tower").mkdir(parents=True)
    heard: list[str] = []
    with FakeTower(tmp_path / "run" / "tower" / "tower.sock", {"GET /health": reply({})}) as fake:
        api = Api(None, {"XDG_RUNTIME_DIR": str(tmp_path / "run")}, str(tmp_path), note=heard.append)
        api.get("/health")
        api.get("/health")
    assert heard == [f"nothing answers at {tmp_path}/.layover/tower.sock; asking the tower at {fake.path}"]


def test_a_tower_that_has_answered_is_not_swapped_for_another(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").touch()
    (tmp_path / ".layover").mkdir()
    (tmp_path / "tower").mkdir()
    with FakeTower(tmp_path / "tower" / "tower.sock", {"GET /health": reply({})}) as other:
        with FakeTower(tmp_path / ".layover" / "tower.sock", {"GET /health": reply({})}):
            api = Api(None, {"XDG_RUNTIME_DIR": str(tmp_path)}, str(tmp_path))
            api.get("/health")
        with pytest.raises(UnreachableError, match="any more") as caught:
            api.get("/health")
        assert caught.value.code == "gone"
        assert other.requests == []


@pytest.mark.parametrize(
    ("text", "quoted"), [("a-Z_0.~", "a-Z_0.~"), ("a b/c?d&e", "a%20b%2Fc%3Fd%26e"), ("ä\udcff", "%C3%A4%FF")]
)
def test_quoting(text: str, quoted: str) -> None:
    assert quote(text) == quoted
