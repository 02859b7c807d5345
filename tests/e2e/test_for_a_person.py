"""What wants a person is told once, and what a person asks for is done again with a handover."""

from __future__ import annotations

import json

from readonly import mounted_read_only, needs_mounts

from e2e.daemon_process import Daemon, eventually

FAILING = """
[agents.flaky]
description = "Fails until the gate is there"
runner = '''cmd:echo tried; [ -e {gate} ] || {{ echo no gate >&2; exit 3; }}'''
prompt = "Go."
entry = true
[agents.killed]
description = "Is killed"
runner = "cmd:kill -KILL $$"
prompt = "Go."
entry = true
recovery = "manual"
"""


def test_a_failed_flight_is_done_again_on_a_persons_word_and_a_good_one_is_not(daemon: Daemon) -> None:
    gate = daemon.folder / "gate"
    daemon.configure(FAILING.format(gate=gate))
    daemon.start()
    flight = daemon.landed(daemon.send("flaky", "the thing")["id"])
    assert flight["outcome"] == "failed"
    gate.touch()
    done = daemon.tower("retry", flight["runs"][0]["id"], "--note", "the gate is there now")
    assert done.returncode == 0, done.stderr
    again = daemon.until(flight["id"], lambda one: one["outcome"] == "succeeded")
    assert [run["attempt"] for run in again["runs"]] == [1, 2]
    told = daemon.payload(again["runs"][1]["id"])
    assert "the gate is there now" in told
    assert "no gate" in told
    assert told.rstrip().endswith("the thing")
    refused = daemon.tower("retry", flight["id"])
    assert refused.returncode == 1
    assert "succeeded" in refused.stderr


def test_a_person_is_told_once_of_each_thing_and_a_slow_command_harms_nobody(daemon: Daemon) -> None:
    told = daemon.folder / "told"
    daemon.environ["SECRET_X"] = "must-not-be-passed-on"
    command = f'["sh", "-c", "cat >> {told}; echo >> {told}; env >> {told}.env; sleep 600"]'
    daemon.configure(FAILING.format(gate="/nowhere"), layover=f"notify = {command}")
    daemon.start()
    flights = [daemon.send("killed")["id"] for _ in range(3)]
    for flight in flights:
        daemon.until(flight, lambda one: one["state"] == "held")
    document = json.loads(eventually(lambda: told.exists() and told.read_text().strip()))
    assert (document["type"], document["agent"], document["data"]["reason"]) == ("flight.held", "killed", "recovery")
    assert document["flight"] in flights
    assert "tower recover" in document["data"]["words"]
    assert "must-not-be-passed-on" not in eventually(lambda: (daemon.folder / "told.env").read_text())
    # The command still sleeps; everything else goes on, and the tower ends when it is told to.
    assert daemon.landed(daemon.send("flaky")["id"])["outcome"] == "failed"
    assert daemon.stop() == 0
    assert len(told.read_text().split()) == len(json.dumps(document).split())


def test_without_a_place_to_work_flights_wait_and_go_on_when_it_is_back(daemon: Daemon) -> None:
    daemon.configure(
        """
[agents.reader]
description = "Reads"
runner = "cmd:cat readme.txt"
prompt = "Go."
access = "read-only"
entry = true
"""
    )
    daemon.start()
    aside = daemon.folder / "aside"
    daemon.tree.rename(aside)
    flight = daemon.until(daemon.send("reader")["id"], lambda one: one["state"] == "held")
    assert flight["held_reason"] == "environment"
    assert str(daemon.tree.resolve()) in flight["reason"]
    assert flight["attempt"] == 1
    aside.rename(daemon.tree)
    assert daemon.landed(flight["id"])["outcome"] == "succeeded"


@needs_mounts
def test_a_writer_whose_tree_cannot_be_written_waits_and_costs_nothing(daemon: Daemon) -> None:
    daemon.configure(
        f"""
[agents.writer]
description = "Writes"
runner = "cmd:echo paid >> {daemon.folder}/cost; echo new > new.txt"
prompt = "Go."
entry = true
[agents.reader]
description = "Reads"
runner = "cmd:cat readme.txt"
prompt = "Go."
access = "read-only"
entry = true
"""
    )
    with mounted_read_only(daemon.tree):
        daemon.start()
        flight = daemon.until(daemon.send("writer")["id"], lambda one: one["state"] == "held")
        assert (flight["held_reason"], flight["runs"]) == ("environment", [])
        assert flight["reason"].startswith("writer has no place to work: ")
        assert "mounted read-only; mount it for writing" in flight["reason"]
        read = daemon.landed(daemon.send("reader")["id"])
        assert daemon.answer(read["runs"][-1]["id"]) == "committed"
        assert not (daemon.folder / "cost").exists()
    assert daemon.landed(flight["id"])["outcome"] == "succeeded"
    assert (daemon.tree / "new.txt").exists()


def test_a_start_without_a_place_to_work_says_what_is_missing(daemon: Daemon) -> None:
    daemon.configure('[agents.a]\ndescription = "d"\nrunner = "cmd:true"\nprompt = "p"\nentry = true\n')
    daemon.tree.rename(daemon.folder / "aside")
    for gone, advice in (("workspace", "bring it back, or make it"), ("workspace/a", "its disk is mounted")):
        daemon.config.write_text(daemon.config.read_text().replace('"workspace"', f'"{gone}"'))
        done = daemon.tower("serve", "--config", str(daemon.config))
        assert done.returncode not in (0, 69)
        assert "a has no place to work: there is no folder" in done.stderr
        assert advice in done.stderr
        assert "work_dir" in done.stderr
