"""Every kind of caller, with and without a token; and over the real socket, from within a run."""

import json
import os
import subprocess
import sys

import pytest

from tower.core.callers import Caller
from tower.core.errors import BusyError, RefusedError, TowerError
from tower.core.records import Process, Run
from tower.system.keeper.ancestry import place_of
from tower.system.keeper.protocol import NAME
from tower.web.access import Access
from tower.web.peer import Peer, Remote

from .conftest import BETWEEN, TOKEN, Open, Served
from .fakes import PROCESS, RUN
from .test_peer import KEEPER

UID = 12345


async def agent_of_token(token: str) -> Run | Process | None:
    return {TOKEN: RUN, BETWEEN: PROCESS}.get(token)


def access(group: str | None = None) -> Access:
    return Access(keeper_sockets="/nowhere", agent_of_token=agent_of_token, socket_group=group, own_uid=UID)


def peer(uid: int = UID, **more: object) -> Peer:
    return Peer(pid=77, uid=uid, **more)  # type: ignore[arg-type]


RUN_CALLER = Caller(name=RUN.agent, run=RUN.id)


@pytest.mark.parametrize(
    ("who", "token", "expected"),
    [
        (peer(), None, Caller(name="uid-12345")),
        (peer(uid=0), None, Caller(name="root")),
        (peer(), TOKEN, RUN_CALLER),
        (peer(run=RUN.id), TOKEN, RUN_CALLER),
        (peer(run=RUN.process), TOKEN, RUN_CALLER),
        (peer(doubt="it has ended"), TOKEN, RUN_CALLER),
        (peer(doubt="it has ended", starved=True), TOKEN, RUN_CALLER),
        (peer(), BETWEEN, Caller(name=PROCESS.agent, process=PROCESS.id)),
        (peer(run="prc_other"), BETWEEN, "foreign-token"),
        (Remote(), TOKEN, RUN_CALLER),
        (Remote(), BETWEEN, Caller(name=PROCESS.agent, process=PROCESS.id)),
        (Remote(), None, "no-token"),
        (Remote(), "wrong", "bad-token"),
        (peer(), "wrong", "bad-token"),
        (peer(), "", "bad-token"),
        (peer(uid=0), "wrong", "bad-token"),
        (peer(run=RUN.id), None, "not-a-person"),
        (peer(run=RUN.id), "wrong", "bad-token"),
        (peer(run="run_other"), TOKEN, "foreign-token"),
        (peer(uid=0, run=RUN.id), None, "not-a-person"),
        (peer(doubt="it has ended"), None, "not-a-person"),
        (peer(doubt="it has ended", starved=True), None, "no-descriptors"),
        (peer(uid=54321), None, "not-yours"),
        (peer(uid=54321), TOKEN, "not-yours"),
        (peer(uid=54321, groups=frozenset({0})), None, "not-yours"),
    ],
)
@pytest.mark.anyio
async def test_who_it_is(who: Peer, token: str | None, expected: Caller | str) -> None:
    if isinstance(expected, Caller):
        assert await access().caller(who, token) == expected
        return
    with pytest.raises(TowerError) as refused:
        await access().caller(who, token)
    assert refused.value.code == expected
    assert isinstance(refused.value, BusyError if expected == "no-descriptors" else RefusedError)
    assert refused.value.sentence.startswith("cannot ")
    assert refused.value.hint


@pytest.mark.anyio
async def test_a_group_may_be_let_in() -> None:
    member = peer(uid=54321, groups=frozenset({7, 0}))
    assert (await access("root").caller(member, None)).name == "uid-54321"
    with pytest.raises(RefusedError):
        await access("root").caller(peer(uid=54321, groups=frozenset({7})), None)
    with pytest.raises(RefusedError):
        await access("no-such-group-here").caller(member, None)
    with pytest.raises(RefusedError):
        await access("root").caller(peer(uid=54321, groups=frozenset({0}), run=RUN.id), None)


ASK = """
import json, os, socket, sys
path, pairs = sys.argv[1].split(" ", 1)
for name, head in json.loads(pairs):
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    link.sendall(head.encode())
    reply = b""
    while piece := link.recv(65536):
        reply += piece
    print(name, reply.split()[1].decode(), flush=True)
"""


def request(method: str, target: str, *headers: str, body: str = "") -> str:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines) + "\r\n\r\n" + body


def test_from_within_a_run(door: Served) -> None:
    """All that a program below a keeper can try, over the real socket."""
    token = f"Authorization: Bearer {TOKEN}"
    send = json.dumps({"to": "coder", "body": "x"})
    tries = [
        ("status", request("GET", "/status")),
        ("cancel", request("DELETE", "/flights/flt_1")),
        ("stop", request("POST", "/ground-stop", body='{"why": "me"}')),
        ("send", request("POST", "/flights", body=send)),
        ("guess", request("POST", "/flights", "Authorization: Bearer guess", body=send)),
        ("health", request("GET", "/health")),
        ("token", request("POST", "/flights", token, body=send)),
    ]
    sockets = str(door.path.parent / "k")
    argv = [sys.executable, "-I", "-S", "-c", KEEPER, ASK, f"{door.path} {json.dumps(tries)}"]
    # The run of the token is below its own keeper.
    argv += [NAME, sockets, RUN.id, place_of(sockets)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert dict(line.split() for line in shown.stdout.splitlines()) == {
        "status": "403",
        "cancel": "403",
        "stop": "403",
        "send": "403",
        "guess": "401",
        "health": "403",
        "token": "202",
    }, shown.stderr
    ((verb, caller, _),) = door.verbs.calls
    assert (verb, caller) == ("send", RUN_CALLER)


def test_the_tower_itself_may_ask(open_door: Open) -> None:
    """Its own process is no run; what it starts is no person."""
    door = open_door(own_pid=os.getpid())
    assert door.ask("GET", "/status").status == 200
    code = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    asks = f"{door.path} {json.dumps([['status', request('GET', '/status')]])}"
    argv = [sys.executable, "-I", "-S", "-c", code, sys.executable, "-I", "-S", "-c", ASK, asks]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert shown.stdout == "status 403\n", shown.stderr
