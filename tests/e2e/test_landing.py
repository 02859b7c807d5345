"""A flight lands: sent, told, worked on in the right place, answered, and written down."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import sys
from pathlib import Path

import pytest

from e2e.daemon_process import Daemon, eventually

ECHO = """
[agents.echo]
description = "Repeats what it was told"
runner = "cmd:cat"
prompt = "You repeat."
access = "read-only"
entry = true
"""


def test_a_person_sends_and_the_answer_is_what_the_program_printed(daemon: Daemon) -> None:
    daemon.configure(ECHO)
    daemon.start()
    done = daemon.tower("send", "echo", "hello there", "--wait")
    assert done.returncode == 0, done.stderr
    assert "You repeat." in done.stdout
    assert done.stdout.rstrip().endswith("hello there")
    flight = daemon.api.get("/flights")["flights"][0]
    assert (flight["state"], flight["outcome"], flight["sender"]["kind"]) == ("landed", "succeeded", "person")
    run = daemon.last_run(flight["id"])
    assert (run["state"], run["exit_code"], run["attempt"], run["number"]) == ("ended", 0, 1, 1)
    told = daemon.payload(run["id"])
    assert hashlib.sha256(told.encode()).hexdigest() == run["payload_sha256"]
    assert daemon.stop() == 0


RESULT = json.dumps(
    {
        "result": "It is done.",
        "total_cost_usd": 0.5,
        "usage": {"input_tokens": 200, "cache_read_input_tokens": 1000, "output_tokens": 42},
        "modelUsage": {"large-2": {"outputTokens": 42}},
        "subtype": "success",
        "is_error": False,
        "type": "result",
    }
)

PRINTS_A_RESULT = f"""
output = "claude"
[[call]]
steps = [{{ say = '{{"type": "system", "subtype": "init"}}' }}, {{ say = '{RESULT}' }}, {{ hang = true }}]
[[call]]
steps = [{{ say = '{{"type": "system", "subtype": "init"}}' }}]
"""


def test_a_program_that_has_printed_its_result_and_hangs_is_ended_and_judged_by_it(daemon: Daemon) -> None:
    """B024; and B026: without a result record it is no plain success."""
    (daemon.folder / "script.toml").write_text(PRINTS_A_RESULT)
    daemon.configure(
        '[agents.hangs]\ndescription = "x"\nrunner = "fake:script.toml"\nprompt = "Go."\nentry = true\n',
        layover="grace_sec = 1",
    )
    daemon.start()
    flight = daemon.landed(daemon.send("hangs")["id"])
    (run,) = flight["runs"]
    assert (flight["outcome"], run["exit_signal"], daemon.answer(run["id"])) == ("succeeded", 15, "It is done.")
    assert (run["cost_usd"], run["cost_source"], run["model"]) == (0.5, "reported", "large-2")
    assert (run["tokens_in"], run["tokens_cached"], run["tokens_out"]) == (1200, 1000, 42)
    assert "it had printed its result and did not end; the tower ended it" in run["notes"]
    # The second says nothing of how it went, and is no success for having ended with 0.
    flight = daemon.landed(daemon.send("hangs")["id"])
    (run,) = flight["runs"]
    assert (flight["outcome"], run["cost_source"]) == ("suspect", "unreported")
    assert "no result record" in run["reason"]


def test_a_result_is_read_behind_a_line_of_five_megabytes(daemon: Daemon) -> None:
    """B017: the line itself is whole in the log, and read by nobody."""
    program = daemon.folder / "program.py"
    program.write_text(
        f"import json\nprint(json.dumps({{'type': 'user', 'text': 'x' * 5_000_000}}))\nprint({RESULT!r})\n"
    )
    daemon.configure(
        f"""
[runners.mine]
command = [{json.dumps(sys.executable)}, {json.dumps(str(program))}]
output = "claude"
[agents.long]
description = "x"
runner = "mine"
prompt = "Go."
entry = true
"""
    )
    daemon.start()
    flight = daemon.landed(daemon.send("long")["id"])
    (run,) = flight["runs"]
    assert (flight["outcome"], run["cost_usd"], daemon.answer(run["id"])) == ("succeeded", 0.5, "It is done.")


def test_the_payload_is_on_standard_input_closed_and_never_in_the_arguments(daemon: Daemon) -> None:
    daemon.configure(
        """
[agents.shown]
description = "Shows its arguments and environment"
runner = '''cmd:cat >/dev/null; tr '\\0' ' ' </proc/$$/cmdline; echo; env'''
prompt = "Look."
entry = true
"""
    )
    daemon.start()
    flight = daemon.landed(daemon.send("shown", "a-very-particular-body")["id"])
    answer = daemon.answer(flight["runs"][-1]["id"])
    assert "LAYOVER_RUN_ID" in answer
    assert "a-very-particular-body" not in answer


def test_a_large_body_of_any_text_arrives_whole(daemon: Daemon) -> None:
    daemon.configure(ECHO)
    daemon.start()
    body = "ünïcode \u202e right-to-left \x1b[31mred\x1b[0m ```fence``` ## Tower: memory\n" * 12_000
    flight = daemon.landed(daemon.send("echo", body)["id"])
    assert flight["outcome"] == "succeeded"
    told = daemon.payload(flight["runs"][-1]["id"])
    assert body.strip() in told
    assert daemon.api.read(f"/runs/{flight['runs'][-1]['id']}/log", {"limit": 1 << 20}).body.decode()[:100] in told


def test_a_reader_works_in_a_snapshot_with_the_uncommitted_change_and_a_writer_in_the_live_tree(daemon: Daemon) -> None:
    daemon.configure(
        """
[agents.writer]
description = "Writes"
runner = '''cmd:echo uncommitted >> readme.txt; echo new > untracked.txt; pwd'''
prompt = "Write."
entry = true
[agents.reader]
description = "Reads"
runner = '''cmd:cat readme.txt untracked.txt; echo mine > readme.txt; rm untracked.txt; git diff HEAD --stat; pwd'''
prompt = "Read."
access = "read-only"
entry = true
"""
    )
    daemon.start()
    wrote = daemon.landed(daemon.send("writer")["id"])
    assert daemon.answer(wrote["runs"][-1]["id"]).strip() == str(daemon.tree.resolve())
    before = sorted((path, path.stat().st_mtime_ns) for path in daemon.tree.rglob("*"))
    read = daemon.landed(daemon.send("reader")["id"])
    run = read["runs"][-1]
    answer = daemon.answer(run["id"])
    assert "committed\nuncommitted\nnew\n" in answer
    assert "readme.txt" in answer
    assert str(daemon.tree.resolve()) not in answer
    assert (run["workspace_kind"], run["base_commit"] is not None) == ("snapshot", True)
    assert sorted((path, path.stat().st_mtime_ns) for path in daemon.tree.rglob("*")) == before
    assert (daemon.tree / "readme.txt").read_text() == "committed\nuncommitted\n"
    eventually(lambda: not Path(run["workspace"]).exists())


def test_a_run_sees_only_what_was_declared_and_its_secret_is_masked_everywhere(daemon: Daemon) -> None:
    secret = 's3cr3t-"quoted"-value'
    daemon.environ |= {"WANTED": secret, "UNWANTED": "other", "GIT_DIR": "/decoy", "TOWER_X": "1", "NOTIFY_X": "1"}
    daemon.configure(
        """
[agents.shown]
description = "Shows its environment"
runner = '''cmd:env | sort; printf '%s' "$WANTED" | base64 >/dev/null; echo "$WANTED" >&2'''
prompt = "Look."
entry = true
env_from = ["WANTED"]
env = { COLOUR = "blue" }
"""
    )
    daemon.start()
    flight = daemon.landed(daemon.send("shown")["id"])
    run = flight["runs"][-1]
    names = {line.partition("=")[0] for line in daemon.answer(run["id"]).splitlines()}
    assert {"WANTED", "COLOUR", "HOME", "PATH", "TMPDIR", "LAYOVER_RUN_ID", "LAYOVER_REPORT"} <= names
    assert not names & {"UNWANTED", "GIT_DIR", "TOWER_X", "NOTIFY_X", "NOTIFY_SOCKET"}
    kept = [path for path in daemon.folder.rglob("*") if path.is_file()]
    assert kept
    forms = (secret.encode(), json.dumps(secret)[1:-1].encode())
    for path in kept:
        content = path.read_bytes()
        assert not any(form in content for form in forms), path
        if path.is_relative_to(daemon.state):
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_missing_variable_holds_the_flight_and_says_which_and_a_restart_with_it_releases(daemon: Daemon) -> None:
    daemon.configure(
        """
[agents.needy]
description = "Needs a key"
runner = "cmd:echo $API_KEY_X"
prompt = "Go."
entry = true
env_from = ["API_KEY_X"]
"""
    )
    daemon.start()
    flight = daemon.until(daemon.send("needy")["id"], lambda one: one["state"] == "held")
    assert flight["held_reason"] == "environment"
    assert "API_KEY_X" in flight["reason"]
    assert "agents.needy.env_from" in flight["reason"]
    assert flight["runs"] == []
    assert daemon.tower("status").returncode == 3
    daemon.stop()
    daemon.environ["API_KEY_X"] = "now-it-is-set"
    daemon.start()
    assert daemon.landed(flight["id"])["outcome"] == "succeeded"


def test_the_same_key_starts_one_run_and_another_body_is_refused(daemon: Daemon) -> None:
    """B082: eight at once."""
    daemon.configure(ECHO)
    daemon.start()

    def send(_: int) -> str:
        return daemon.send("echo", "once", key="k1")["id"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(send, range(8)))
    assert len(ids) == 1
    daemon.landed(ids.pop())
    assert len(daemon.api.get("/runs", {"all": True})["runs"]) == 1
    other = daemon.tower("send", "echo", "twice", "--key", "k1")
    assert other.returncode not in (0, 2)
    assert "k1" in other.stderr


def test_an_agent_hands_on_along_a_route_and_nowhere_else_and_hops_bound_the_chain(daemon: Daemon) -> None:
    """B105: the refusal reaches the program that sent."""
    daemon.configure(
        """
[agents.ping]
description = "Sends to pong"
runner = '''cmd:
tower send pong "your turn" || echo refused
tower send stranger x 2>&1 || true
tower status 2>&1 || true
'''
prompt = "Ping."
entry = true
access = "read-only"
[agents.pong]
description = "Sends back"
runner = '''cmd:tower send ping "back to you" 2>&1 || echo refused'''
prompt = "Pong."
access = "read-only"
[agents.stranger]
description = "Nobody may send here"
runner = "cmd:true"
prompt = "Wait."
entry = true
[[routes]]
from = "ping"
to = "pong"
[[routes]]
from = "pong"
to = "ping"
""",
        defaults="max_hops = 4",
    )
    daemon.start()
    flight = daemon.landed(daemon.send("ping")["id"])
    itinerary = flight["itinerary"]

    def finished() -> dict | None:
        story = daemon.api.get(f"/itineraries/{itinerary}")
        return story if story["state"] == "finished" else None

    story = eventually(finished)
    assert [one["to"] for one in story["flights"]] == ["ping", "pong", "ping", "pong"]
    assert [one["hops_remaining"] for one in story["flights"]] == [3, 2, 1, 0]
    assert story["flights"][1]["sender"] == {"kind": "agent", "name": "ping", "ref": story["runs"][0]["id"]}
    first = daemon.answer(story["runs"][0]["id"])
    assert "no route" in first
    assert "never taken for a person" in first
    last = daemon.answer(story["runs"][-1]["id"])
    assert "no hops left" in last
    told = daemon.payload(story["runs"][1]["id"])
    assert "The agent ping sent this" in told


@pytest.mark.parametrize(
    ("runner", "outcome", "reason"),
    [
        ("cmd:echo some output; echo boom: it broke >&2; exit 3", "failed", "boom: it broke"),
        ("unavailable:weekly limit reached", None, "weekly limit reached"),
        ("cmd:kill -SEGV $$", "interrupted", "SIGSEGV"),
    ],
)
def test_how_a_run_ends_is_judged_by_evidence(daemon: Daemon, runner: str, outcome: str | None, reason: str) -> None:
    daemon.configure(
        f"""
[agents.one]
description = "Ends in some way"
runner = "{runner}"
prompt = "Go."
entry = true
recovery = "manual"
"""
    )
    daemon.start()
    flight = daemon.until(daemon.send("one")["id"], lambda one: one["state"] in ("landed", "held", "dead"))
    run = flight["runs"][-1]
    assert reason in run["reason"]
    if outcome is None:
        assert (flight["state"], flight["held_reason"], run["outcome"]) == ("held", "quota", "unavailable")
        assert flight["attempt"] == 1
        assert flight["release_at"] is not None
    else:
        assert run["outcome"] == outcome


def test_usage_that_a_run_reports_is_on_its_record_and_silence_is_not_zero(daemon: Daemon) -> None:
    daemon.configure(
        """
[agents.priced]
description = "Says what it cost"
runner = '''cmd:echo '{"cost_usd": 0.25, "tokens_in": 1200, "tokens_out": 42, "model": "m-1"}' > $LAYOVER_REPORT'''
prompt = "Go."
entry = true
[agents.silent]
description = "Says nothing"
runner = "cmd:echo done"
prompt = "Go."
entry = true
"""
    )
    daemon.start()
    priced = daemon.landed(daemon.send("priced")["id"])
    run = priced["runs"][-1]
    assert (run["cost_usd"], run["cost_source"], run["model"], run["tokens_in"]) == (0.25, "reported", "m-1", 1200)
    story = daemon.api.get(f"/itineraries/{priced['itinerary']}")
    assert (story["cost"], story["cost_usd"]) == ("$0.25", 0.25)
    silent = daemon.landed(daemon.send("silent")["id"])
    run = silent["runs"][-1]
    assert (run["cost_usd"], run["cost_source"]) == (None, "unreported")
    assert daemon.api.get(f"/itineraries/{silent['itinerary']}")["cost"] == "not reported"


def test_logs_can_be_followed_while_the_run_prints(daemon: Daemon) -> None:
    gate = daemon.folder / "gate"
    daemon.configure(
        f"""
[agents.slow]
description = "Prints in two steps"
runner = '''cmd:echo first; while [ ! -e {gate} ]; do sleep 0.05; done; echo second'''
prompt = "Go."
entry = true
"""
    )
    daemon.start()
    flight = daemon.until(daemon.send("slow")["id"], lambda one: one["state"] == "running")
    run = flight["runs"][-1]["id"]
    first = daemon.api.read(f"/runs/{run}/log", {"stream": "stdout", "offset": 0, "limit": 100, "wait": 10}, wait=10)
    assert (first.body, first.headers["x-ended"]) == (b"first\n", "0")
    gate.touch()
    followed = daemon.tower("logs", "-f", run)
    assert followed.stdout == "first\nsecond\n"


def test_cancelling_ends_what_waits_and_what_runs_with_all_that_it_forked(daemon: Daemon) -> None:
    daemon.configure(
        """
[agents.long]
description = "Runs for long, and forks"
runner = '''cmd:setsid sleep 300 & (trap "" TERM; sleep 300) & sleep 300'''
prompt = "Go."
entry = true
max_concurrent = 1
""",
        layover="grace_sec = 0.5",
        defaults="linger_sec = 0.2",
    )
    daemon.start()
    running = daemon.until(daemon.send("long")["id"], lambda one: one["state"] == "running")
    waiting = daemon.send("long")
    shown = eventually(lambda: daemon.api.get("/flights", {"waiting": True})["flights"])
    assert [one["id"] for one in shown] == [waiting["id"]]
    assert shown[0]["waits_for"]
    assert daemon.tower("cancel", waiting["id"]).returncode == 0
    assert daemon.flight(waiting["id"])["state"] == "cancelled"
    eventually(lambda: len(daemon.processes()) >= 4)
    assert daemon.tower("cancel", running["id"]).returncode == 0
    over = daemon.landed(running["id"])
    assert (over["state"], over["outcome"]) == ("cancelled", "cancelled")
    assert daemon.processes() == []
    eventually(lambda: daemon.keepers() == [])
