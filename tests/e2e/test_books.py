"""What the tower owes to nobody's memory: budgets, holds, joins, keys and approvals, through SIGKILLs of the tower."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.daemon_process import Daemon, eventually
from tower.core.errors import ConflictError

RESERVE = 2.0
FACTORY = """
[reserve]
fuel_usd = {reserve}

[runners.limited]
command = ["sh", "-c", {limited}]
output = "report"

[agents.planner]
description = "Asks two"
runner = "fake:{folder}/script.toml"
prompt = "Ask."
entry = true
fuel_usd = 1
reserve_usd = 0.3
[agents.left]
description = "Answers at once"
runner = "fake:{folder}/script.toml"
prompt = "Answer."
reserve_usd = 0.1
[agents.right]
description = "Answers when the gate opens"
runner = "fake:{folder}/script.toml"
prompt = "Answer."
reserve_usd = 0.15
[agents.merge]
description = "Hears both"
runner = "fake:{folder}/script.toml"
prompt = "Hear."
reserve_usd = 0.05
[agents.dear]
description = "Costs more than its chain has"
runner = "fake:{folder}/script.toml"
prompt = "Work."
entry = true
fuel_usd = 0.1
reserve_usd = 0.2
[agents.huge]
description = "Costs more than the factory has left"
runner = "fake:{folder}/script.toml"
prompt = "Work."
entry = true
fuel_usd = 5
reserve_usd = 1.9
[agents.guarded]
description = "Waits for a person"
runner = "fake:{folder}/script.toml"
prompt = "Work."
entry = true
approve = true
reserve_usd = 0.01
[agents.walled]
description = "Has no quota"
runner = "limited"
prompt = "Work."
entry = true
reserve_usd = 0.01

[[routes]]
from = "planner"
to = ["left", "right"]
[[routes]]
from = ["left", "right"]
to = "merge"
join = "all"
"""

LIMITED = (
    'test -e quota || { echo \'{"unavailable": "weekly limit", "retry_after_sec": 3000}\' >"$LAYOVER_REPORT"; exit 1; }'
)

SCRIPT = """
[[agents.planner.call]]
steps = [
  { report = { cost_usd = 0.25 } },
  { send = { to = "right", body = "?" } },
  { send = { to = "left", body = "?" } },
]
[[agents.left.call]]
steps = [{ report = { cost_usd = 0.07 } }, { send = { to = "merge", body = "left is well" } }]
[[agents.right.call]]
steps = [
  { report = { cost_usd = 0.11 } },
  { wait_for = { path = "gate", timeout = 60 } },
  { send = { to = "merge", body = "right is well" } },
]
[[call]]
steps = [{ report = { cost_usd = 0.02 } }, { echo = "stdin" }]
"""


def configured(daemon: Daemon, reserve: float = RESERVE) -> None:
    daemon.configure(
        FACTORY.format(folder=daemon.folder, reserve=reserve, limited=json.dumps(LIMITED)),
        defaults='writers = "shared"\nmax_concurrent_runs = 8',
    )


def books(daemon: Daemon) -> dict[str, Any]:
    """All that a restart must not change: of each chain its budgets, flights and joins; of the factory the rest."""
    status = daemon.api.get("/status")
    chains = [daemon.api.get(f"/itineraries/{one['id']}") for one in daemon.api.get("/itineraries")["itineraries"]]
    kept = ("state", "held_reason", "hops_remaining", "attempt", "key", "priority", "approved_by", "joined", "outcome")
    return {
        "reserve": status["reserve"],
        "circuits": status["circuits"],
        "chains": {
            chain["id"]: {
                "state": chain["state"],
                "fuel": chain["fuel"],
                "runs": (chain["runs_started"], chain["max_runs"]),
                "joins": chain["joins"],
                "flights": {one["id"]: {key: one[key] for key in kept} for one in chain["flights"]},
                "charged": {one["id"]: one["charged_usd"] for one in chain["runs"]},
            }
            for chain in chains
        },
    }


def held(daemon: Daemon, to: str, reason: str, **more: Any) -> dict[str, Any]:
    sent = daemon.send(to, **more)
    return daemon.until(sent["id"], lambda one: (one["state"], one["held_reason"]) == ("held", reason))


def in_the_middle(daemon: Daemon) -> tuple[str, dict[str, dict[str, Any]]]:
    """One flight of each kind that waits, and a chain with half of a join; the chain, and the flights by agent."""
    first = daemon.send("planner", "plan", key="night")
    chain = first["itinerary"]

    def half_joined() -> bool:
        story = daemon.api.get(f"/itineraries/{chain}")
        alive = [run["agent"] for run in story["runs"] if run["ended_at"] is None]
        return alive == ["right"] and [len(join["parked"]) for join in story["joins"]] == [1]

    eventually(half_joined)
    waiting = {
        "walled": held(daemon, "walled", "quota"),
        "dear": held(daemon, "dear", "fuel"),
        "huge": held(daemon, "huge", "reserve"),
        "guarded": held(daemon, "guarded", "approval"),
    }
    return chain, waiting


@pytest.mark.timeout(120)
def test_no_restart_changes_what_is_owed_and_everything_goes_on_from_there(daemon: Daemon) -> None:
    """B102: the tower is killed in the middle of everything, thrice, and once more when all is done."""
    (daemon.folder / "script.toml").write_text(SCRIPT)
    configured(daemon)
    daemon.start()
    chain, waiting = in_the_middle(daemon)
    before = books(daemon)
    fuel = before["chains"][chain]["fuel"]
    assert (fuel["spent_usd"], fuel["reserved_usd"]) == (pytest.approx(0.32), pytest.approx(0.15))
    assert before["reserve"]["reserved_usd"] == pytest.approx(0.15)
    assert before["circuits"]
    for _ in range(3):
        daemon.kill()
        daemon.start()
        assert books(daemon) == before

    check_keys(daemon)
    go_on(daemon, chain, waiting)
    after = books(daemon)
    daemon.kill()
    daemon.start()
    assert books(daemon) == after


def check_keys(daemon: Daemon) -> None:
    """Last night's answer is still the answer, and starts nothing."""
    asked = {"to": "planner", "body": "plan", "key": "night"}
    again = daemon.api.post("/flights", asked)
    assert again["duplicate"]
    with pytest.raises(ConflictError, match="night"):
        daemon.api.post("/flights", asked | {"body": "another plan"})
    assert len(daemon.api.get("/itineraries")["itineraries"]) == 5


def go_on(daemon: Daemon, chain: str, waiting: dict[str, dict[str, Any]]) -> None:
    """What was waited for comes, one after the other."""
    (daemon.tree / "gate").touch()
    story = eventually(lambda: one if (one := daemon.api.get(f"/itineraries/{chain}"))["state"] == "finished" else None)
    runs = {run["agent"]: run for run in story["runs"]}
    assert [run["agent"] for run in story["runs"]].count("merge") == 1
    told = daemon.answer(runs["merge"]["id"])
    assert told.index("left is well") < told.index("right is well")
    assert (story["fuel"]["spent_usd"], story["fuel"]["reserved_usd"]) == (pytest.approx(0.45), 0)
    assert story["runs_started"] == 4

    daemon.tower("approve", waiting["guarded"]["id"], "--note", "only this once", check=True)
    assert "only this once" in daemon.answer(daemon.landed(waiting["guarded"]["id"])["runs"][-1]["id"])
    daemon.tower("refuel", waiting["dear"]["itinerary"], "0.10", check=True)
    assert daemon.landed(waiting["dear"]["id"])["outcome"] == "succeeded"
    assert daemon.flight(waiting["walled"]["id"])["held_reason"] == "quota"
    (daemon.tree / "quota").touch()
    daemon.tower("runners", "reset", "limited", check=True)
    walled = daemon.landed(waiting["walled"]["id"])
    assert (walled["outcome"], walled["attempt"]) == ("succeeded", 1)
    assert daemon.flight(waiting["huge"]["id"])["held_reason"] == "reserve"
    configured(daemon, reserve=20)
    assert daemon.landed(waiting["huge"]["id"])["outcome"] == "succeeded"
    total = daemon.api.get("/costs")["total"]
    assert total["cost_usd"] == pytest.approx(0.25 + 0.07 + 0.11 + 4 * 0.02)
