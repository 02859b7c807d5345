"""kill -9 of the tower, the keeper or the agent: what was promised holds, and the next tower goes on."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
from cgroup import group

from e2e.daemon_process import Daemon, eventually
from tower.system import cgroups, procfs

GATED = """
[agents.gated]
description = "Waits for a gate"
runner = '''cmd:echo began; echo "$LAYOVER_RUN_ID" >> {log}; while [ ! -e {gate} ]; do sleep 0.05; done; echo ended'''
prompt = "Wait at the gate."
entry = true
recovery = "{recovery}"
"""


def gated(daemon: Daemon, recovery: str = "automatic") -> None:
    daemon.configure(
        GATED.format(log=daemon.folder / "runs.log", gate=daemon.folder / "gate", recovery=recovery),
        defaults='linger_sec = 0.2\nwriters = "shared"',
        layover="grace_sec = 1",
    )


def starts(daemon: Daemon) -> list[str]:
    log = daemon.folder / "runs.log"
    return log.read_text().split() if log.exists() else []


def soon(daemon: Daemon, flight: str) -> None:
    """Skip the pause before a recovery: the flight falls due now."""
    import sqlite3

    with sqlite3.connect(daemon.state / "tower.db", timeout=5) as connection:
        connection.execute("UPDATE flights SET not_before = 0 WHERE id = ?", (flight,))
    connection.close()


def test_a_killed_tower_leaves_its_runs_alive_and_the_next_one_adopts_them(daemon: Daemon) -> None:
    """B006: nothing is begun beside them."""
    gated(daemon)
    daemon.start()
    flights = [daemon.send("gated")["id"] for _ in range(2)]
    eventually(lambda: len(starts(daemon)) == 2)
    for flight in flights:
        daemon.until(flight, lambda one: one["state"] == "running")
    queued = daemon.send("gated", "later", not_before="2999-01-01T00:00:00Z")
    keepers = sorted(daemon.keepers())
    daemon.kill()
    assert sorted(daemon.keepers()) == keepers
    daemon.start()
    assert sorted(daemon.keepers()) == keepers
    assert [run["state"] for run in daemon.api.get("/runs")["runs"]] == ["running"] * 2
    (daemon.folder / "gate").touch()
    for flight in flights:
        done = daemon.landed(flight)
        assert (done["outcome"], len(done["runs"])) == ("succeeded", 1)
        assert daemon.answer(done["runs"][0]["id"]) == "began\nended"
    assert len(starts(daemon)) == 2
    assert daemon.flight(queued["id"])["state"] == "queued"
    eventually(lambda: daemon.keepers() == [])


def test_a_run_that_ended_while_no_tower_lived_is_settled_as_it_ended(daemon: Daemon) -> None:
    gated(daemon)
    daemon.start()
    flight = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    daemon.kill()
    (daemon.folder / "gate").touch()
    eventually(lambda: daemon.keepers() == [])
    daemon.start()
    done = daemon.landed(flight["id"])
    assert (done["outcome"], len(done["runs"])) == ("succeeded", 1)
    assert starts(daemon) == [done["runs"][0]["id"]]


def test_a_killed_keeper_is_seen_its_tree_ended_and_the_work_recovered_with_a_handover(daemon: Daemon) -> None:
    """B084: the second run is told what the first was, why it goes on, and which attempt it is."""
    gated(daemon)
    daemon.start()
    flight = daemon.until(daemon.send("gated", "mind the gap")["id"], lambda one: one["state"] == "running")
    first = flight["runs"][0]
    eventually(lambda: starts(daemon) == [first["id"]])
    (keeper,) = daemon.keepers()
    os.kill(keeper, signal.SIGKILL)
    queued = daemon.until(flight["id"], lambda one: one["state"] == "queued")
    assert daemon.processes() == []
    assert queued["attempt"] == 2
    (daemon.folder / "gate").touch()
    daemon.kill()
    soon(daemon, flight["id"])
    daemon.start()
    done = daemon.landed(flight["id"])
    assert [(run["outcome"], run["attempt"], run["cause"]) for run in done["runs"]] == [
        ("interrupted", 1, "dispatch"),
        ("succeeded", 2, "recovery"),
    ]
    told = daemon.payload(done["runs"][1]["id"])
    assert first["id"] in told
    assert "attempt 2" in told
    assert "twice is worse than late" in told
    assert "began" in told
    assert told.rstrip().endswith("mind the gap")
    assert "interrupted" not in daemon.payload(first["id"])


def test_tower_and_keeper_killed_at_once_leave_nothing_alive_after_the_restart(daemon: Daemon) -> None:
    """B079: killed in mid-run, the flight is not lost."""
    gated(daemon)
    daemon.start()
    flight = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    eventually(lambda: len(starts(daemon)) == 1)
    (keeper,) = daemon.keepers()
    daemon.kill()
    os.kill(keeper, signal.SIGKILL)
    daemon.start()
    queued = daemon.until(flight["id"], lambda one: one["state"] == "queued")
    assert daemon.processes() == []
    assert queued["runs"][0]["outcome"] == "interrupted"
    assert queued["runs"][0]["interruption"] == "tower_restart"


@pytest.mark.parametrize(("policy", "state"), [("manual", "held"), ("never", "dead")])
def test_the_policy_decides_and_a_person_may_start_it_again(daemon: Daemon, policy: str, state: str) -> None:
    """B088: with `manual` nothing is repeated until a person says so."""
    gated(daemon, policy)
    daemon.start()
    flight = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    eventually(lambda: len(starts(daemon)) == 1)
    # The agent itself: killed by something else than the tower.
    os.kill(flight["runs"][0]["pid"], signal.SIGKILL)
    after = daemon.until(flight["id"], lambda one: one["state"] == state)
    run = after["runs"][0]
    assert (run["outcome"], run["interruption"], run["exit_signal"]) == ("interrupted", "crash", 9)
    if policy == "manual":
        assert after["held_reason"] == "recovery"
        assert daemon.api.get(f"/itineraries/{flight['itinerary']}")["state"] == "waiting"
    else:
        refused = daemon.tower("recover", run["id"])
        assert refused.returncode not in (0, 2)
        assert "--force" in refused.stderr
    (daemon.folder / "gate").touch()
    arguments = ["--note", "look twice"] + (["--force"] if policy == "never" else [])
    assert daemon.tower("recover", run["id"], *arguments).returncode == 0
    done = daemon.landed(flight["id"])
    assert done["outcome"] == "succeeded"
    assert "look twice" in daemon.payload(done["runs"][1]["id"])


def test_held_work_can_be_ended_by_the_id_of_its_run(daemon: Daemon) -> None:
    gated(daemon, "manual")
    daemon.start()
    flight = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    os.kill(flight["runs"][0]["pid"], signal.SIGKILL)
    daemon.until(flight["id"], lambda one: one["state"] == "held")
    assert daemon.tower("cancel", flight["runs"][0]["id"]).returncode == 0
    assert daemon.landed(flight["id"])["state"] == "cancelled"
    assert daemon.tower("cancel", flight["runs"][0]["id"]).returncode == 1
    assert daemon.tower("status").returncode == 0


def test_recoveries_run_out(daemon: Daemon) -> None:
    """B074: what has died is done again on a person's word alone, and nobody else is touched."""
    daemon.configure(
        """
[agents.doomed]
description = "Is killed each time"
runner = "cmd:test -e mended || kill -KILL $$"
prompt = "Go."
entry = true
max_recovery_attempts = 1
"""
    )
    daemon.start()
    flight = daemon.until(daemon.send("doomed")["id"], lambda one: one["state"] == "queued" and one["attempt"] == 2)
    daemon.kill()
    soon(daemon, flight["id"])
    daemon.start()
    dead = daemon.landed(flight["id"])
    assert (dead["state"], len(dead["runs"])) == ("dead", 2)
    assert "--force" in dead["reason"]
    assert daemon.api.get(f"/itineraries/{flight['itinerary']}")["state"] == "interrupted"
    (daemon.tree / "mended").touch()
    daemon.tower("recover", "--force", dead["runs"][-1]["id"], check=True)
    assert daemon.landed(flight["id"])["outcome"] == "succeeded"
    assert daemon.api.get(f"/itineraries/{flight['itinerary']}")["state"] == "finished"


def test_a_stop_ends_runs_as_interrupted_and_leave_leaves_them(daemon: Daemon) -> None:
    """B079: stopped in mid-run, the flight is not lost."""
    gated(daemon)
    daemon.start()
    flight = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    assert daemon.stop() == 0
    assert daemon.processes() == []
    assert daemon.keepers() == []
    daemon.start()
    assert daemon.flight(flight["id"])["attempt"] == 2
    assert daemon.tower("cancel", flight["id"]).returncode == 0
    assert daemon.landed(flight["id"])["state"] == "cancelled"
    daemon.stop()
    daemon.start(environ={"TOWER_LAYOVER__ON_STOP": "leave"})
    left = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    assert daemon.stop() == 0
    assert len(daemon.keepers()) == 1
    (daemon.folder / "gate").touch()
    daemon.start()
    assert daemon.landed(left["id"])["outcome"] == "succeeded"
    assert len(daemon.flight(left["id"])["runs"]) == 1


def test_a_ground_stop_halts_and_only_a_person_starts_what_it_ended(daemon: Daemon) -> None:
    gated(daemon)
    daemon.start()
    running = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    (daemon.state / "ground-stop").touch()
    halted = daemon.landed(running["id"])
    assert (halted["state"], halted["outcome"]) == ("halted", "halted")
    held = daemon.send("gated")
    assert (held["state"], held["held_reason"]) == ("held", "ground-stop")
    shown = daemon.tower("status")
    assert shown.returncode == 3
    assert "ground stop" in shown.stdout.lower()
    daemon.kill()
    daemon.start()
    assert daemon.api.get("/status")["ground_stop"] is not None
    assert daemon.flight(held["id"])["state"] == "held"
    (daemon.folder / "gate").touch()
    assert daemon.tower("ground-stop", "off").returncode == 0
    assert daemon.landed(held["id"])["outcome"] == "succeeded"
    assert daemon.flight(running["id"])["state"] == "halted"
    # What it ended does not disappear from sight.
    shown = daemon.tower("status")
    assert shown.returncode == 3
    assert "recover --all-halted" in shown.stdout
    assert daemon.tower("recover", running["runs"][0]["id"]).returncode == 0
    assert daemon.landed(running["id"])["outcome"] == "succeeded"


def test_a_ground_stop_made_while_no_tower_lived_ends_what_the_next_one_finds_alive(daemon: Daemon) -> None:
    gated(daemon)
    daemon.start()
    flight = daemon.until(daemon.send("gated")["id"], lambda one: one["state"] == "running")
    daemon.kill()
    (daemon.state / "ground-stop").touch()
    daemon.start()
    assert daemon.landed(flight["id"])["state"] == "halted"
    assert daemon.processes() == []


@pytest.mark.parametrize(
    "point",
    [
        "claim.before",
        "claim.after",
        "workspace.before",
        "workspace.after",
        "folder.after",
        "token.after",
        "keeper.before",
        "keeper.after",
        "keeper.recorded",
        "settle.before",
        "settle.after",
        "workspace.removed",
    ],
)
def test_a_tower_killed_at_any_step_loses_nothing_and_doubles_nothing(daemon: Daemon, point: str) -> None:
    (daemon.folder / "gate").touch()
    gated(daemon)
    daemon.start(environ={"TOWER_FAILPOINTS": f"{point}=kill"})
    flight = daemon.send("gated")["id"]
    assert daemon.process is not None
    assert daemon.process.wait(20) == -signal.SIGKILL
    daemon.start()
    state = daemon.until(flight, lambda one: one["state"] == "landed" or one["attempt"] == 2)
    if state["state"] != "landed":
        daemon.kill()
        soon(daemon, flight)
        daemon.start()
    done = daemon.landed(flight)
    assert done["outcome"] == "succeeded"
    began = starts(daemon)
    assert len(set(began)) == len(began)
    started = [run for run in done["runs"] if run["started_at"] is not None]
    assert set(began) <= {run["id"] for run in started}
    # Every start but the first came with a handover.
    assert [run["cause"] for run in started] == ["dispatch", *["recovery"] * (len(started) - 1)]
    eventually(lambda: daemon.keepers() == [] and daemon.processes() == [])
    eventually(lambda: not list((daemon.state / "snapshots").iterdir()))
    assert daemon.api.get("/status")["slots"]["used"] == 0


def test_a_tower_killed_before_the_commit_of_a_send_has_acknowledged_nothing(daemon: Daemon) -> None:
    gated(daemon)
    daemon.start(environ={"TOWER_FAILPOINTS": "send.before-commit=kill"})
    assert daemon.tower("send", "gated", "x").returncode == 69
    daemon.kill()
    daemon.start()
    assert daemon.api.get("/flights")["flights"] == []


def test_a_tower_killed_after_the_commit_of_a_send_keeps_the_flight(daemon: Daemon) -> None:
    """B082: the answer was lost, and the key makes asking again harmless."""
    (daemon.folder / "gate").touch()
    gated(daemon)
    daemon.start(environ={"TOWER_FAILPOINTS": "send.after-commit=kill"})
    assert daemon.tower("send", "gated", "x", "--key", "k").returncode == 69
    daemon.kill()
    daemon.start()
    again = daemon.tower("send", "gated", "x", "--key", "k", "--wait")
    assert again.returncode == 0
    assert len(daemon.api.get("/flights")["flights"]) == 1
    assert len(starts(daemon)) == 1


@pytest.mark.parametrize("kind", ["cmd", "fake"])
def test_what_a_run_hands_on_while_its_tower_is_away_arrives_once(daemon: Daemon, kind: str) -> None:
    script = daemon.folder / "script.toml"
    script.write_text("""
[[agents.sender.call]]
steps = [{ wait_for = { path = "gate", timeout = 20 } }, { send = { to = "other", body = "your turn" } }]
""")
    shell = "while [ ! -e gate ]; do sleep 0.02; done; tower send other 'your turn'"
    daemon.configure(
        f"""
[agents.sender]
description = "Sends when the gate opens"
runner = {json.dumps(f"fake:{script}" if kind == "fake" else f"cmd:{shell}")}
prompt = "Send."
entry = true
[agents.other]
description = "Is sent to"
runner = "cmd:true"
prompt = "Take it."
[[routes]]
from = "sender"
to = "other"
"""
    )
    daemon.start()
    flight = daemon.until(daemon.send("sender")["id"], lambda one: one["state"] == "running")
    daemon.kill()
    (daemon.tree / "gate").touch()
    (log,) = daemon.state.rglob("stderr.log")
    eventually(lambda: "away" in log.read_text())
    daemon.start()
    assert daemon.landed(flight["id"])["outcome"] == "succeeded"
    (sent,) = [one for one in daemon.api.get("/flights")["flights"] if one["to"] == "other"]
    assert daemon.landed(sent["id"])["outcome"] == "succeeded"


ESCAPES = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execve("/bin/sleep", ["sleep", "600"], {})
time.sleep(600)
"""


def test_with_a_control_group_nothing_escapes_though_tower_and_keeper_are_killed_at_once(daemon: Daemon) -> None:
    """Its environment and its session are shed, and the parent that would get it back is dead."""
    (daemon.folder / "escapes.py").write_text(ESCAPES)
    daemon.configure(
        f"""
[agents.flees]
description = "Leaves everything behind"
runner = "cmd:{sys.executable} {daemon.folder}/escapes.py"
prompt = "Go."
entry = true
recovery = "manual"
"""
    )

    def sleepers() -> list[int]:
        found = [pid for pid in cgroups.members(str(given)) if procfs.cmdline(pid) == ["sleep", "600"]]
        return found if len(found) == 2 else []

    with group() as given:
        os.setxattr(given, "trusted.delegate", b"1")
        daemon.start(cgroup=given)
        flight = daemon.send("flees")["id"]
        escaped = eventually(sleepers)
        run = daemon.last_run(flight)
        assert run["cgroup"] == str(given / f"tower-{run['id'].partition('_')[2]}")
        assert "in a control group of their own" in daemon.tower("show", run["id"]).stdout
        (keeper,) = daemon.keepers()
        os.kill(keeper, signal.SIGSTOP)
        daemon.kill()
        os.kill(keeper, signal.SIGKILL)
        daemon.start(cgroup=given)
        held = daemon.until(flight, lambda one: one["state"] == "held")
        assert held["held_reason"] == "recovery"
        assert [pid for pid in escaped if procfs.start_ticks(pid) and not procfs.is_zombie(pid)] == []
        assert [path.name for path in given.iterdir() if path.is_dir()] == []
        daemon.kill()
