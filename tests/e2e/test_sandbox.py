"""Agents that try to get out: what a real daemon's sandbox holds, and that the work of an honest one goes on in it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from e2e.daemon_process import Daemon, eventually
from tower.client.api import Api
from tower.core.confinement import Abilities
from tower.system.sandbox import abilities


@pytest.fixture(autouse=True)
def walled(daemon: Daemon) -> None:
    """As a configuration that says nothing of it."""
    daemon.sandbox = "auto"


@pytest.fixture(scope="module")
def can(tmp_path_factory: pytest.TempPathFactory) -> Abilities:
    found = abilities(os.environ["PATH"], str(tmp_path_factory.mktemp("scratch")))
    if not found.has_bubblewrap or found.no_overlay:
        pytest.skip(f"bubblewrap: {found.no_bubblewrap or found.no_overlay}")
    return found


READER = """
[agents.reader]
description = "Reads"
runner = '''cmd:%s'''
prompt = "Read."
access = "read-only"
entry = true
sandbox = "require"
"""


def test_a_reader_cannot_touch_the_live_tree_and_builds_in_its_snapshot(daemon: Daemon, can: Abilities) -> None:
    script = (
        "echo mine > %(live)s/readme.txt; rm -f %(live)s/readme.txt; git -C %(live)s commit -qm x --allow-empty;"
        " echo built > out.o; echo mine > readme.txt; git status --short; ls %(state)s"
    )
    daemon.configure(READER % (script % {"live": daemon.tree.resolve(), "state": daemon.state.resolve()}))
    daemon.start()
    before = sorted((path, path.stat().st_mtime_ns) for path in daemon.tree.rglob("*"))
    flight = daemon.landed(daemon.send("reader")["id"])
    run = flight["runs"][-1]
    answer = daemon.answer(run["id"])
    assert answer.splitlines() == [" M readme.txt", "?? out.o", "door", "hangars", "snapshots"]
    assert sorted((path, path.stat().st_mtime_ns) for path in daemon.tree.rglob("*")) == before
    assert run["sandbox"] == "bubblewrap"
    eventually(lambda: not Path(run["workspace"]).exists())


def test_a_writer_works_in_its_tree_and_nowhere_else(daemon: Daemon, can: Abilities) -> None:
    outside = daemon.folder / "outside"
    outside.mkdir()
    daemon.configure(
        f"""
[agents.writer]
description = "Writes"
runner = '''cmd:echo mine > {outside}/x; echo new > new.txt; git add -A; echo out > "$LAYOVER_REPORT"; echo $(pwd)'''
prompt = "Write."
entry = true
sandbox = "require"
"""
    )
    daemon.start()
    flight = daemon.landed(daemon.send("writer")["id"])
    assert daemon.answer(flight["runs"][-1]["id"]).strip() == str(daemon.tree.resolve())
    assert list(outside.iterdir()) == []
    assert (daemon.tree / "new.txt").read_text() == "new\n"


def test_a_run_inside_sends_as_itself_and_can_do_nothing_else(daemon: Daemon, can: Abilities) -> None:
    daemon.configure(
        READER % "tower send echo hello; tower ps || echo refused; ls /proc | grep -c ^[0-9]"
        + """
[agents.echo]
description = "Echoes"
runner = "cmd:echo heard"
prompt = "Echo."
[[routes]]
from = "reader"
to = "echo"
"""
    )
    daemon.start()
    flight = daemon.landed(daemon.send("reader")["id"])
    lines = daemon.answer(flight["runs"][-1]["id"]).splitlines()
    assert "refused" in lines
    chain = eventually(lambda: [one for one in daemon.api.get("/flights")["flights"] if one["to"] == "echo"])
    assert daemon.landed(chain[0]["id"])["outcome"] == "succeeded"


CALLS = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"id": 2, "method": "tools/list"},
    {
        "id": 3,
        "method": "tools/call",
        "params": {"name": "layover_send", "arguments": {"to": "echo", "body": "m"}},
    },
]
KNOCK = """
import json, os, socket, sys
for path in sys.argv[1:]:
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(path)
        print("reached", path)
    except OSError as error:
        print(error.errno)
print(os.path.basename(os.environ["LAYOVER_SOCKET"]))
"""


@pytest.mark.parametrize("place", ["", 'socket = "control.sock"'], ids=["usual", "beside the file"])
def test_a_run_inside_has_its_tools_and_no_way_to_the_control_socket(
    daemon: Daemon, can: Abilities, place: str
) -> None:
    calls = "\n".join(json.dumps({"jsonrpc": "2.0"} | call) for call in CALLS) + "\n"
    (daemon.folder / "calls").write_text(calls)
    (daemon.folder / "knock.py").write_text(KNOCK)
    control = daemon.folder / "control.sock" if place else daemon.state / "tower.sock"
    scripts = f"python3 {daemon.folder}/knock.py {control} {control.resolve()}; tower mcp < {daemon.folder}/calls"
    daemon.configure(
        READER % scripts
        + """
[agents.echo]
description = "Echoes"
runner = "cmd:tail -n 1"
prompt = "Echo."
[[routes]]
from = "reader"
to = "echo"
""",
        layover=place,
    )
    daemon.start()
    assert control.is_socket()
    api = Api(str(control), {}, None)
    flight = api.post("/flights", {"to": "reader", "body": "go"})["flight"]["id"]
    eventually(lambda: api.get(f"/flights/{flight}")["state"] == "landed")
    run = api.get(f"/flights/{flight}")["runs"][-1]["id"]
    answer = api.read(f"/runs/{run}/answer").body.decode().splitlines()
    refused = {str(number) for number in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK)}
    assert set(answer[:2]) <= refused, answer
    assert answer[2] == "runs.sock"
    told = {line["id"]: line["result"] for line in map(json.loads, answer[3:])}
    assert "layover_send" in {tool["name"] for tool in told[2]["tools"]}
    assert not told[3].get("isError")
    (sent,) = eventually(lambda: [one for one in api.get("/flights")["flights"] if one["to"] == "echo"])
    assert sent["sender"]["name"] == "reader"


def test_frozen_trees_are_shared_and_spared_while_they_are_in_use_after_a_restart_as_well(
    daemon: Daemon, can: Abilities
) -> None:
    agents = READER % "echo ready; while ! test -e $TMPDIR/go; do sleep 0.05; done; cat readme.txt"
    daemon.configure(agents, layover='snapshots_max = 0\non_stop = "leave"', defaults="orphan_sec = 0")
    daemon.start()
    flights = [daemon.send("reader")["id"] for _ in range(2)]
    runs = [running(daemon, flight) for flight in flights]
    frozen = daemon.state / "snapshots/frozen"
    assert len(names(frozen)) == 1
    daemon.kill()
    daemon.start()
    daemon.configure(agents.replace("echo ready;", "echo another;"), layover='snapshots_max = 0\non_stop = "leave"')
    (daemon.tree / "readme.txt").write_text("changed\n")
    assert len(names(frozen)) == 1
    for run in runs:
        (Path(run["folder"]) / "tmp/go").touch()
    for flight in flights:
        run = daemon.landed(flight)["runs"][-1]
        assert daemon.answer(run["id"]).splitlines()[-1] == "committed"
    eventually(lambda: names(frozen) == [])


def running(daemon: Daemon, flight: str) -> dict[str, Any]:
    daemon.until(flight, lambda found: found["state"] == "running")
    return daemon.last_run(flight)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")]


def test_a_reader_that_is_asked_to_end_hears_it(daemon: Daemon, can: Abilities) -> None:
    daemon.configure(READER % "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    daemon.start()
    flight = daemon.send("reader")["id"]
    run = running(daemon, flight)
    eventually(lambda: b"ready" in daemon.api.read(f"/runs/{run['id']}/log").body)
    daemon.api.post(f"/runs/{run['id']}/cancel", {})
    eventually(lambda: b"heard" in daemon.api.read(f"/runs/{run['id']}/log").body)
    assert daemon.landed(flight)["state"] == "cancelled"
