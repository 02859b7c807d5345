"""The reference scenario, `config/loop`: joins and a loop, with the tower killed and started again in the middle."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.daemon_process import Daemon, eventually

EXAMPLE = Path(__file__).parents[2] / "config" / "loop"
EXAMPLE_ROUNDS = 3


def prepare(daemon: Daemon, rounds: int) -> None:
    """The example, with a tester who is content after so many rounds, on the daemon's own repository."""
    script = (EXAMPLE / "script.toml").read_text()
    needed = f"lines = {EXAMPLE_ROUNDS}, then"
    assert script.count(needed) == 1
    (daemon.folder / "script.toml").write_text(script.replace(needed, f"lines = {rounds}, then"))
    shutil.copy(EXAMPLE / "layover.toml", daemon.config)


def story(daemon: Daemon, itinerary: str) -> dict[str, Any]:
    return daemon.api.get(f"/itineraries/{itinerary}")


def carried_out(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs whose program was started: a claim that a kill left without a start is not one."""
    return [run for run in told["runs"] if run["started_at"]]


def by_agent(told: dict[str, Any]) -> Counter[str]:
    return Counter(run["agent"] for run in carried_out(told))


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("rounds", "kills"),
    [
        (2, (6,)),
        pytest.param(10, (1, 4, 8, 13, 19, 26, 32), marks=pytest.mark.slow),
    ],
)
def test_everything_happens_once_however_often_the_tower_is_killed(
    daemon: Daemon, rounds: int, kills: tuple[int, ...]
) -> None:
    """B088: whoever publishes is cut off in the middle, and a person decides whether it is done again."""
    prepare(daemon, rounds)
    daemon.start()
    sent = daemon.api.post("/flights", {"pipeline": "feature"})
    itinerary = sent["itinerary"]
    for number in kills:
        eventually(lambda number=number: story(daemon, itinerary)["runs_started"] >= number, seconds=60)
        daemon.kill()
        daemon.start()
    told = eventually(lambda: found if (found := story(daemon, itinerary))["state"] != "working" else None, seconds=120)

    assert told["state"] == "waiting", [it for it in told["flights"] if it["state"] != "landed"]
    (held,) = [flight for flight in told["flights"] if flight["state"] == "held"]
    assert (held["to"], held["held_reason"]) == ("publisher", "recovery")
    cut_off = told["runs"][-1]["id"]
    daemon.tower("recover", cut_off, check=True)
    told = eventually(lambda: found if (found := story(daemon, itinerary))["state"] == "finished" else None)

    assert by_agent(told) == {
        "analyst": 2,
        "historian": 1,
        "librarian": 1,
        "developer": rounds + 1,
        "tester": rounds,
        "reviewer": rounds,
        "publisher": 2,
    }
    assert (daemon.tree / "greeting.txt").read_text().count("\n") == rounds
    assert (daemon.tree / "published.txt").read_text() == "published\n"
    assert {flight["state"] for flight in told["flights"]} == {"landed"}
    check_joins(told)
    check_budgets(told, rounds)
    last = daemon.payload(told["runs"][-1]["id"])
    assert cut_off in last
    assert "handover" in last


def check_joins(told: dict[str, Any]) -> None:
    """Each joined agent was woken with one flight of each sender, in the order of `from`."""
    flights = {flight["id"]: flight for flight in told["flights"]}
    for run in carried_out(told):
        senders = [flights[identity]["sender"]["name"] for identity in run["flights"]]
        if len(senders) > 1:
            assert senders in (["historian", "librarian"], ["tester", "reviewer"])
            assert run["agent"] in ("analyst", "developer")
    woken = Counter(identity for run in told["runs"] if run["outcome"] == "succeeded" for identity in run["flights"])
    assert set(woken.values()) == {1}, "a flight was told to two runs that succeeded"
    assert [join["parked"] for join in told["joins"]] == [[], []]


def check_budgets(told: dict[str, Any], rounds: int) -> None:
    runs = carried_out(told)
    assert told["runs_started"] == len(runs)
    assert told["cost_usd"] == pytest.approx(0.01 * len(runs))
    publishing = next(flight for flight in told["flights"] if flight["to"] == "publisher")
    # Person, helpers, analyst, developer, two hops a round, publisher.
    assert publishing["hops_remaining"] == told["max_hops"] - (4 + 2 * rounds + 1)


def test_the_story_names_who_sent_what_to_whom(daemon: Daemon) -> None:
    prepare(daemon, 1)
    daemon.start()
    done = daemon.tower("send", "-p", "feature", "--wait", "Greet.")
    assert done.returncode == 3, done.stderr
    assert "flight to analyst is queued" in done.stderr
    shown = daemon.tower("show", done.stderr.split("itinerary ")[1].split()[0], check=True).stdout
    lines = [line.split("\t")[1] for line in shown.splitlines() if "\t" in line]
    assert "historian -> analyst" in lines
    assert "reviewer -> developer" in lines
    assert "pipeline\tfeature" in shown
    assert "state\twaiting" in shown


RESIDENT = """
[agents.asker]
description = "Asks two"
runner = "fake:{script}"
prompt = "Ask."
entry = true
[agents.left]
description = "Answers"
runner = "fake:{script}"
prompt = "Answer."
[agents.right]
description = "Answers"
runner = "fake:{script}"
prompt = "Answer."
[agents.stays]
description = "Hears both"
runner = "fake:{script}"
prompt = "Hear."
resident = true
[[routes]]
from = "asker"
to = ["left", "right"]
[[routes]]
from = ["left", "right"]
to = "stays"
join = "all"
"""

SCRIPT = """
[[agents.asker.call]]
steps = [{ send = { to = "left", body = "?" } }, { send = { to = "right", body = "?" } }]
[[agents.left.call]]
steps = [{ send = { to = "stays", body = "left is well" } }]
[[agents.right.call]]
steps = [{ send = { to = "stays", body = "right is well" } }]
[[agents.stays.call]]
steps = [{ echo = "stdin" }]
"""


def test_a_join_is_one_turn_of_a_resident(daemon: Daemon) -> None:
    script = daemon.folder / "script.toml"
    script.write_text(SCRIPT)
    daemon.configure(RESIDENT.format(script=script), defaults='writers = "shared"')
    daemon.start()
    flight = daemon.send("asker")
    told = eventually(lambda: done if (done := story(daemon, flight["itinerary"]))["state"] == "finished" else None)
    (turn,) = [run for run in told["runs"] if run["agent"] == "stays"]
    assert (turn["turn"], turn["outcome"], len(turn["flights"])) == (1, "succeeded", 2)
    answer = daemon.answer(turn["id"])
    assert answer.index("left is well") < answer.index("right is well")
    assert {it["outcome"] for it in told["flights"]} == {"succeeded"}
