"""Fifty agents that come to the door for tools at once, each to shake hands and to list them, beside a bare endpoint.

The reference is a Starlette application on uvicorn that reads JSON and answers with a document of the same size.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from . import machine, served
from .table import Row, bounded, compared

AGENTS: Final = 50
ROUNDS: Final = 9
UNDER_SEC: Final = 1.0

AGENT: Final = """[agents.guest]
runner = 'cmd:echo $LAYOVER_MCP_URL $LAYOVER_RUN_TOKEN > .pass; mv .pass pass; while [ ! -e end ]; do sleep 0.1; done'
prompt = "Stay."
entry = true
"""
HELLO: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)

BARE: Final = """
import json, socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def answer(request):
    asked = await request.json()
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": "x" * int(sys.argv[2])})

app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
listening = socket.socket(fileno=int(sys.argv[1]))
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listening])
"""


def measure(*, tiny: bool = False) -> list[Row]:
    """Seconds until all of them have their answers."""
    rounds, agents = (1, 5) if tiny else (ROUNDS, AGENTS)
    ours: list[float] = []
    theirs: list[float] = []
    with machine.folder() as folder, served.tower(folder, AGENT) as tower:
        tower.send("guest")
        served.until((tower.tree / "pass").exists)
        url, token = (tower.tree / "pass").read_text().split()
        port = int(url.rpartition(":")[2].partition("/")[0])
        size = len(_ask(port, token)[1])  # the first one has the tools loaded
        with _bare(size) as reference:
            for _ in range(rounds):
                ours.append(_all_at_once(port, token, agents))
                theirs.append(_all_at_once(reference, token, agents))
        (tower.tree / "end").touch()
    what = f"{agents} agents at once at the door: initialize and tools/list"
    return [
        bounded(f"{what}, all answered", sorted(ours)[len(ours) // 2], unit="s", under=UNDER_SEC),
        compared(what, ours, theirs, unit="s", reference="Starlette on uvicorn"),
    ]


def _all_at_once(port: int, token: str, agents: int) -> float:
    gate = threading.Barrier(agents + 1)
    failed: list[Exception] = []

    def visit() -> None:
        gate.wait()
        try:
            _ask(port, token)
        except Exception as error:
            failed.append(error)

    visitors = [threading.Thread(target=visit) for _ in range(agents)]
    for visitor in visitors:
        visitor.start()
    gate.wait()
    began = time.perf_counter()
    for visitor in visitors:
        visitor.join()
    if failed:
        raise RuntimeError(f"{len(failed)} of {agents} were not answered, the first: {failed[0]}")
    return time.perf_counter() - began


def _ask(port: int, token: str) -> list[bytes]:
    """One agent: both messages over one connection."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=served.PATIENCE)
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    answers = []
    for message in MESSAGES:
        link.request("POST", "/mcp", json.dumps(message), headers)
        with link.getresponse() as reply:
            answers.append(reply.read())
            if reply.status != 200:
                raise RuntimeError(f"{message['method']}: {reply.status} {answers[-1]!r}")
    link.close()
    return answers


@contextmanager
def _bare(size: int) -> Iterator[int]:
    """The port of the reference."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        fd = listening.fileno()
        command = [sys.executable, "-c", BARE, str(fd), str(size)]
        with subprocess.Popen(command, pass_fds=[fd], cwd=Path(__file__).parent) as process:
            try:
                port = listening.getsockname()[1]
                _ask(port, "none")  # waits in the backlog until it serves
                yield port
            finally:
                process.terminate()
