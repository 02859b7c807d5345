"""What must hold after any crash, looked at when the tower has gone on and the work is over.

The records are read from the database, the truth from the agents' diary, the processes of the machine and the folder:
none of it is asked from the tower but what its doors are for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.agent import COST_USD, is_alive
from crash.factory import KEY, Factory, wait_until
from tower.client.api import Api
from tower.core.errors import TowerError

Row = dict[str, Any]

COST = round(COST_USD * 1_000_000)
"""Micro-dollars."""

SELECT = "SELECT * FROM "

AT_THE_TOP = re.compile(
    r"tower\.db(-wal|-shm)?|socket\.path|tower\.sock|k|hangars|snapshots|ballast|door|http\.port|\.gitignore|hangars/[a-z]+"
    # The place of a resident whose agent is still in the configuration is kept.
    r"|snapshots/resident-[a-z]+(/.*)?"
    # Names of trees are kept for good, and what was half written with them is not.
    r"|trees(/(?!.*(\.lock|/tmp_)).*)?"
)
OF_A_RUN = re.compile(
    r"payload\.md|argv\.json|start|stdout\.log|stderr\.log|exit\.json|answer\.txt|out|out/report|tmp|keeper\.error"
    r"|turns(/[0-9]+\.(told|void))?"
)


KINDS = ("lost", "doubled", "leaked", "untrue")


@dataclass(slots=True)
class Findings:
    """What did not hold, in sentences; empty lists are what is hoped for."""

    lost: list[str] = field(default_factory=list)
    """Acknowledged work that is unknown, or did not come to its end."""
    doubled: list[str] = field(default_factory=list)
    """Work that ran twice without a handover, or at the same time, or was sent twice."""
    leaked: list[str] = field(default_factory=list)
    """Processes, slots, snapshots, tokens, sockets, locks, files."""
    untrue: list[str] = field(default_factory=list)
    """Records that do not say what happened, money among them."""

    def __bool__(self) -> bool:
        return any(getattr(self, kind) for kind in KINDS)

    def __str__(self) -> str:
        return "\n".join(f"{kind}: {sentence}" for kind in KINDS for sentence in getattr(self, kind))

    def counts(self) -> list[int]:
        """How many of each kind, in order."""
        return [len(getattr(self, kind)) for kind in KINDS]


class Records:
    """All rows of the database."""

    def __init__(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.row_factory = sqlite3.Row
            self.sound = database.execute("PRAGMA integrity_check").fetchone()[0]
            names = ("flights", "runs", "processes", "itineraries", "events", "run_flights")
            rows = {name: [dict(row) for row in database.execute(SELECT + name)] for name in names}
        self.flights = {row["id"]: row for row in rows["flights"]}
        self.runs = {row["id"]: row for row in rows["runs"]}
        self.processes, self.itineraries, self.events = rows["processes"], rows["itineraries"], rows["events"]
        self.runs_of: dict[str, list[Row]] = defaultdict(list)
        for link in sorted(rows["run_flights"], key=lambda link: link["run"]):
            self.runs_of[link["flight"]].append(self.runs[link["run"]])


def examine(
    factory: Factory, acknowledged: list[str], unfinished: str | None, *, may_fail: bool = False, unsynced: bool = False
) -> Findings:
    """Look at everything. The tower is alive when this is called, and has been stopped when it returns.

    `may_fail`: a flight may also have ended otherwise than well, if its record says why; for faults that a run is
    rightly ended by, such as a folder that cannot be written. `unsynced`: after a power cut, what a program reported
    and did not sync may be gone; then its cost is unknown, and must be said to be.
    """
    found = Findings()
    if unfinished:
        found.lost.append(f"gave up waiting for {unfinished}\n{factory.log_tail()}")
    # Of a resident the record comes a moment after its process has gone.
    wait_until(lambda: not list(_still_held(factory)), seconds=5)
    found.leaked += _still_held(factory)
    found.leaked += _tokens(factory)
    assert factory.process is not None
    if factory.process.poll() is None:
        factory.process.terminate()
        try:
            code = factory.process.wait(20)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            found.untrue.append(f"told to end, the tower ended with {code}\n{factory.log_tail()}")
    rest = look_at_records(factory, acknowledged, may_fail=may_fail, unsynced=unsynced)
    return Findings(*(getattr(found, kind) + getattr(rest, kind) for kind in KINDS))


def look_at_records(
    factory: Factory, acknowledged: list[str], *, may_fail: bool = False, unsynced: bool = False
) -> Findings:
    """All that can be looked at when the tower is gone."""
    records = Records(factory.state / "tower.db")
    damage = [] if records.sound == "ok" else [f"the database is damaged: {records.sound}"]
    return Findings(
        lost=list(_lost(factory, records, acknowledged, may_fail=may_fail)),
        doubled=list(_doubled(factory, records)),
        leaked=[*_processes(factory), *_rows_left(records), *_files(factory)],
        untrue=[*damage, *_money(records, unsynced=unsynced), *_story(factory, records)],
    )


def _lost(factory: Factory, records: Records, acknowledged: list[str], *, may_fail: bool) -> Iterator[str]:
    sent = [line[2] for line in factory.diary("sent")]
    for identity in {*acknowledged, *sent}:
        flight = records.flights.get(identity)
        if flight is None:
            yield f"{identity} was acknowledged and is unknown"
        elif flight["outcome"] != "succeeded" and not (may_fail and flight["outcome"] and flight["reason"]):
            yield f"{identity} is {flight['state']} ({flight['outcome']}): {flight['reason']}"


def _doubled(factory: Factory, records: Records) -> Iterator[str]:
    for run, times in Counter(line[1] for line in factory.diary("began")).items():
        if times > 1:
            yield f"{run} began {times} times"
    for line in factory.diary("overlap"):
        yield f"{line[1]} began while {line[2]} was alive"
    same = Counter((one["itinerary"], one["receiver"], one["body"]) for one in records.flights.values())
    yield from (f"{times} flights say the same: {what}" for what, times in same.items() if times > 1)
    if sum(one["key"] == KEY for one in records.flights.values()) > 1:
        yield "one key made several flights"
    began = {line[1] for line in factory.diary("began")}
    for flight, runs in records.runs_of.items():
        earlier: str | None = None
        for run in runs:
            if run["id"] not in began:
                continue
            if earlier is not None and not _has_handover(factory, run, earlier):
                yield f"{flight} was begun by {earlier} and again by {run['id']} (cause {run['cause']}), untold"
            earlier = run["id"]


def _has_handover(factory: Factory, run: Row, earlier: str) -> bool:
    payload = factory.state / "hangars" / run["agent"] / run["id"] / "payload.md"
    told = payload.read_text() if payload.exists() else ""
    return run["cause"] == "recovery" and "twice is worse than late" in told and _chain_names(told, run, earlier)


def _chain_names(told: str, run: Row, earlier: str) -> bool:
    """The note names the run that it follows; one between them that never began is as good."""
    return earlier in told or (run["follows_run"] is not None and run["follows_run"] in told)


def _still_held(factory: Factory) -> Iterator[str]:
    try:
        status = factory.api.get("/status")
    except TowerError as error:
        yield f"no status: {error}"
        return
    if status["slots"]["used"] or status["runs"]:
        yield f"slots used: {status['slots']}, runs {[run['id'] for run in status['runs']]}"
    if any(status["queue"].values()):
        yield f"the queue is not empty: {status['queue']}"


def _tokens(factory: Factory) -> Iterator[str]:
    for line in factory.diary("began"):
        api = Api(str(factory.state / "tower.sock"), {"LAYOVER_RUN_TOKEN": line[5]}, None)
        try:
            api.post("/flights", {"to": "second", "body": "from beyond", "key": f"beyond-{line[1]}"})
        except TowerError as error:
            if error.code != "bad-token":
                yield f"the token of {line[1]} was answered with {error.code}"
        else:
            yield f"the token of {line[1]}, which is over, still sends"


def _processes(factory: Factory) -> Iterator[str]:
    for pid, ticks in factory.nurseries.items():
        # It sees its tower go, and goes as well.
        if not wait_until(lambda pid=pid, ticks=ticks: not is_alive(pid, ticks), seconds=2):
            yield f"process {pid}, which forked keepers, outlives its tower"
    for pid in factory.keepers():
        yield f"keeper {pid} is alive"
    for pid in factory.processes():
        yield f"process {pid} of a run is alive"
    for line in factory.diary("began", "child"):
        pid, ticks = (line[3], line[4]) if line[0] == "began" else (line[2], line[3])
        if is_alive(int(pid), int(ticks)):
            yield f"process {pid} of {line[1]} is alive ({line[0]})"


def _rows_left(records: Records) -> Iterator[str]:
    yield from (f"run {run['id']} is {run['state']}" for run in records.runs.values() if run["state"] != "ended")
    yield from (f"process {one['id']} is open" for one in records.processes if one["ended_at"] is None)
    yield from (
        f"{one['id']} has {one['fuel_reserved']} reserved" for one in records.itineraries if one["fuel_reserved"]
    )


def _files(factory: Factory) -> Iterator[str]:
    state = factory.state
    for path in sorted(state.rglob("*")):
        name = str(path.relative_to(state))
        parts = name.split("/", 3)
        known = (
            OF_A_RUN.fullmatch(parts[3])
            if len(parts) == 4
            else len(parts) == 3 and parts[2].startswith(("run_", "prc_"))
        )
        if not (AT_THE_TOP.fullmatch(name) or (parts[0] == "hangars" and known)):
            yield f"{name} lies in the state folder"
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield "the lock on the state folder is held"
    finally:
        os.close(folder)


def _money(records: Records, *, unsynced: bool) -> Iterator[str]:
    for chain in records.itineraries:
        runs = [run for run in records.runs.values() if run["itinerary"] == chain["id"]]
        spent = sum(run["charged"] or 0 for run in runs)
        if spent != chain["fuel_spent"]:
            yield f"{chain['id']} spent {chain['fuel_spent']}, its runs {spent}"
        # What a wall kept from working does not use up the chain's runs.
        counted = sum(run["started_at"] is not None and run["outcome"] != "unavailable" for run in runs)
        if counted != chain["runs_started"]:
            yield f"{chain['id']} counts {chain['runs_started']} runs, {counted} started"
    for run in records.runs.values():
        if run["charged"] is None or run["reserved"] or (run["cost"] is not None and run["charged"] != run["cost"]):
            yield f"{run['id']} cost {run['cost']}, was charged {run['charged']} and has {run['reserved']} reserved"
        is_known = run["cost"] is not None or (unsynced and run["cost_source"] == "unreported")
        if run["cost"] not in (None, COST) or (run["outcome"] == "succeeded" and not is_known):
            yield f"{run['id']} ({run['outcome']}) cost {run['cost']}"


def _story(factory: Factory, records: Records) -> Iterator[str]:
    began, ended = ({line[1] for line in factory.diary(kind)} for kind in ("began", "ended"))
    told: dict[str, Counter[str]] = defaultdict(Counter)
    for event in records.events:
        for subject in (event["run"], event["flight"]):
            if subject:
                told[subject][event["type"]] += 1
    yield from (f"{run} began, and no record knows it" for run in began - records.runs.keys())
    for run in records.runs.values():
        events, identity = told[run["id"]], run["id"]
        if (
            events["run.claimed"] != 1
            or events["run.ended"] + events["run.not-started"] != 1
            or events["run.started"] > 1
        ):
            yield f"{identity} has the events {dict(events)}"
        if identity in began and (run["started_at"] is None or events["run.not-started"]):
            yield f"{identity} began, and its record ({run['outcome']}) says that it never started"
        if run["outcome"] == "succeeded" and identity not in ended:
            yield f"{identity} succeeded without having ended"
        if run["outcome"] == "interrupted" and run["interruption"] is None:
            yield f"{identity} was interrupted by nothing"
    for flight in records.flights.values():
        if flight["state"] == "landed" and told[flight["id"]]["flight.landed"] != 1:
            yield f"{flight['id']} has the events {dict(told[flight['id']])}"
