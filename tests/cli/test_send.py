"""`tower send`: where the body comes from, what is asked of the tower, what is printed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from client.fake_tower import FakeTower, Request, problem, raw, reply

from tower.cli import bodies, exits

from .conftest import TOWER, Cli
from .documents import FLT, ITN, RUN, ended, flight, held, itinerary, landed, run

ACCEPTED = {"flight": flight(), "itinerary": ITN, "duplicate": False}
STORY = f"GET /itineraries/{ITN}"
ANSWER = f"GET /runs/{RUN}/answer"


@pytest.fixture
def tower(fake: FakeTower) -> FakeTower:
    fake.routes["POST /flights"] = reply(ACCEPTED, 202)
    return fake


def test_the_id_is_the_data_and_the_rest_is_words(tower: FakeTower, cli: Cli) -> None:
    result = cli("send", "writer", "hello")
    assert (result.code, result.out) == (exits.DONE, f"{FLT}\n")
    assert result.err == f"flight to writer is queued; itinerary {ITN}\n"
    assert tower.requests[0].document == {"to": "writer", "body": "hello"}


def test_everything_that_was_chosen_is_asked_for(tower: FakeTower, cli: Cli) -> None:
    cli("send", "writer", "x", "--key", "k", "--name", "night", "--priority", "-5")
    asked = {"to": "writer", "body": "x", "key": "k", "name": "night", "priority": -5}
    assert tower.requests[0].document == asked


def test_into_a_pipeline(tower: FakeTower, cli: Cli) -> None:
    cli("send", "-p", "build", "go", "--flag", "deep", "--flag", "wide=no")
    cli("send", "--pipeline", "build")
    assert [request.document for request in tower.requests] == [
        {"pipeline": "build", "body": "go", "flags": {"deep": True, "wide": False}},
        {"pipeline": "build"},
    ]


def test_what_the_chain_asks_of_agents(tower: FakeTower, cli: Cli) -> None:
    said = ("coder.model=huge=1", "coder.context=", "coder.args=-c", "coder.args=--a b", "my-tester.effort=low")
    cli("send", "-p", "build", *(word for one in said for word in ("--choose", one)))
    assert tower.requests[0].document["choices"] == {
        "coder": {"model": "huge=1", "context": None, "args": ["-c", "--a b"]},
        "my-tester": {"effort": "low"},
    }


@pytest.mark.parametrize("wrong", ["coder", "coder.model", "model=x", ".model=x", "coder.colour=red", ""])
def test_a_choice_that_is_none(tower: FakeTower, cli: Cli, wrong: str) -> None:
    result = cli("send", "-p", "build", "--choose", wrong)
    assert (result.code, tower.requests) == (exits.USAGE, [])
    assert "is not AGENT.KEY=VALUE with a KEY of model, effort, context or args" in result.err


def test_a_flight_that_was_sent_before_or_waits_is_said_to(tower: FakeTower, cli: Cli) -> None:
    waiting = held("ground-stop", "the ground stop")
    tower.routes["POST /flights"] = reply(ACCEPTED | {"flight": waiting, "duplicate": True}, 202)
    assert "is already held, waits for the ground stop;" in cli("send", "writer", "x").err


def test_quiet_is_the_id_and_not_a_word(tower: FakeTower, cli: Cli) -> None:
    result = cli("send", "-q", "writer", "x")
    assert (result.out, result.err) == (f"{FLT}\n", "")


def test_json_is_the_towers_answer(tower: FakeTower, cli: Cli) -> None:
    assert json.loads(cli("send", "--json", "writer", "x").out) == {"format": 1, **ACCEPTED}


def test_a_body_from_standard_input_is_whole(tower: FakeTower) -> None:
    body = "first\n\n  last, without a newline ä"
    subprocess.run([*TOWER, "send", "writer", "-"], input=body.encode(), check=True, capture_output=True)
    assert tower.requests[0].document["body"] == body


def test_a_body_from_a_file(tower: FakeTower, cli: Cli, nowhere: Path) -> None:
    (nowhere / "b.md").write_text("from a file\n")
    assert cli("send", "writer", "@b.md").code == exits.DONE
    assert tower.requests[0].document["body"] == "from a file\n"


@pytest.mark.parametrize("name", ["@missing", "@."])
def test_a_file_that_cannot_be_read_is_named(tower: FakeTower, cli: Cli, name: str) -> None:
    result = cli("send", "writer", name)
    assert result.code == exits.USAGE
    assert f"cannot read the body from {name[1:]}" in result.err
    assert tower.requests == []


@pytest.mark.parametrize("how", ["argument", "file", "stdin"])
def test_a_body_that_is_not_utf8_says_where(tower: FakeTower, nowhere: Path, how: str) -> None:
    data = b"good \xff\xfe"
    (nowhere / "b").write_bytes(data)
    body = {"argument": data, "file": b"@b", "stdin": b"-"}[how]
    done = subprocess.run([*TOWER, "send", "writer", body], input=data, capture_output=True, check=False)
    assert done.returncode == exits.USAGE
    assert b"byte 5 (0xff) is not UTF-8" in done.stderr
    assert tower.requests == []


def test_a_file_without_a_name_is_asked_for(tower: FakeTower, cli: Cli) -> None:
    result = cli("send", "writer", "@")
    assert result.code == exits.USAGE
    assert "no file is named after the @" in result.err
    assert tower.requests == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["writer", "two", "words"], 'is one BODY in quotes: tower send AGENT "..."'),
        (["writer", "-x"], "comes after --"),
        (["writer", "-q"], "comes after --"),
        (["-p", "build", "two", "words"], "with --pipeline, BODY is the only one"),
        (["-p", "build", "--flag", "deep=maybe"], "'maybe' is neither true nor false"),
    ],
)
def test_what_cannot_be_read_says_what_is_usually_meant(
    tower: FakeTower, cli: Cli, args: list[str], words: str
) -> None:
    result = cli("send", *args)
    assert (result.code, tower.requests) == (exits.USAGE, [])
    assert words in " ".join(result.err.split())


def test_a_body_that_begins_with_a_dash(tower: FakeTower, cli: Cli) -> None:
    cli("send", "writer", "--", "-x")
    assert tower.requests[0].document["body"] == "-x"


def test_an_agent_that_is_not_there_has_a_near_name(
    tower: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    tower.routes |= {
        "POST /flights": problem(404, "unknown-agent", "cannot find an agent called 'writre'", "there are: writer"),
        "GET /agents": reply({"agents": [{"name": "writer"}, {"name": "tester"}]}),
    }
    result = cli("send", "writre", "x")
    assert result.code == exits.FAILED
    assert result.err.endswith("did you mean writer? there are: tester, writer\n")
    monkeypatch.setenv("LAYOVER_RUN_TOKEN", "t")
    assert cli("send", "writre", "x").err.endswith("\n  there are: writer\n")


def test_a_run_cannot_wait_and_has_sent_nothing(tower: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """B109: a sender that waited would hold the slot that its receiver waits for."""
    monkeypatch.setenv("LAYOVER_RUN_TOKEN", "t")
    result = cli("send", "--wait", "writer", "x")
    assert (result.code, result.out) == (exits.REFUSED, "")
    assert result.err.startswith("tower: cannot wait within a run, and so has sent nothing\n")
    assert tower.requests == []
    assert cli("send", "writer", "x").code == exits.DONE


def test_an_endless_body_is_not_read_for_ever(tower: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_BYTES", 1000)
    result = cli("send", "writer", "@/dev/zero")
    assert result.code == exits.USAGE
    assert "longer than 1000 bytes" in result.err


def test_waiting_prints_the_answer_of_the_first_flight_when_all_is_well(tower: FakeTower, cli: Cli) -> None:
    other = FLT[:-1] + "2"
    flights = [landed(), landed(id=other, to="reviewer")]
    runs = [ended(), ended(id=RUN[:-1] + "2", flights=[other])]
    stories = iter([itinerary("working", [flight()], []), itinerary("finished", flights, runs)])
    tower.routes |= {STORY: lambda _: reply(next(stories)), ANSWER: raw(200, b"an answer\n", "text/plain")}
    result = cli("send", "writer", "x", "--wait")
    assert (result.code, result.out) == (exits.DONE, "an answer\n")
    assert result.err.endswith("landed: 2 flights, 2 runs, cost not reported\n")


def test_a_recovered_flight_has_the_answer_of_its_last_run(tower: FakeTower, cli: Cli) -> None:
    second = RUN[:-1] + "2"
    runs = [ended(outcome="interrupted"), ended(id=second)]
    tower.routes |= {
        STORY: reply(itinerary("finished", [landed()], runs)),
        f"GET /runs/{second}/answer": raw(200, b"second", "text/plain"),
    }
    assert cli("send", "writer", "x", "--wait").out == "second\n"


def test_quiet_waiting_is_the_answer_alone(tower: FakeTower, cli: Cli) -> None:
    tower.routes |= {STORY: reply(itinerary("finished", [landed()], [ended()])), ANSWER: raw(200, b"yes", "text/plain")}
    result = cli("send", "-q", "writer", "x", "--wait")
    assert (result.out, result.err) == ("yes\n", "")


def test_a_ground_stop_is_for_a_person(tower: FakeTower, cli: Cli) -> None:
    why = "ground stop: engaged by ada; `tower ground-stop off` releases it"
    tower.routes[STORY] = reply(itinerary("held", [held("ground-stop", why)], []))
    result = cli("send", "writer", "x", "--wait")
    assert result.code == exits.NOT_WELL
    assert why in result.err


def test_a_failure_prints_no_answer_and_is_1(tower: FakeTower, cli: Cli) -> None:
    story = itinerary("finished", [landed(outcome="failed")], [ended(outcome="failed", reason="boom")])
    tower.routes |= {STORY: reply(story), ANSWER: raw(200, b"half", "text/plain")}
    result = cli("send", "writer", "x", "--wait")
    assert (result.code, result.out) == (exits.FAILED, "")
    assert "boom" in result.err


def test_a_hold_for_a_person_is_3(tower: FakeTower, cli: Cli) -> None:
    tower.routes[STORY] = reply(itinerary("held", [held("environment", "KEY is not set")], []))
    result = cli("send", "writer", "x", "--wait")
    assert result.code == exits.NOT_WELL
    assert "KEY is not set" in result.err


def test_a_run_without_an_answer_landed_all_the_same(tower: FakeTower, cli: Cli) -> None:
    tower.routes |= {
        STORY: reply(itinerary("finished", [landed()], [ended()])),
        ANSWER: problem(404, "no-file", "cannot show answer.txt"),
    }
    result = cli("send", "writer", "x", "--wait", "--json")
    assert result.code == exits.DONE
    assert json.loads(result.out)["answer"] is None


def test_json_and_wait_is_one_document(tower: FakeTower, cli: Cli) -> None:
    story = itinerary("finished", [landed()], [ended()])
    tower.routes |= {STORY: reply(story), ANSWER: raw(200, b"yes", "text/plain")}
    document = json.loads(cli("send", "writer", "x", "--wait", "--json").out)
    assert document == {"format": 1, "itinerary": story, "flight": FLT, "answer": "yes"}


def test_progress_is_shown_on_a_terminal(tower: FakeTower, on_terminal: Cli) -> None:
    stories = iter(
        [
            itinerary("working", [flight(waits_for="a slot")], []),
            itinerary("working", [flight(state="running")], [ended(), run()], cost="$0.02"),
            itinerary("finished", [landed()], [ended()]),
        ]
    )
    tower.routes |= {STORY: lambda _: reply(next(stories)), ANSWER: raw(200, b"\x1b[2Jdone", "text/plain")}
    screen = on_terminal("send", "writer", "x", "--wait").out
    assert "writer waits for a slot\r\n" in screen
    assert "writer running since" in screen
    assert "cost so far $0.02\r\n" in screen
    assert "\\x1b[2Jdone\r\n" in screen


def test_a_hold_is_a_line_in_a_log_file_too(tower: FakeTower, cli: Cli) -> None:
    stories = iter(
        [
            itinerary("held", [held("quota", "no quota until noon")], []),
            itinerary("held", [held("quota", "no quota until noon")], []),
            itinerary("finished", [landed()], [ended()]),
        ]
    )
    tower.routes |= {STORY: lambda _: reply(next(stories)), ANSWER: raw(200, b"", "text/plain")}
    assert cli("send", "writer", "x", "--wait").err.count("no quota until noon") == 1


def test_whoever_stops_watching_is_told_that_it_goes_on(
    tower: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Request) -> bytes:
        monkeypatch.setattr("tower.cli.story.progress", stop)
        return reply(itinerary("working", [flight()], []))

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    tower.routes[STORY] = interrupted
    result = cli("send", "writer", "x", "--wait")
    assert result.code == exits.INTERRUPTED
    assert f"tower cancel {ITN}" in result.err


def test_within_a_run_a_tower_that_is_away_is_waited_for_and_asked_with_a_key(
    tower: FakeTower, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off_once(request: Request) -> bytes:
        tower.routes["POST /flights"] = reply(ACCEPTED, 202)
        return b"HTTP/1.1 202 Acc"

    tower.routes["POST /flights"] = cut_off_once
    monkeypatch.setenv("LAYOVER_RUN_TOKEN", "t")
    result = cli("send", "writer", "x")
    assert (result.code, result.out) == (exits.DONE, f"{FLT}\n")
    assert "went away" in result.err
    first, again = (request.document for request in tower.requests)
    assert first == again
    assert len(first["key"]) == 32
    cli("send", "writer", "x", "--key", "mine")
    assert tower.requests[-1].document["key"] == "mine"
    tower.routes["POST /flights"] = lambda _: b"HTTP/1.1 202 Acc"
    monkeypatch.delenv("LAYOVER_RUN_TOKEN")
    assert cli("send", "writer", "x").code == exits.UNREACHABLE
    assert "key" not in tower.requests[-1].document
