"""The checks themselves: nothing is found where nothing happened, and each of them can find something."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from collections.abc import Callable, Iterator

import pytest

from crash.agent import ticks_of
from crash.factory import Client, Factory, factory
from crash.invariants import KINDS, examine, look_at_records


@pytest.fixture(scope="module")
def done() -> Iterator[Factory]:
    """A factory in which one piece of work came to its end and nothing went wrong."""
    with factory() as made:
        made.open_gate()
        made.must_serve()
        client = Client(made)
        unfinished = made.finish(client)
        findings = examine(made, client.acknowledged, unfinished)
        assert not findings, str(findings)
        yield made


def sql(text: str) -> Callable[[Factory], None]:
    def carry_out(made: Factory) -> None:
        with contextlib.closing(sqlite3.connect(made.state / "tower.db")) as database, database:
            database.execute(text)

    return carry_out


def write(text: str) -> Callable[[Factory], None]:
    """A line in the diary, with the last run to begin in it."""

    def carry_out(made: Factory) -> None:
        _, run, chain, pid, ticks, token = made.diary("began")[-1]
        with (made.world / "diary").open("a") as diary:
            diary.write(text.format(run=run, chain=chain, pid=pid, ticks=ticks, token=token) + "\n")

    return carry_out


def stray(name: str) -> Callable[[Factory], None]:
    return lambda made: (made.state / name).touch()


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (write("sent {run} flt_unknown"), "lost", "acknowledged and is unknown"),
        (sql("UPDATE flights SET outcome = 'failed' WHERE receiver = 'second'"), "lost", "is landed (failed)"),
        (write("began {run} {chain} 1 1 x"), "doubled", "began 2 times"),
        (write("overlap {run} run_other"), "doubled", "while run_other was alive"),
        (sql("UPDATE flights SET receiver = 'second', body = 'carry on'"), "doubled", "flights say the same"),
        (sql("UPDATE run_flights SET flight = (SELECT min(id) FROM flights)"), "doubled", "untold"),
        (stray("exit.json.1"), "leaked", "exit.json.1 lies in the state folder"),
        (stray("k/OLD"), "leaked", "k/OLD"),
        (stray("snapshots/run_old"), "leaked", "snapshots/run_old"),
        (sql("UPDATE runs SET state = 'running' WHERE agent = 'first'"), "leaked", "is running"),
        (sql("UPDATE processes SET ended_at = NULL"), "leaked", "is open"),
        (sql("UPDATE itineraries SET fuel_reserved = 1"), "leaked", "reserved"),
        (sql("UPDATE itineraries SET fuel_spent = fuel_spent + 1"), "untrue", "spent"),
        (sql("UPDATE itineraries SET runs_started = 3"), "untrue", "counts 3 runs"),
        (sql("UPDATE runs SET cost = NULL WHERE agent = 'first'"), "untrue", "cost None"),
        (sql("UPDATE runs SET started_at = NULL WHERE agent = 'first'"), "untrue", "says that it never started"),
        (sql("DELETE FROM events WHERE type = 'flight.landed'"), "untrue", "has the events"),
        (sql("INSERT INTO events (at, type, run) SELECT 1, 'run.ended', id FROM runs"), "untrue", "has the events"),
    ],
)
def test_each_harm_is_seen(done: Factory, harm: Callable[[Factory], None], kind: str, words: str) -> None:
    kept = {path: path.read_bytes() for path in (done.state / "tower.db", done.world / "diary")}
    before = set(done.state.rglob("*"))
    assert not look_at_records(done, [])
    try:
        harm(done)
        found = look_at_records(done, [])
        assert any(words in sentence for sentence in getattr(found, kind)), str(found)
    finally:
        for path in set(done.state.rglob("*")) - before:
            path.unlink()
        for path, data in kept.items():
            path.write_bytes(data)


def test_a_process_that_was_left_is_seen(done: Factory) -> None:
    left = subprocess.Popen(["sleep", "60"])
    kept = (done.world / "diary").read_bytes()
    try:
        with (done.world / "diary").open("a") as diary:
            diary.write(f"child run_x {left.pid} {ticks_of(left.pid)}\n")
        assert any(f"process {left.pid} of run_x is alive" in one for one in look_at_records(done, []).leaked)
    finally:
        left.kill()
        left.wait()
        (done.world / "diary").write_bytes(kept)


def test_a_lock_that_is_held_is_seen(done: Factory) -> None:
    with subprocess.Popen(["flock", str(done.state), "sh", "-c", "echo; read x"], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert "the lock on the state folder is held" in look_at_records(done, []).leaked
        holder.communicate(b"\n")


def test_the_kinds_are_the_columns() -> None:
    assert KINDS == ("lost", "doubled", "leaked", "untrue")
