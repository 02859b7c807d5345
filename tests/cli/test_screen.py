"""Tables on a terminal, plain columns on a pipe; bytes raw on a pipe and harmless on a terminal."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from client.fake_tower import FakeTower, raw, reply

from . import documents
from .conftest import TOWER, Cli

EVIL = "\x1b]0;owned\x07\x9b2J\u202e"
RUNS = reply({"runs": [documents.ended(outcome="failed", reason=f"first {EVIL}\nline\tand tab"), documents.run()]})


def test_a_pipe_gets_tabs_whole_ids_and_no_heading(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /runs"] = RUNS
    lines = cli("ps", "-a").out.splitlines()
    assert [line.split("\t")[:3] for line in lines] == [
        [documents.RUN, "writer", "failed"],
        [documents.RUN, "writer", "running"],
    ]
    assert lines[0].endswith("\tfirst \\x1b]0;owned\\x07\\x9b2J\\u202e line and tab")
    assert {line.count("\t") for line in lines} == {6}


def test_a_terminal_gets_a_table_with_tails_and_colour(fake: FakeTower, on_terminal: Cli) -> None:
    fake.routes["GET /runs"] = RUNS
    screen = on_terminal("ps", "-a").out
    assert "RUN" in screen
    assert documents.RUN[-6:] in screen
    assert documents.RUN not in screen
    assert "\x1b[31mfailed" in screen


def test_only_a_state_has_a_colour(fake: FakeTower, on_terminal: Cli) -> None:
    fake.routes["GET /runs"] = reply({"runs": [documents.ended(agent="failed", reason="held")]})
    screen = on_terminal("ps", "-a").out
    assert "\x1b[32msucceeded" in screen
    assert not re.search("\x1b\\[[0-9;]*3[0-7]m(failed|held)", screen)


@pytest.mark.parametrize("verb", ["ps", "queue"])
def test_a_table_without_rows_is_a_word_on_a_terminal_and_nothing_on_a_pipe(
    fake: FakeTower, cli: Cli, on_terminal: Cli, verb: str
) -> None:
    fake.routes |= {"GET /runs": reply({"runs": []}), "GET /flights": reply({"flights": []})}
    assert on_terminal(verb).out == "nothing\r\n"
    assert cli(verb).out == ""


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(fake: FakeTower, on_terminal: Cli, environ: dict[str, str]) -> None:
    fake.routes["GET /runs"] = RUNS
    assert not re.search("\x1b\\[[0-9;]*3[0-7]m", on_terminal("ps", "-a", **environ).out)


@pytest.mark.parametrize(
    "verb", [["ps", "-a"], ["queue"], ["status"], ["show", documents.FLT], ["show", documents.ITN]]
)
def test_nothing_that_an_agent_wrote_acts_on_a_terminal(fake: FakeTower, on_terminal: Cli, verb: list[str]) -> None:
    flight = documents.held("quota", EVIL, body=EVIL, sender={"kind": "agent", "name": EVIL, "ref": None})
    run = documents.ended(outcome="failed", reason=EVIL, notes=[EVIL], agent=EVIL)
    fake.routes |= {
        "GET /runs": reply({"runs": [run]}),
        "GET /flights": reply({"flights": [flight]}),
        "GET /status": reply(documents.status(runs=[run], holds=[flight], warnings=[EVIL])),
        f"GET /flights/{documents.FLT}": reply(flight | {"runs": [run]}),
        f"GET /itineraries/{documents.ITN}": reply(documents.itinerary("held", [flight], [run], name=EVIL)),
    }
    screen = on_terminal(*verb, NO_COLOR="1").out
    assert "owned" in screen
    # Rich's own bold is all that may act.
    assert not set(re.sub("\x1b\\[[01]m", "", screen)) & set("\x1b\x07\x9b\u202e")


def test_a_narrow_terminal_still_shows_the_words(fake: FakeTower, on_terminal: Cli) -> None:
    fake.routes["GET /runs"] = reply({"runs": [documents.ended(outcome="failed", reason="because of " + "x" * 40)]})
    assert "because" in on_terminal("ps", "-a", COLUMNS="80").out


@pytest.mark.parametrize("verb", [["status"], ["ps"], ["queue"], ["show", documents.RUN], ["reload"]])
def test_a_json_document_is_the_towers_own_with_its_format(fake: FakeTower, cli: Cli, verb: list[str]) -> None:
    answers = {
        "GET /status": documents.status(),
        "GET /runs": {"runs": [documents.run(reason=EVIL)]},
        "GET /flights": {"flights": [documents.flight(body="ä")]},
        f"GET /runs/{documents.RUN}": documents.run(),
        "POST /reload": {"changed": False, "generation": 2, "problems": [], "needs_restart": []},
    }
    fake.routes |= {route: reply(answer) for route, answer in answers.items()}
    out = cli(*verb, "--json").out
    asked = fake.requests[-1]
    assert json.loads(out) == {"format": 1, **answers[f"{asked.method} {asked.path}"]}
    assert out.isascii()
    assert out.count("\n") == 1


@pytest.mark.parametrize(("verb", "ids"), [(["ps", "-q"], [documents.RUN] * 2), (["queue", "-q"], [documents.FLT])])
def test_quiet_prints_ids_only(fake: FakeTower, cli: Cli, verb: list[str], ids: list[str]) -> None:
    fake.routes |= {"GET /runs": RUNS, "GET /flights": reply({"flights": [documents.flight()]})}
    result = cli(*verb)
    assert (result.out.split(), result.err) == (ids, "")


def test_words_that_do_not_fit_the_data_go_to_standard_error(fake: FakeTower, cli: Cli) -> None:
    fake.routes["GET /runs"] = RUNS
    result = cli("ps", "-a", "-n", "2")
    assert "--limit" in result.err
    assert "--limit" not in result.out


def test_bytes_pass_a_pipe_unchanged(fake: FakeTower) -> None:
    data = bytes(range(256))
    fake.routes[f"GET /runs/{documents.RUN}/answer"] = raw(200, data, "text/plain")
    done = subprocess.run([*TOWER, "show", documents.RUN, "--answer"], capture_output=True, check=True)
    assert done.stdout == data
