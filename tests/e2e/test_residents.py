"""Residents: one process for many flights, through turns, failures, edits of the file, and kill -9."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from e2e.daemon_process import Daemon, eventually

PROGRAM = """
import json, os, subprocess, sys, time
base = os.environ["BASE"]
def note(name, text):
    with open(os.path.join(base, name), "a") as file:
        file.write(text + "\\n")
def say(value):
    print(json.dumps(value), flush=True)
note("pids", str(os.getpid()))
for line in sys.stdin:
    told = json.loads(line)
    note("turns", f"{os.getpid()} {told['turn']} {told['run']}")
    body = told["payload"].rstrip().rsplit("\\n", 1)[-1]
    verb, _, rest = body.partition(" ")
    result = {"type": "result", "turn": told["turn"], "answer": body, "ok": True, "cost_usd": 0.25, "tokens_in": 7}
    if verb == "payload":
        result["answer"] = told["payload"]
    elif verb == "gate":
        while not os.path.exists(os.path.join(base, rest)):
            time.sleep(0.02)
    elif verb == "die":
        os.kill(os.getpid(), 9)
    elif verb == "leave":
        sys.exit(0)
    elif verb == "fail":
        result |= {"ok": False, "error": "it does not compile"}
    elif verb == "hang":
        time.sleep(600)
    elif verb == "mute":
        os.close(1)
        time.sleep(600)
    elif verb == "nonsense":
        print("this is no JSON\\n[1, 2]\\n" + "x" * 5_000_000, flush=True)
        say({"type": "result", "turn": told["turn"] + 7, "answer": "of another turn"})
        say(result)
        say(result | {"answer": "twice"})
        continue
    elif verb == "flood":
        for _ in range(40):
            print("y" * 500_000, flush=True)
    elif verb == "session":
        say({"type": "session", "id": "talk-17"})
        result["answer"] = str(told.get("session")) + " " + os.environ["LAYOVER_SESSION"] + " " + str(sys.argv[1:])
    elif verb == "tree":
        result["answer"] = json.dumps([os.getcwd(), sorted(os.listdir("."))])
    elif verb == "write":
        with open(rest, "a") as file:
            file.write("by the resident")
        while not os.path.exists(os.path.join(base, "written")):
            time.sleep(0.02)
    elif verb == "send":
        argv = [sys.executable, "-m", "tower", "send", "other", "by the way"]
        done = subprocess.run(argv, capture_output=True, text=True)
        result["answer"] = f"{done.returncode} {done.stderr}"
    elif verb == "late":
        wait = f"cd {base}; until [ -e over ]; do sleep 0.02; done; "
        later = f"{sys.executable} -m tower send other late > late 2>&1; echo $? >> late; touch late-done"
        subprocess.Popen(["sh", "-c", wait + later])
    say(result)
"""

AGENT = """
[runners.mine]
command = [{python}, {program}, "--session", "{{session}}"]
protocol = "jsonl"
[agents.res]
description = "Stays"
runner = "mine"
prompt = "{prompt}"
entry = true
resident = true
env = {{ BASE = {base}, PYTHONPATH = {path} }}
{more}
[agents.other]
description = "Another"
runner = "cmd:cat"
prompt = "Go."
access = "read-only"
entry = true
[[routes]]
from = "res"
to = "other"
"""


class Stay:
    """A factory with one resident, whose program does what the last line of a payload says."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.base = daemon.folder / "base"
        self.base.mkdir()
        self.program = daemon.folder / "program.py"
        self.program.write_text(PROGRAM)

    def configure(self, more: str = "", *, prompt: str = "Stay.", without: bool = False, defaults: str = "") -> None:
        text = AGENT.format(
            python=json.dumps(sys.executable),
            program=json.dumps(str(self.program)),
            base=json.dumps(str(self.base)),
            path=json.dumps(str(Path(__file__).parents[2])),
            prompt=prompt,
            more=more,
        )
        if without:
            text = '[agents.other]\ndescription = "x"\nrunner = "cmd:cat"\nprompt = "Go."\nentry = true\n'
        self.daemon.configure(text, layover="grace_sec = 2", defaults=f"linger_sec = 0.2\n{defaults}")

    def start(self, more: str = "", **changes: Any) -> None:
        self.configure(more, **changes)
        self.daemon.start()
        self.ready()

    def reconfigure(self, more: str) -> None:
        """Change what the agent says beside the rest, and have it heard."""
        self.configure(more)
        self.daemon.tower("reload", check=True)

    def seen(self) -> dict[str, Any]:
        found = [one for one in self.daemon.api.get("/status")["residents"] if one["agent"] == "res"]
        return found[0] if found else {"state": None, "process": None}

    def until(self, state: str, *, other_than: str | None = None) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.seen()
            return found if found["state"] == state and (other_than is None or found["process"] != other_than) else None

        return eventually(look)

    def ready(self, *, other_than: str | None = None) -> dict[str, Any]:
        return self.until("ready", other_than=other_than)

    def turn(self, body: str) -> dict[str, Any]:
        """Send and wait; the run, with its answer."""
        flight = self.daemon.landed(self.daemon.send("res", body)["id"])
        return self.read(flight)

    def read(self, flight: dict[str, Any]) -> dict[str, Any]:
        run: dict[str, Any] = flight["runs"][-1]
        path = self.daemon.state / "hangars" / "res" / run["id"] / "answer.txt"
        return run | {"answer": path.read_text() if path.exists() else None}

    def lines(self, name: str) -> list[str]:
        path = self.base / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def events(self, type_: str) -> int:
        with sqlite3.connect(self.daemon.state / "tower.db") as connection:
            (count,) = connection.execute("SELECT count(*) FROM events WHERE type = ?", (type_,)).fetchone()
        connection.close()
        return int(count)

    def soon(self, flight: str) -> None:
        """Skip the pause before a recovery."""
        with sqlite3.connect(self.daemon.state / "tower.db", timeout=5) as connection:
            connection.execute("UPDATE flights SET not_before = 0 WHERE id = ?", (flight,))
        connection.close()
        self.daemon.tower("resume", check=True)
        self.daemon.send("other", "wakes the dispatcher")

    def alive(self) -> list[int]:
        return [
            pid
            for pid in map(int, self.lines("pids"))
            if Path(f"/proc/{pid}/cmdline").exists() and b"program.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]


@pytest.fixture
def stay(daemon: Daemon) -> Stay:
    return Stay(daemon)


def test_each_flight_is_a_turn_of_one_process_with_a_record_of_its_own(stay: Stay) -> None:
    stay.start()
    first, second = stay.turn("one"), stay.turn("two")
    assert [first["answer"], second["answer"]] == ["one", "two"]
    assert len(stay.lines("pids")) == 1
    assert first["process"] == second["process"] == stay.seen()["process"]
    assert (first["turn"], second["turn"]) == (1, 2)
    assert (first["cost_usd"], first["tokens_in"], first["cost_source"]) == (0.25, 7, "reported")
    assert first["out_from"] < first["out_to"] <= second["out_from"] < second["out_to"]
    page = stay.daemon.api.read(f"/runs/{second['id']}/log").body
    assert json.loads(page)["answer"] == "two"
    shown = stay.daemon.tower("show", second["id"])
    assert second["process"] in shown.stdout
    assert "resident\tres\tready\t2" in stay.daemon.tower("status").stdout


def test_flights_queue_for_it_and_are_told_one_at_a_time(stay: Stay) -> None:
    stay.start()
    flights = [stay.daemon.send("res", "gate open")["id"] for _ in range(3)]
    stay.daemon.until(flights[0], lambda one: one["state"] == "running")
    waiting = stay.daemon.api.get("/flights", {"waiting": True})["flights"]
    assert [one["id"] for one in waiting] == flights[1:]
    assert all("one at a time" in one["waits_for"] for one in waiting)
    assert stay.until("busy")["run"] is not None
    eventually(lambda: stay.lines("turns"))
    assert len(stay.lines("turns")) == 1
    (stay.base / "open").touch()
    runs = [stay.daemon.landed(flight)["runs"][0] for flight in flights]
    assert [run["turn"] for run in runs] == [1, 2, 3]
    assert all(before["ended_at"] <= after["started_at"] for before, after in pairwise(runs))


def test_the_first_turn_carries_everything_and_later_ones_what_is_new(stay: Stay) -> None:
    stay.start()
    memory = stay.daemon.state / "hangars" / "res" / "memory.md"
    memory.write_text("the cat is grey\n")
    first, second = stay.turn("payload"), stay.turn("payload")
    assert "Stay." in first["answer"]
    assert "the cat is grey" in first["answer"]
    assert "- other:" in first["answer"]
    assert "new process" not in first["answer"]
    assert not any(word in second["answer"] for word in ("Stay.", "grey", "- other:"))
    assert "who sent this" in second["answer"]
    memory.write_text("the cat is black\n")
    third = stay.turn("payload")
    assert "the cat is black" in third["answer"]
    assert "Stay." not in third["answer"]


def test_it_speaks_for_its_turn_and_for_nothing_between_turns(stay: Stay) -> None:
    stay.start()
    sent = stay.turn("send")
    assert sent["answer"].startswith("0 "), sent["answer"]
    flights = stay.daemon.api.get("/flights", {"agent": "other"})["flights"]
    assert [one["sender"]["ref"] for one in flights] == [sent["id"]]
    stay.turn("late")
    stay.ready()
    (stay.base / "over").touch()
    eventually(lambda: (stay.base / "late-done").exists())
    said = (stay.base / "late").read_text()
    assert "no turn of res's process is under way" in said
    assert said.rstrip().endswith("77")


def test_what_a_program_says_beside_the_protocol_harms_nothing(stay: Stay) -> None:
    stay.start()
    odd = stay.turn("nonsense")
    assert (odd["outcome"], odd["answer"]) == ("succeeded", "nonsense")
    notes = "\n".join(odd["notes"])
    for words in ("no JSON", "no object", "longer than", "another turn"):
        assert words in notes
    flood = stay.turn("flood")
    assert (flood["outcome"], flood["answer"]) == ("succeeded", "flood")
    failed = stay.turn("fail")
    assert (failed["outcome"], failed["reason"]) == ("failed", "it does not compile")
    assert stay.turn("still here")["answer"] == "still here"
    assert len(stay.lines("pids")) == 1


@pytest.mark.parametrize("body", ["die", "leave", "mute"])
def test_a_program_that_goes_in_mid_turn_is_replaced_and_the_policy_decides(stay: Stay, body: str) -> None:
    stay.start('recovery = "manual"')
    before = stay.seen()["process"]
    flight = stay.daemon.send("res", body)["id"]
    held = stay.daemon.until(flight, lambda one: one["state"] == "held")
    run = held["runs"][0]
    assert (held["held_reason"], run["outcome"], run["interruption"]) == ("recovery", "interrupted", "crash")
    stay.ready(other_than=before)
    assert stay.turn("again")["answer"] == "again"
    assert len(stay.alive()) == 1


def test_a_turn_past_its_limit_costs_the_process_and_is_recovered_with_a_handover(stay: Stay) -> None:
    policy = 'recovery = "manual"\nrecover_on = ["timeout"]'
    stay.start(policy)
    assert stay.turn("fine")["answer"] == "fine"
    before = stay.seen()["process"]
    # The limit is one for this turn alone: a program that is slow to start is not to meet it.
    stay.reconfigure(f"{policy}\ntimeout_sec = 1")
    flight = stay.daemon.send("res", "gate open")["id"]
    held = stay.daemon.until(flight, lambda one: one["state"] == "held")
    (run,) = held["runs"]
    assert (held["held_reason"], run["outcome"], run["process"]) == ("recovery", "timed_out", before)
    stay.reconfigure(policy)
    told = stay.turn("payload")["answer"]
    for words in (
        "this is the first for a new process",
        "its turn ran for longer than timeout_sec",
        "timed_out",
        "fine",
    ):
        assert words in told
    (stay.base / "open").touch()
    stay.daemon.tower("recover", run["id"], check=True)
    again = stay.daemon.landed(flight)
    assert (again["outcome"], again["runs"][-1]["process"]) == ("succeeded", stay.seen()["process"])
    note = stay.daemon.payload(again["runs"][-1]["id"])
    assert f"Run {run['id']} did not finish: it ran longer than it may" in note
    assert "this is the first for a new process" not in note
    assert len(stay.lines("pids")) == 2


def test_a_cancelled_turn_ends_its_process_and_is_no_failure(stay: Stay) -> None:
    stay.start()
    before = stay.seen()["process"]
    flight = stay.daemon.until(stay.daemon.send("res", "gate no")["id"], lambda one: one["state"] == "running")
    assert stay.daemon.tower("cancel", flight["runs"][0]["id"]).returncode == 0
    done = stay.daemon.landed(flight["id"])
    assert (done["state"], done["runs"][0]["outcome"]) == ("cancelled", "cancelled")
    stay.ready(other_than=before)
    assert stay.turn("on")["answer"] == "on"


def test_five_exits_are_too_many_until_a_person_says_so(stay: Stay) -> None:
    stay.program.write_text("import sys; sys.exit(3)")
    stay.configure()
    stay.daemon.start()
    with sqlite3.connect(stay.daemon.state / "tower.db") as connection:
        eventually(lambda: connection.execute("SELECT count(*) FROM processes WHERE exited = 1").fetchone()[0] >= 2)
        assert stay.until("backoff")["until"] is not None
        # What is left of the waiting is skipped: earlier exits are put beside the real ones.
        connection.execute(
            "INSERT INTO processes (id, agent, folder, created_at, ended_at, kind, turns, exited)"
            " SELECT 'prc_' || value, 'res', '/', 0, (SELECT max(ended_at) FROM processes), 'resident', 0, 1"
            " FROM json_each('[1, 2]')"
        )
    connection.close()
    stay.daemon.kill()
    stay.daemon.start()
    given_up = stay.until("quarantined")
    assert "exit code 3" in given_up["why"]
    assert stay.events("resident.quarantined") == 1
    flight = stay.daemon.send("res", "hello")["id"]
    assert "tower agents restart res" in eventually(lambda: stay.daemon.flight(flight).get("waits_for"))
    assert stay.daemon.tower("status").returncode == 3
    stay.daemon.kill()
    stay.daemon.start()
    assert stay.seen()["state"] == "quarantined"
    stay.program.write_text(PROGRAM)
    assert stay.daemon.tower("agents", "restart", "res").returncode == 0
    assert stay.read(stay.daemon.landed(flight))["answer"] == "hello"
    assert stay.daemon.tower("status").returncode == 0


def test_restart_replaces_it_after_its_turn_and_others_cannot_be_restarted(stay: Stay) -> None:
    stay.start()
    before = stay.seen()["process"]
    flight = stay.daemon.until(stay.daemon.send("res", "gate open")["id"], lambda one: one["state"] == "running")
    assert stay.daemon.tower("agents", "restart", "res").returncode == 0
    assert stay.seen()["process"] == before
    (stay.base / "open").touch()
    assert stay.daemon.landed(flight["id"])["outcome"] == "succeeded"
    stay.ready(other_than=before)
    refused = stay.daemon.tower("agents", "restart", "other")
    assert refused.returncode != 0
    assert "is not kept alive" in refused.stderr


def test_a_paused_agent_takes_no_flight_until_it_is_resumed_whatever_restarts(stay: Stay) -> None:
    stay.start()
    assert stay.daemon.tower("agents", "pause", "res").returncode == 0
    flight = stay.daemon.send("res", "later")["id"]
    assert "paused by" in eventually(lambda: stay.daemon.flight(flight).get("waits_for"))
    stay.daemon.kill()
    stay.daemon.start()
    stay.ready()
    assert stay.daemon.flight(flight)["state"] == "queued"
    assert "paused\tres" in stay.daemon.tower("status").stdout
    assert stay.daemon.tower("agents", "resume", "res").returncode == 0
    assert stay.read(stay.daemon.landed(flight))["answer"] == "later"


def test_a_process_is_replaced_after_its_turns_and_ended_when_nothing_comes(stay: Stay) -> None:
    stay.start("max_turns = 2")
    processes = [stay.turn(f"turn {number}")["process"] for number in range(3)]
    assert processes[0] == processes[1] != processes[2]
    # Only now, so that no pause between the turns above can be too long.
    stay.reconfigure("max_turns = 2\nmax_idle_sec = 0.7")
    idle = stay.until("stopped")
    assert "max_idle_sec" in idle["why"]
    assert stay.alive() == []
    assert stay.turn("welcome back")["answer"] == "welcome back"
    with sqlite3.connect(stay.daemon.state / "tower.db") as connection:
        assert connection.execute("SELECT sum(exited) FROM processes").fetchone() == (0,)
    connection.close()


def test_its_session_is_kept_and_offered_to_the_next_process(stay: Stay) -> None:
    stay.start("max_turns = 1")
    assert stay.turn("session")["answer"] == "None  []"
    stay.ready()
    assert stay.turn("session")["answer"] == "talk-17 talk-17 ['--session', 'talk-17']"


def test_a_conversation_that_cannot_be_resumed_is_given_up_once(stay: Stay) -> None:
    """B085: the program ends when it is offered what it does not know any more."""
    stay.start("max_turns = 1")
    stay.turn("session")
    stay.ready()
    stay.program.write_text("import sys\nif sys.argv[-1] == 'talk-17':\n sys.exit('no such session')\n" + PROGRAM)
    # Ended before it had a turn, as somebody wanted: what it was offered is offered once more, this time in vain.
    assert stay.daemon.tower("agents", "restart", "res").returncode == 0
    assert stay.turn("session")["answer"] == "None  []"
    with sqlite3.connect(stay.daemon.state / "tower.db") as connection:
        ((why,),) = connection.execute("SELECT reason FROM processes WHERE exited = 1").fetchall()
    connection.close()
    assert "no such session; it was to resume talk-17, and the next one begins anew" in why
    # What that one called its conversation is offered again.
    stay.program.write_text(PROGRAM)
    stay.ready()
    assert stay.turn("session")["answer"].startswith("talk-17")


def test_a_changed_agent_gets_a_new_process_after_its_turn_and_an_unchanged_one_keeps_it(stay: Stay) -> None:
    stay.start()
    before = stay.seen()["process"]
    flight = stay.daemon.until(stay.daemon.send("res", "gate open")["id"], lambda one: one["state"] == "running")
    stay.configure("timeout_sec = 100")
    stay.daemon.tower("reload", check=True)
    stay.configure("timeout_sec = 100", prompt="Stay, and be brief.")
    stay.daemon.tower("reload", check=True)
    assert stay.seen()["process"] == before
    (stay.base / "open").touch()
    done = stay.daemon.landed(flight["id"])
    assert (done["outcome"], done["runs"][0]["process"]) == ("succeeded", before)
    after = stay.ready(other_than=before)
    assert "be brief" in stay.turn("payload")["answer"]
    stay.configure("timeout_sec = 200\nmax_pending = 5", prompt="Stay, and be brief.")
    stay.daemon.tower("reload", check=True)
    assert stay.turn("same")["process"] == after["process"]
    assert len(stay.lines("pids")) == 2


def test_a_removed_agent_finishes_its_turn_and_its_process_ends(stay: Stay) -> None:
    stay.start()
    flight = stay.daemon.until(stay.daemon.send("res", "gate open")["id"], lambda one: one["state"] == "running")
    stay.configure(without=True)
    stay.daemon.tower("reload", check=True)
    assert len(stay.alive()) == 1
    (stay.base / "open").touch()
    assert stay.daemon.landed(flight["id"])["outcome"] == "succeeded"
    eventually(lambda: stay.seen()["state"] is None)
    assert stay.alive() == []
    eventually(lambda: stay.daemon.keepers() == [])
    stay.configure()
    stay.daemon.tower("reload", check=True)
    assert stay.turn("back")["answer"] == "back"


def test_a_killed_tower_leaves_it_and_the_next_one_goes_on_with_the_same_process(stay: Stay) -> None:
    stay.start()
    before = stay.turn("one")
    stay.daemon.kill()
    stay.daemon.start()
    after = stay.turn("two")
    assert (after["process"], after["turn"]) == (before["process"], 2)
    assert len(stay.lines("pids")) == len(stay.alive()) == 1


def test_a_turn_goes_on_through_a_kill_and_is_settled_by_the_next_tower(stay: Stay) -> None:
    stay.start()
    stay.turn("one")
    flight = stay.daemon.until(stay.daemon.send("res", "gate open")["id"], lambda one: one["state"] == "running")
    queued = stay.daemon.send("res", "after it")["id"]
    eventually(lambda: len(stay.lines("turns")) == 2)
    stay.daemon.kill()
    stay.daemon.start()
    assert stay.until("busy")["run"] == flight["runs"][0]["id"]
    (stay.base / "open").touch()
    done = stay.daemon.landed(flight["id"])
    assert (done["outcome"], len(done["runs"])) == ("succeeded", 1)
    assert stay.read(done)["answer"] == "gate open"
    assert stay.read(stay.daemon.landed(queued))["answer"] == "after it"
    assert len(stay.lines("pids")) == 1
    assert len(stay.lines("turns")) == 3


def test_a_turn_that_ended_while_no_tower_lived_is_read_from_the_log(stay: Stay) -> None:
    stay.start()
    flight = stay.daemon.send("res", "gate open")["id"]
    eventually(lambda: len(stay.lines("turns")) == 1)
    stay.daemon.kill()
    (stay.base / "open").touch()
    log = stay.daemon.state / "hangars" / "res"
    eventually(lambda: any(b'"result"' in path.read_bytes() for path in log.glob("prc_*/stdout.log")))
    stay.daemon.start()
    done = stay.daemon.landed(flight)
    assert (done["outcome"], len(done["runs"]), stay.read(done)["answer"]) == ("succeeded", 1, "gate open")
    assert stay.turn("next")["answer"] == "next"
    assert len(stay.lines("pids")) == 1


@pytest.mark.parametrize("answers", [True, False], ids=["after its answer", "before its answer"])
def test_tower_keeper_and_program_killed_in_mid_turn(stay: Stay, answers: bool) -> None:
    stay.start('recovery = "manual"')
    flight = stay.daemon.send("res", "gate open")["id"]
    eventually(lambda: len(stay.lines("turns")) == 1)
    (keeper,) = stay.daemon.keepers()
    stay.daemon.kill()
    if answers:
        (stay.base / "open").touch()
        log = stay.daemon.state / "hangars" / "res"
        eventually(lambda: any(b'"result"' in path.read_bytes() for path in log.glob("prc_*/stdout.log")))
    os.kill(keeper, signal.SIGKILL)
    stay.daemon.start()
    done = stay.daemon.until(flight, lambda one: one["state"] in ("landed", "held"))
    if answers:
        assert (done["outcome"], stay.read(done)["answer"]) == ("succeeded", "gate open")
    else:
        assert (done["held_reason"], done["runs"][0]["outcome"]) == ("recovery", "interrupted")
    stay.ready()
    eventually(lambda: len(stay.alive()) == 1)


@pytest.mark.parametrize(
    "place",
    ["claim.after", "turn.before", "turn.written", "turn.recorded", "turn.told", "settle.before", "settle.after"],
)
def test_wherever_the_tower_is_killed_a_flight_is_told_once(stay: Stay, place: str) -> None:
    stay.configure()
    stay.daemon.start(environ={"TOWER_FAILPOINTS": f"{place}=kill"})
    stay.ready()
    flight = stay.daemon.send("res", "only once")["id"]
    assert stay.daemon.process is not None
    stay.daemon.process.wait(20)
    stay.daemon.start()
    done = stay.daemon.landed(flight)
    assert done["outcome"] == "succeeded"
    assert stay.read(done)["answer"] == "only once"
    assert len(stay.lines("turns")) == 1
    assert len(stay.alive()) == 1


@pytest.mark.parametrize("place", ["keeper.start-before", "keeper.start-after", "keeper.forked", "keeper.turn-taken"])
def test_a_keeper_that_is_killed_leaves_no_second_process(stay: Stay, place: str) -> None:
    stay.configure('recovery = "automatic"')
    stay.daemon.start(environ={"TOWER_FAILPOINTS": f"{place}=kill"})
    flight = stay.daemon.send("res", "through")["id"]
    eventually(lambda: stay.events("resident.ended") >= 1)
    stay.daemon.kill()
    stay.daemon.start()
    stay.ready()
    if place == "keeper.turn-taken":
        assert stay.daemon.flight(flight)["attempt"] == 2
        stay.soon(flight)
    assert stay.read(stay.daemon.landed(flight))["answer"] == "through"
    assert len(stay.alive()) == 1


def test_a_read_only_resident_sees_the_tree_as_it_is_at_each_turn_under_one_path(stay: Stay) -> None:
    stay.start('access = "read-only"')
    first = json.loads(stay.turn("tree")["answer"])
    assert first[1] == [".git", "readme.txt"]
    (stay.daemon.tree / "new.txt").write_text("uncommitted\n")
    (stay.daemon.tree / "readme.txt").unlink()
    second = json.loads(stay.turn("tree")["answer"])
    assert second == [first[0], [".git", "new.txt"]]
    assert first[0] != str(stay.daemon.tree)
    Path(first[0], "scratch").write_text("of the agent\n")
    assert json.loads(stay.turn("tree")["answer"]) == second
    assert not (stay.daemon.tree / "scratch").exists()


def test_a_read_only_resident_that_writes_to_the_live_tree_is_found_out_through_a_kill(stay: Stay) -> None:
    stay.start('access = "read-only"')
    assert not any("changed while" in note for note in stay.turn("tree")["notes"])
    live = stay.daemon.tree / "readme.txt"
    flight = stay.daemon.send("res", f"write {live}")["id"]
    eventually(lambda: "by the resident" in live.read_text())
    stay.daemon.kill()
    (stay.base / "written").touch()
    stay.daemon.start()
    assert any("changed while this run worked" in note for note in stay.read(stay.daemon.landed(flight))["notes"])


def test_a_ground_stop_ends_its_turn_and_its_process_until_it_is_released(stay: Stay) -> None:
    stay.start()
    flight = stay.daemon.until(stay.daemon.send("res", "gate no")["id"], lambda one: one["state"] == "running")
    stay.daemon.tower("ground-stop", "on", "why not", check=True)
    halted = stay.daemon.until(flight["id"], lambda one: one["state"] == "halted")
    assert halted["runs"][0]["outcome"] == "halted"
    stay.until("stopped")
    assert stay.alive() == []
    stay.daemon.tower("ground-stop", "off", check=True)
    stay.ready()
    assert stay.turn("go on")["answer"] == "go on"


def test_a_stop_ends_it_and_the_next_tower_starts_it_anew(stay: Stay) -> None:
    stay.start()
    flight = stay.daemon.until(stay.daemon.send("res", "gate no")["id"], lambda one: one["state"] == "running")
    assert stay.daemon.stop() == 0
    assert (stay.alive(), stay.daemon.keepers()) == ([], [])
    stay.daemon.start()
    stay.ready()
    again = stay.daemon.flight(flight["id"])
    assert (again["state"], again["attempt"], again["runs"][0]["outcome"]) == ("queued", 2, "interrupted")
    with sqlite3.connect(stay.daemon.state / "tower.db") as connection:
        assert connection.execute("SELECT sum(exited) FROM processes").fetchone() == (0,)
    connection.close()


def test_it_keeps_a_slot_whether_or_not_it_is_alive(stay: Stay) -> None:
    gate = stay.base / "slots"
    stay.program.write_text("import sys; sys.exit(3)")
    slow = f"""
[agents.slow]
description = "Waits"
runner = '''cmd:while [ ! -e {gate} ]; do sleep 0.05; done'''
prompt = "Go."
access = "read-only"
entry = true
"""
    stay.configure(defaults="max_concurrent_runs = 2")
    stay.daemon.config.write_text(stay.daemon.config.read_text() + slow)
    stay.daemon.start()
    one, two = (stay.daemon.send("slow")["id"] for _ in range(2))
    stay.daemon.until(one, lambda flight: flight["state"] == "running")
    waits = eventually(lambda: stay.daemon.flight(two).get("waits_for"))
    assert "kept for residents" in waits
    gate.touch()
    assert stay.daemon.landed(two)["outcome"] == "succeeded"


def test_the_writer_s_seat_is_taken_for_the_turn_alone(stay: Stay) -> None:
    writer = '[agents.writer]\ndescription = "w"\nrunner = "cmd:cat"\nprompt = "Go."\nentry = true\n'
    stay.configure()
    stay.daemon.config.write_text(stay.daemon.config.read_text() + writer)
    stay.daemon.start()
    stay.ready()
    assert stay.daemon.landed(stay.daemon.send("writer")["id"])["outcome"] == "succeeded"
    busy = stay.daemon.until(stay.daemon.send("res", "gate open")["id"], lambda one: one["state"] == "running")
    waiting = stay.daemon.send("writer")["id"]
    assert "one writer at a time" in eventually(lambda: stay.daemon.flight(waiting).get("waits_for"))
    (stay.base / "open").touch()
    assert stay.daemon.landed(busy["id"])["outcome"] == "succeeded"
    assert stay.daemon.landed(waiting)["outcome"] == "succeeded"


def test_the_program_in_the_documentation_is_a_resident(daemon: Daemon) -> None:
    text = (Path(__file__).parents[2] / "docs" / "residents.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(program.splitlines()) <= 10
    (configuration,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    path = daemon.folder / "shout.py"
    path.write_text(program)
    daemon.configure(configuration.replace('"shout.py"', json.dumps(str(path))).replace("python3", sys.executable))
    daemon.start()
    answers = []
    for body in ("hello", "once more"):
        flight = daemon.landed(daemon.send("shouter", body)["id"])
        assert flight["outcome"] == "succeeded", flight["reason"]
        answers.append(daemon.answer(flight["runs"][0]["id"]))
    assert answers == ["HELLO (turn 1)", "ONCE MORE (turn 2)"]


def test_a_scripted_agent_can_be_a_resident(daemon: Daemon) -> None:
    (daemon.folder / "script.toml").write_text(
        """
[[call]]
steps = [{ say = "one" }, { echo = "call" }, { report = { cost_usd = 0.5, tokens_in = 10 } }]
[[call]]
steps = [{ raw = "no JSON" }, { echo = "stdin" }, { send = { to = "rehearsed", body = "again" } }]
[[call]]
steps = [{ exit = 0 }]
"""
    )
    daemon.configure(
        """
[agents.rehearsed]
description = "Follows a script"
runner = "fake:script.toml"
prompt = "Go."
entry = true
resident = true
recovery = "never"
"""
    )
    daemon.start()
    first = daemon.landed(daemon.send("rehearsed")["id"])
    assert daemon.answer(first["runs"][0]["id"]) == "one\n1"
    assert (first["runs"][0]["cost_usd"], first["runs"][0]["tokens_in"]) == (0.5, 10)
    second = daemon.landed(daemon.send("rehearsed", "what now")["id"])
    answer = daemon.answer(second["runs"][0]["id"])
    assert "what now" in answer
    assert "not sent to rehearsed" in answer
    assert "a line was no JSON" in second["runs"][0]["notes"]
    assert daemon.landed(daemon.send("rehearsed")["id"])["state"] == "dead"


def test_a_start_that_an_earlier_tower_left_half_done_never_makes_a_second_process(stay: Stay) -> None:
    stay.configure()
    daemon = stay.daemon
    daemon.start(environ={"TOWER_FAILPOINTS": "keeper.start-before=stop"})
    (slow,) = eventually(daemon.keepers)
    eventually(lambda: procfs_state(slow) == "T")
    daemon.kill()
    daemon.start()
    stay.ready()
    os.kill(slow, signal.SIGCONT)
    eventually(lambda: slow not in daemon.keepers())
    assert stay.turn("alone")["answer"] == "alone"
    assert len(stay.lines("pids")) == 1


def test_a_keeper_that_does_not_answer_is_waited_for(stay: Stay) -> None:
    stay.start()
    before = stay.turn("one")["process"]
    (keeper,) = stay.daemon.keepers()
    os.kill(keeper, signal.SIGSTOP)
    try:
        stay.daemon.kill()
        stay.daemon.start()
        flight = stay.daemon.send("res", "two")["id"]
        assert stay.until("starting")["process"] == before
        assert "is being started" in eventually(lambda: stay.daemon.flight(flight).get("waits_for"))
    finally:
        os.kill(keeper, signal.SIGCONT)
    done = stay.daemon.landed(flight)
    assert (stay.read(done)["answer"], done["runs"][0]["process"]) == ("two", before)
    assert len(stay.lines("pids")) == 1


def procfs_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
