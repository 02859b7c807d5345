"""The smaller verbs: what each asks of the tower, and what it says of the answer."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from client.fake_tower import FakeTower, Request, raw, reply

from tower import daemon
from tower.cli import exits
from tower.core.errors import BusyError, InvalidError, TowerError

from .conftest import TOWER, Cli
from .documents import FLT, ITN, RUN, ended, finding, flight, held, itinerary, landed, run, status

LOG = f"GET /runs/{RUN}/log"
STORY = f"GET /itineraries/{ITN}"


def log(data: bytes, *, offset: int = 0, ended: str = "1") -> bytes:
    headers = {"X_Offset": str(offset), "X_Next_Offset": str(offset + len(data)), "X_Ended": ended}
    return raw(200, data, "application/octet-stream", **headers)


def test_status_is_0_when_well_and_3_when_not(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /status"] = reply(status())
    assert cli("status").code == exits.DONE
    fake.routes["GET /status"] = reply(status(well=False))
    assert cli("status").code == exits.NOT_WELL
    assert cli("status", "--json").code == exits.NOT_WELL


def test_status_says_everything_that_is_not_as_it_should_be(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /status"] = reply(
        status(
            well=False,
            state="draining",
            ground_stop={"since": "2031-05-06T07:08:09.010Z", "by": "ada", "why": "smoke"},
            holds=[held("environment", "KEY is not set")],
            problems=[finding()],
            needs_restart=["layover.socket"],
            warnings=["descriptors are few"],
        )
    )
    rows = [line.split("\t") for line in cli("status").out.splitlines()]
    assert ["state", "draining, not well"] in rows
    assert ["ground stop", "since 2031-05-06T07:08:09.010Z by ada: smoke"] in rows
    assert ["queue", "3 queued, 0 held, 0 parked, 0 halted"] in rows
    assert ["needs restart", "layover.socket"] in rows
    assert ["warning", "descriptors are few"] in rows
    assert ["run", RUN, "writer", "running", "2031-05-06T07:08:09.030Z"] in rows
    assert ["hold", FLT, "writer", "environment", "KEY is not set"] in rows
    problem = "agents.tester.timeout_sec: must be greater than 0; write seconds"
    assert ["problem", "layover.toml:14:3", "error", problem] in rows


def test_health_asks_for_no_more_than_an_answer(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /health"] = reply({"status": "ok", "version": "0.1.0"})
    assert cli("status", "--health").out == "ok\n"
    assert json.loads(cli("status", "--health", "--json").out)["version"] == "0.1.0"


def test_lists_ask_for_what_was_chosen(fake: FakeTower, cli: Cli) -> None:
    fake.routes |= {"GET /runs": reply({"runs": [run()]}), "GET /flights": reply({"flights": [flight()]})}
    cli("ps")
    cli("ps", "-a", "--agent", "writer", "-n", "7")
    cli("queue", "--agent", "writer")
    assert [request.query for request in fake.requests] == [
        {"limit": "100"},
        {"all": "true", "agent": "writer", "limit": "7"},
        {"waiting": "true", "agent": "writer", "limit": "100"},
    ]


def test_the_queue_says_what_each_waits_for(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /flights"] = reply({"flights": [flight(waits_for="a slot"), held("quota", "until noon")]})
    rows = [line.split("\t") for line in cli("queue").out.splitlines()]
    assert [(row[1], row[3], row[5]) for row in rows] == [
        ("writer", "queued", "a slot"),
        ("writer", "held", "until noon"),
    ]


def test_pipelines_are_listed_with_their_flags(fake: FakeTower, cli: Cli) -> None:
    flags = {"deep": {"default": False}, "wide": {"default": True}}
    build = {"name": "build", "entry": "coder", "trigger": "manual", "description": "b", "flags": flags}
    fake.routes["GET /pipelines"] = reply({"pipelines": [build, build | {"name": "x", "flags": {}}]})
    rows = "build\tcoder\tmanual\tdeep=false wide=true\tb\nx\tcoder\tmanual\t-\tb\n"
    assert cli("pipelines").out == rows
    assert cli("pipelines", "-q").out == "build\nx\n"
    assert json.loads(cli("pipelines", "--json").out)["pipelines"][0] == build


def test_show_a_run(fake: FakeTower, cli: Cli) -> None:
    usage = {"tokens_in": 100, "tokens_out": 7, "model": "m-1", "cost_usd": 0.5, "cost_source": "reported"}
    shown = ended(exit_code=None, exit_signal=9, outcome="failed", reason="killed", notes=["one", "two"], **usage)
    fake.routes[f"GET /runs/{RUN}"] = reply(shown)
    rows = [tuple(line.split("\t")) for line in cli("show", RUN).out.splitlines()]
    assert {
        ("agent", "writer (its run number 3)"),
        ("exit", "signal 9"),
        ("reason", "killed"),
        ("tokens", "100 in (- cached), 7 out"),
        ("cost", "$0.50 (reported)"),
        ("peak memory", "5.0 MiB"),
        ("note", "one"),
        ("note", "two"),
    } <= set(rows)


def test_show_a_run_that_has_only_begun(fake: FakeTower, cli: Cli) -> None:
    nothing = {"started_at": None, "seconds": None, "workspace": None, "folder": None, "state": "starting"}
    fake.routes[f"GET /runs/{RUN}"] = reply(run(**nothing, payload_bytes=None, estimate_tokens=None))
    rows = dict(line.split("\t") for line in cli("show", RUN).out.splitlines())
    assert (rows["state"], rows["cost"], rows["took"], rows["workspace"]) == ("starting", "-", "-", "-")
    assert "None" not in str(rows)


def test_show_a_flight_with_its_runs(fake: FakeTower, cli: Cli) -> None:
    sender = {"kind": "agent", "name": "planner", "ref": RUN}
    fake.routes[f"GET /flights/{FLT}"] = reply(held("quota", "until noon", key="k", sender=sender, runs=[ended()]))
    rows = [line.split("\t") for line in cli("show", FLT).out.splitlines()]
    assert ["from", f"planner (agent, {RUN})"] in rows
    assert ["reason", "until noon"] in rows
    assert [RUN, "succeeded"] in [row[:2] for row in rows]


def test_a_flight_on_a_pipe_ends_with_its_body(fake: FakeTower, cli: Cli) -> None:
    fake.routes[f"GET /flights/{FLT}"] = reply(landed(body="line one\n\nline \x1b two", runs=[]))
    assert cli("show", FLT).out.partition("\n\n")[2] == "line one\n\nline \x1b two"


def test_a_snapshot_that_is_gone_is_said_to_be(fake: FakeTower, cli: Cli, nowhere: Path) -> None:
    for place, words in ((nowhere / "gone", "snapshot, removed"), (nowhere, "snapshot")):
        fake.routes[f"GET /runs/{RUN}"] = reply(ended(workspace=str(place), workspace_kind="snapshot"))
        assert f"workspace\t{place} ({words})\n" in cli("show", RUN).out


@pytest.mark.parametrize("verb", ["ps", "queue", "status", "show", "wait"])
def test_a_hold_that_ends_with_time_says_when_it_is_tried_again(fake: FakeTower, cli: Cli, verb: str) -> None:
    waits = held("quota", "no quota", release_at="2031-05-06T09:08:00.000Z")
    stories = iter([itinerary("held", [waits], []), itinerary("finished", [landed()], [ended()])])
    fake.routes |= {
        "GET /runs": reply({"runs": [run(reason="no quota; next try 2031-05-06T09:08:00.000Z")]}),
        "GET /flights": reply({"flights": [waits]}),
        "GET /status": reply(status(holds=[waits])),
        f"GET /flights/{FLT}": reply(waits | {"runs": []}),
        STORY: lambda _: reply(next(stories)),
    }
    if verb == "wait":
        assert "no quota; next try" in cli("wait", ITN).err
    else:
        result = cli(verb, *([FLT] if verb == "show" else []))
        assert "no quota; next try 2031-05-06T09:08:00.000Z" in result.out


@pytest.mark.parametrize("verb", ["ps", "queue"])
def test_a_list_of_nobody_says_that_there_is_no_such_agent(fake: FakeTower, cli: Cli, verb: str) -> None:
    fake.routes |= {
        "GET /runs": reply({"runs": []}),
        "GET /flights": reply({"flights": []}),
        "GET /agents": reply({"agents": [{"name": "writer"}]}),
    }
    assert cli(verb, "--agent", "writer").code == exits.DONE
    result = cli(verb, "--agent", "writr")
    assert (result.code, result.out) == (exits.FAILED, "")
    assert "did you mean writer? there are: writer" in result.err


def test_a_body_is_shown_on_a_terminal(fake: FakeTower, on_terminal: Cli) -> None:
    fake.routes[f"GET /flights/{FLT}"] = reply(landed(body="line one\nline two", runs=[]))
    assert "line one\r\nline two" in on_terminal("show", FLT).out


def test_show_a_chain_as_a_story(fake: FakeTower, cli: Cli) -> None:
    other = FLT[:-1] + "2"
    sender = {"kind": "agent", "name": "writer", "ref": RUN}
    flights = [landed(), landed(id=other, to="reviewer", sender=sender, outcome="failed")]
    runs = [ended(), ended(id=RUN[:-1] + "2", agent="reviewer", flights=[other], outcome="failed", reason="boom")]
    fake.routes[STORY] = reply(itinerary("finished", flights, runs, name="night"))
    rows = [line.split("\t") for line in cli("show", ITN).out.splitlines()]
    assert [row[:3] for row in rows[-4:]] == [
        [FLT, "ada -> writer", "succeeded"],
        [RUN, "attempt 1 of writer", "succeeded"],
        [other, "writer -> reviewer", "failed"],
        [RUN[:-1] + "2", "attempt 1 of reviewer", "failed"],
    ]
    assert ["name", "night"] in rows


@pytest.mark.parametrize("what", ["payload", "answer"])
def test_show_what_a_run_was_told_and_answered(fake: FakeTower, cli: Cli, what: str) -> None:
    fake.routes |= {
        f"GET /flights/{FLT}": reply(landed(runs=[ended()])),
        f"GET /runs/{RUN}/{what}": raw(200, "ä text\n".encode(), "text/plain"),
    }
    assert cli("show", FLT, f"--{what}").out == "ä text\n"


def test_diff_passes_every_byte(fake: FakeTower) -> None:
    fake.routes[f"GET /runs/{RUN}/diff"] = raw(200, b"-\xfc\n+\xff\n", "application/octet-stream")
    done = subprocess.run([*TOWER, "diff", RUN], capture_output=True, check=True)
    assert done.stdout == b"-\xfc\n+\xff\n"
    assert fake.requests[0].query == {"form": "patch"}


def test_diff_in_short_and_as_a_document(fake: FakeTower, cli: Cli) -> None:
    fake.routes[f"GET /runs/{RUN}/diff"] = raw(200, b"M\ta.txt\nR100\told\tnew\n", "application/octet-stream")
    assert cli("diff", "--names", RUN).out == "M\ta.txt\nR100\told\tnew\n"
    files = [{"change": "M", "names": ["a.txt"]}, {"change": "R100", "names": ["old", "new"]}]
    assert json.loads(cli("diff", "--json", RUN).out) == {"format": 1, "run": RUN, "files": files}
    assert [one.query["form"] for one in fake.requests] == ["names", "names"]


def test_logs_pass_every_byte_and_choose_the_stream(fake: FakeTower) -> None:
    data = bytes(range(256)) * 3
    fake.routes[LOG] = log(data)
    done = subprocess.run([*TOWER, "logs", "--stderr", RUN], capture_output=True, check=True)
    assert done.stdout == data
    assert fake.requests[0].query["stream"] == "stderr"
    assert float(fake.requests[0].query["wait"]) == 0


def test_logs_follow_until_the_run_is_over(fake: FakeTower, cli: Cli) -> None:
    pieces = iter([log(b"one ", ended="0"), log(b"", offset=4, ended="0"), log(b"two", offset=4)])
    fake.routes[LOG] = lambda _: next(pieces)
    assert cli("logs", "-f", RUN).out == "one two"
    assert [request.query["offset"] for request in fake.requests] == ["0", "4", "4"]
    assert all(float(request.query["wait"]) > 0 for request in fake.requests)


def test_logs_of_a_flight_that_waits_follow_its_run(fake: FakeTower, cli: Cli) -> None:
    waits = flight(waits_for="a slot", runs=[])
    flights = iter([waits, waits, flight(state="running", runs=[run()])])
    fake.routes |= {
        f"GET /flights/{FLT}": lambda _: reply(next(flights)),
        STORY: reply(itinerary("working", [], [])),
        LOG: log(b"begun"),
    }
    result = cli("logs", "-f", FLT)
    assert (result.code, result.out, result.err) == (exits.DONE, "begun", "it has not started: a slot\n")


def test_logs_of_a_flight_that_never_starts_come_to_an_end(fake: FakeTower, cli: Cli) -> None:
    flights = iter([flight(runs=[]), flight(state="cancelled", runs=[])])
    fake.routes |= {f"GET /flights/{FLT}": lambda _: reply(next(flights)), STORY: reply(itinerary("working", [], []))}
    result = cli("logs", "-f", FLT)
    assert result.code == exits.FAILED
    assert "it is cancelled, and never was" in result.err


def test_logs_say_what_was_cut_out(fake: FakeTower, cli: Cli) -> None:
    pieces = iter([log(b"head", ended="0"), log(b"tail", offset=100)])
    fake.routes[LOG] = lambda _: next(pieces)
    result = cli("logs", RUN)
    assert result.out == "headtail"
    assert "96 bytes were cut out" in result.err


def test_logs_from_the_end(fake: FakeTower, cli: Cli) -> None:
    fake.routes[LOG] = log(b"end", offset=97)
    assert cli("logs", "--tail", "3", RUN).out == "end"
    assert fake.requests[0].query["offset"] == "-3"


def test_logs_on_a_terminal_do_not_act_and_keep_characters_whole(fake: FakeTower, on_terminal: Cli) -> None:
    letter = "ä".encode()
    pieces = iter([log(b"\x1b[2J" + letter[:1], ended="0"), log(letter[1:] + b"\xff", offset=5)])
    fake.routes[LOG] = lambda _: next(pieces)
    assert on_terminal("logs", RUN).out == "\\x1b[2Jä\ufffd"


@pytest.mark.parametrize("known", [ITN, FLT, RUN])
def test_wait_for_the_chain_of_anything(fake: FakeTower, cli: Cli, known: str) -> None:
    fake.routes |= {
        f"GET /flights/{FLT}": reply(flight(runs=[])),
        f"GET /runs/{RUN}": reply(run()),
        STORY: reply(itinerary("finished", [landed()], [ended()])),
    }
    result = cli("wait", known)
    assert (result.code, result.out) == (exits.DONE, "")
    assert "landed: 1 flight, 1 run" in result.err


@pytest.mark.parametrize(
    ("story", "code"),
    [
        (itinerary("finished", [landed(outcome="failed")], []), exits.FAILED),
        (itinerary("halted", [flight(state="halted")], []), exits.FAILED),
        (itinerary("waiting", [held("recovery", "interrupted")], []), exits.NOT_WELL),
    ],
)
def test_wait_tells_by_its_exit_code(fake: FakeTower, cli: Cli, story: dict[str, object], code: int) -> None:
    fake.routes[STORY] = reply(story)
    result = cli("wait", ITN, "--json")
    assert result.code == code
    assert json.loads(result.out) == {"format": 1, **story}


@pytest.mark.parametrize(
    ("known", "request_line"),
    [
        (FLT, ("DELETE", f"/flights/{FLT}")),
        (RUN, ("POST", f"/runs/{RUN}/cancel")),
        (ITN, ("POST", f"/itineraries/{ITN}/cancel")),
    ],
)
def test_cancel_whatever_it_is(fake: FakeTower, cli: Cli, known: str, request_line: tuple[str, str]) -> None:
    fake.routes[" ".join(request_line)] = reply({"state": "cancelled"})
    result = cli("cancel", known)
    assert (result.code, result.out) == (exits.DONE, f"{known}\n")
    assert result.err.endswith("is cancelled\n")
    assert [(request.method, request.path) for request in fake.requests] == [request_line]


def test_cancelling_what_runs_is_not_yet_its_end(fake: FakeTower, cli: Cli) -> None:
    fake.routes[f"POST /runs/{RUN}/cancel"] = reply(run(), 202)
    assert cli("cancel", RUN).err == f"run {RUN} is being ended\n"


def test_a_story_says_what_a_join_waits_for_and_tells_a_run_once(fake: FakeTower, cli: Cli) -> None:
    other = FLT[:-1] + "2"
    told = [landed(joined=FLT), landed(id=other, joined=FLT)]
    words = "the join before writer has tester and waits for critic"
    document = itinerary("working", told, [ended(flights=[FLT, other])], joins=[{"words": words}, {"words": None}])
    fake.routes[STORY] = reply(document)
    out = cli("show", ITN).out
    assert f"join\t{words}\n" in out
    assert out.count(RUN) == 1
    assert out.splitlines()[-1].endswith(f"together with {FLT}")


def test_release_a_join(fake: FakeTower, cli: Cli) -> None:
    fake.routes[f"POST /itineraries/{ITN}/release"] = reply({})
    result = cli("release", ITN, "writer")
    assert (result.out, result.err) == (f"{ITN}\n", "writer wakes with what was there\n")
    assert fake.requests[-1].document == {"agent": "writer"}


def test_recover(fake: FakeTower, cli: Cli) -> None:
    fake.routes[f"POST /runs/{RUN}/recover"] = reply(flight(attempt=2))
    result = cli("recover", RUN, "--note", "mind the gap", "--force")
    assert result.out == f"{FLT}\n"
    assert "attempt 2" in result.err
    assert fake.requests[0].document == {"note": "mind the gap", "force": True}


RELOADED = {"changed": True, "generation": 3, "problems": [], "needs_restart": []}


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (RELOADED, exits.DONE, "now generation 3\n"),
        (RELOADED | {"changed": False}, exits.DONE, "unchanged, generation 3\n"),
        (RELOADED | {"problems": [finding(severity="warning")]}, exits.DONE, "warning: agents.tester"),
        (RELOADED | {"needs_restart": ["layover.socket"]}, exits.DONE, "layover.socket has changed"),
        (
            RELOADED | {"changed": False, "problems": [finding()]},
            exits.CONFIGURATION,
            "not taken over, still generation 3\n",
        ),
    ],
)
def test_reload_tells_what_came_of_it(
    fake: FakeTower, cli: Cli, answer: dict[str, object], code: int, words: str
) -> None:
    fake.routes["POST /reload"] = reply(answer)
    result = cli("reload")
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert cli("reload", "--json").code == code


def test_ground_stop(fake: FakeTower, cli: Cli) -> None:
    fake.routes |= {"POST /ground-stop": reply(status()), "DELETE /ground-stop": reply(status())}
    assert cli("ground-stop", "on", "it burns").code == exits.DONE
    assert cli("ground-stop", "on", "wrong", "branch").code == exits.DONE
    assert cli("ground-stop", "on").code == exits.DONE
    assert cli("ground-stop", "off").code == exits.DONE
    assert [request.document["why"] for request in fake.requests[:3]] == ["it burns", "wrong branch", ""]


def test_a_ground_stop_needs_no_tower_that_answers(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text('[layover]\nstate_dir = "state"\n')
    result = cli("ground-stop", "on")
    assert result.code == exits.UNREACHABLE
    assert f"touch {nowhere}/state/ground-stop" in result.err


def test_drain_waits_until_nothing_runs(fake: FakeTower, cli: Cli) -> None:
    lists = iter([[run()], []])
    stories = iter([itinerary("working", [], [run()]), itinerary("finished", [], [ended()])])
    fake.routes |= {
        "POST /drain": reply(status()),
        "GET /runs": lambda _: reply({"runs": next(lists)}),
        STORY: lambda _: reply(next(stories)),
    }
    result = cli("drain")
    assert result.code == exits.DONE
    assert "1 run alive (writer)" in result.err
    assert result.err.endswith("drained: nothing runs, and nothing starts\n")


def test_drain_without_waiting_and_resume(fake: FakeTower, cli: Cli) -> None:
    fake.routes |= {"POST /drain": reply(status()), "DELETE /drain": reply(status())}
    assert cli("drain", "--no-wait").code == exits.DONE
    assert cli("resume").code == exits.DONE
    assert [(request.method, request.path) for request in fake.requests] == [("POST", "/drain"), ("DELETE", "/drain")]


@pytest.mark.parametrize(
    ("args", "variable", "name"),
    [
        ([], None, "layover.toml"),
        (["--config", "f.toml"], None, "f.toml"),
        (["--config", "."], None, "layover.toml"),
        ([], "v.toml", "v.toml"),
        (["--config", "f.toml"], "v.toml", "f.toml"),
    ],
)
def test_serve_hands_over_the_file(
    cli: Cli, nowhere: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], variable: str | None, name: str
) -> None:
    if variable:
        monkeypatch.setenv("TOWER_CONFIG", variable)
    calls: list[tuple[Path, str | None]] = []
    monkeypatch.setattr(daemon, "serve", lambda path, *, runner: calls.append((path, runner)))
    assert cli("serve", *args, "--runner", "cmd:true").code == exits.DONE
    assert calls == [(nowhere / name, "cmd:true")]


def test_serve_refuses_a_file_with_errors_and_lists_them(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text("[agents.a]\nrunner = 7\nnonsense = 1\n")
    result = cli("serve")
    assert result.code == exits.CONFIGURATION
    assert "agents.a.runner" in result.err
    assert "agents.a.nonsense" in result.err
    assert list(nowhere.iterdir()) == [nowhere / "layover.toml"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidError("state-dir", "cannot keep state there"), exits.CONFIGURATION),
        (InvalidError("socket", "cannot listen there"), exits.CONFIGURATION),
        (TowerError("newer-state", "cannot use it"), exits.CONFIGURATION),
        (BusyError("locked", "cannot use the state folder"), exits.BUSY),
        (TowerError("state-gone", "cannot go on"), exits.FAILED),
    ],
)
def test_serve_says_whether_starting_again_could_help(
    cli: Cli, nowhere: Path, monkeypatch: pytest.MonkeyPatch, error: TowerError, code: int
) -> None:
    def refuse(_: Path, *, runner: str | None) -> None:
        raise error

    monkeypatch.setattr(daemon, "serve", refuse)
    result = cli("serve")
    assert result.code == code
    assert error.sentence in result.err


def test_serve_on_a_terminal_begins_with_a_line_for_a_person(on_terminal: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text(
        '[layover]\nwork_dir = "none"\n[agents.a]\nrunner = "none"\nprompt = "x"\nentry = true\n'
    )
    first = on_terminal("serve").out.splitlines()[0]
    assert first == f"serving {nowhere}/layover.toml (1 agent) at {nowhere}/.layover/tower.sock; Ctrl-C stops it"


def test_inside_a_run_the_token_goes_along(fake: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYOVER_RUN_TOKEN", "t0ken")
    seen: list[str] = []

    def accept(request: Request) -> bytes:
        seen.append(request.headers["authorization"])
        return reply({"flight": flight(), "itinerary": ITN, "duplicate": False}, 202)

    fake.routes["POST /flights"] = accept
    assert cli("send", "reviewer", "look").code == exits.DONE
    assert seen == ["Bearer t0ken"]


@pytest.mark.parametrize("verb", ["restart", "pause", "resume"])
def test_what_is_said_of_an_agent(fake: FakeTower, cli: Cli, verb: str) -> None:
    fake.routes[f"POST /agents/writer/{verb}"] = reply({"name": "writer"})
    done = cli("agents", verb, "writer")
    assert (done.code, done.out) == (0, "")
    assert "writer" in done.err


def test_status_shows_residents_and_paused_agents(fake: FakeTower, cli: Cli) -> None:
    resident = {
        "agent": "writer",
        "state": "backoff",
        "why": "it fell over",
        "until": "2031-05-06T07:09:00.000Z",
        "process": None,
        "since": None,
        "turns": None,
        "run": None,
        "paused_by": "ada",
    }
    fake.routes["GET /status"] = reply(status(residents=[resident], agents=[{"name": "writer", "paused_by": "ada"}]))
    rows = [line.split("\t") for line in cli("status").out.splitlines()]
    assert ["resident", "writer", "backoff", "-", "-", "it fell over"] in rows
    assert ["paused", "writer", "ada"] in rows


GRAPHED = """\
[layover]
work_dir = "."
[pipelines.build]
entry = "b"
[agents]
a = { runner = "none", prompt = "x", entry = true }
b = { runner = "none", prompt = "x" }
"""


def test_graph_draws_without_a_tower(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text(GRAPHED)
    assert cli("graph").out.startswith("flowchart LR\n")
    assert cli("graph", "--svg").out.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert [it["name"] for it in json.loads(cli("graph", "--json").out)["agents"]] == ["a", "b"]
    assert [it["name"] for it in json.loads(cli("graph", "--json", "--pipeline", "build").out)["agents"]] == ["b"]


def test_graph_says_which_pipelines_there_are(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text(GRAPHED)
    done = cli("graph", "--pipeline", "biuld")
    assert (done.code, done.out) == (exits.FAILED, "")
    assert "cannot find a pipeline called 'biuld'" in done.err
    assert "did you mean build?" in done.err
    assert cli("graph", "--svg", "--json").code == exits.USAGE


def test_graph_draws_no_factory_that_has_errors(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text("[agents.a]\n")
    done = cli("graph")
    assert (done.code, done.out) == (exits.CONFIGURATION, "")
    assert "layover.toml:1:9: agents.a" in done.err


COMPARED = {
    "generation": 3,
    "path": "/f/layover.toml",
    "changes": ["agents.coder: timeout_sec 3600 -> 60", "agents.old: removed"],
    "problems": [],
    "needs_restart": ["layover.socket"],
    "agents": [
        {"name": "same", "change": "untouched", "process": None, "held": 0},
        {"name": "coder", "change": "changed", "process": None, "held": 0},
        {"name": "kept", "change": "changed", "process": "kept", "held": 0},
        {"name": "swapped", "change": "changed", "process": "replaced", "held": 0},
        {"name": "new", "change": "added", "process": None, "held": 0},
        {"name": "old", "change": "removed", "process": None, "held": 2},
        {"name": "over", "change": "removed", "process": "ended", "held": 0},
    ],
}


def test_config_diff_says_what_a_reload_would_change(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /config/diff"] = reply(COMPARED)
    done = cli("config", "diff")
    assert done.code == exits.DONE
    assert done.out.splitlines() == [
        "agents.coder: timeout_sec 3600 -> 60",
        "agents.old: removed",
        "",
        "coder\tchanged\tits next runs; what runs goes on as it began",
        "kept\tchanged\tits process goes on",
        "swapped\tchanged\tits process is replaced after its turn",
        "new\tadded\tnothing runs yet",
        "old\tremoved\twhat runs goes on, nothing starts; 2 flights held until it is back",
        "over\tremoved\tits process ends after its turn",
    ]
    assert "layover.socket has changed" in done.err
    assert "2 changes; 1 agent untouched" in done.err
    assert json.loads(cli("config", "diff", "--json").out) == {"format": 1, **COMPARED}


def test_config_diff_with_a_bad_file_says_that_it_would_be_refused(fake: FakeTower, cli: Cli) -> None:
    problem = {"file": "f", "line": 1, "column": 2, "key": "a", "sentence": "is bad", "hint": "", "severity": "error"}
    fake.routes["GET /config/diff"] = reply({**COMPARED, "changes": [], "agents": [], "problems": [problem]})
    done = cli("config", "diff")
    assert (done.code, done.out) == (exits.CONFIGURATION, "")
    assert "f:1:2: a: is bad" in done.err
    assert "a reload would refuse this file" in done.err


def test_config_diff_of_two_files_needs_no_tower(cli: Cli, nowhere: Path) -> None:
    (nowhere / "old.toml").write_text(GRAPHED)
    (nowhere / "layover.toml").write_text(GRAPHED.replace("b = {", "b = { model = 'm',"))
    done = cli("config", "diff", "--from", "old.toml")
    assert done.code == exits.DONE
    assert done.out.splitlines()[0] == "agents.b: model none -> 'm'"
    assert "1 agent untouched" in done.err
    (nowhere / "old.toml").write_text("x = 1")
    assert cli("config", "diff", "--from", "old.toml").code == exits.CONFIGURATION


def test_config_show_prints_what_the_file_comes_to(cli: Cli, nowhere: Path) -> None:
    (nowhere / "layover.toml").write_text(GRAPHED)
    shown = tomllib.loads(cli("config", "show").out)
    assert shown["layover"]["grace_sec"] == 20
    assert shown["agents"]["a"]["entry"] is True
    assert shown["pipelines"]["build"]["entry"] == "b"
    document = json.loads(cli("config", "show", "--json").out)
    assert document["agents"]["b"]["entry"] == {"value": False, "origin": "built in"}
    (alone,) = tomllib.loads(cli("config", "show", "a").out)["agents"]
    assert alone == "a"
    done = cli("config", "show", "c")
    assert (done.code, done.out) == (exits.FAILED, "")
    assert "cannot find an agent called 'c'" in done.err
