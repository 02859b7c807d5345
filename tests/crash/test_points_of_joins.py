"""SIGKILL of the tower around a join: each delivery counts once, and the receiver wakes once with all of them."""

from __future__ import annotations

from collections import Counter

import pytest

from crash.factory import Client, Factory, Pump, factory, kill
from crash.invariants import Records, examine
from crash.matrix import wait_at


class Joined(Factory):
    """Who begins asks two, and both are joined before the one who ends."""

    CONFIGURATION = """
[agents.first]
description = "Begins the work and hands it out"
runner = '''{program} left right'''
prompt = "Begin."
access = "{access}"
entry = true
max_recovery_attempts = 9
[agents.left]
description = "Does one half"
runner = '''{program} second'''
prompt = "Go on."
access = "{other}"
max_recovery_attempts = 9
[agents.right]
description = "Does the other half"
runner = '''{program} second'''
prompt = "Go on."
access = "{other}"
max_recovery_attempts = 9
[agents.second]
description = "Ends the work"
runner = '''{program}'''
prompt = "End."
max_recovery_attempts = 9
[[routes]]
from = "first"
to = ["left", "right"]
[[routes]]
from = ["left", "right"]
to = "second"
join = "all"
"""


SENDS = 3
"""Of a person, and two of the one who begins; those that follow are the deliveries."""

POINTS = [
    # Deliveries: the first is parked, the second is all that was missing.
    ("send.before-commit", SENDS + 1),
    ("send.after-commit", SENDS + 1),
    ("send.before-commit", SENDS + 2),
    ("send.after-commit", SENDS + 2),
    # Endings: of the one who begins, of the halves, the second of which opens the join.
    ("settle.before", 2),
    ("settle.after", 2),
    ("settle.before", 3),
    ("settle.after", 3),
    ("settle.before", 4),
]
EVERY_DAY = {("send.before-commit", SENDS + 1), ("send.after-commit", SENDS + 2), ("settle.before", 3)}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("point", "passing"),
    [pytest.param(*it, marks=() if it in EVERY_DAY else pytest.mark.slow) for it in POINTS],
)
def test_a_join_survives_the_tower(point: str, passing: int) -> None:
    with factory(kind=Joined) as made:
        if point.startswith("settle"):
            made.open_gate()
        made.must_serve(environ={"TOWER_FAILPOINTS": f"{point}=stop"})
        client = Client(made)
        assert wait_at(made, point, passing, 40.0)
        kill(made.tower_pid)
        assert made.process is not None
        made.process.wait()
        made.must_serve()
        made.open_gate()
        with Pump(made):
            unfinished = made.finish(client)
            client.leave()
            findings = examine(made, client.acknowledged, unfinished)
        assert not findings, str(findings)
        _check_the_join(made)


def _check_the_join(made: Factory) -> None:
    records = Records(made.state / "tower.db")
    delivered = [flight for flight in records.flights.values() if flight["receiver"] == "second"]
    assert sorted(flight["sender_name"] for flight in delivered) == ["left", "right"]
    woken = {run["id"] for flight in delivered for run in records.runs_of[flight["id"]] if run["started_at"]}
    assert len(woken) == 1, "woken more than once"
    told = Counter(run["id"] for flight in delivered for run in records.runs_of[flight["id"]])
    assert set(told.values()) == {2}, "woken with half of it"
    assert made.count("since IS NOT NULL OR given_up", "waves") == 0
