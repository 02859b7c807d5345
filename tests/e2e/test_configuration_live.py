"""Editing the file of a running tower: good edits are live, bad ones change nothing, running work is untouched."""

from __future__ import annotations

import shutil
import subprocess

from e2e.daemon_process import Daemon, eventually

ONE = """
[agents.one]
description = "Answers"
runner = "cmd:echo {answer}"
prompt = "Go."
entry = true
"""

SLOW = """
[agents.slow]
description = "Waits for a gate"
runner = '''cmd:while [ ! -e {gate} ]; do sleep 0.05; done; echo through'''
prompt = "Go."
entry = true
access = "read-only"
"""

CHOOSY = """
[runners.mine]
command = ["echo", "{model}"]
[agents.one]
description = "Says how it was asked"
runner = "mine"
model = "none"
prompt = "Go."
entry = true
"""


def test_an_edit_adds_an_agent_without_touching_what_runs(daemon: Daemon) -> None:
    gate = daemon.folder / "gate"
    daemon.configure(SLOW.format(gate=gate))
    daemon.start()
    running = daemon.until(daemon.send("slow")["id"], lambda one: one["state"] == "running")
    pid = running["runs"][0]["pid"]
    daemon.configure(SLOW.format(gate=gate) + ONE.format(answer="here"))
    eventually(lambda: "one" in [agent["name"] for agent in daemon.api.get("/status")["agents"]])
    flight = daemon.landed(daemon.send("one")["id"])
    assert daemon.answer(flight["runs"][0]["id"]) == "here"
    assert flight["runs"][0]["generation"] == 2
    assert daemon.flight(running["id"])["runs"][0]["pid"] == pid
    gate.touch()
    done = daemon.landed(running["id"])
    assert (done["outcome"], done["runs"][0]["generation"]) == ("succeeded", 1)


def test_a_bad_edit_changes_nothing_and_is_reported_until_it_is_mended(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="good"))
    daemon.start()
    daemon.config.write_text(daemon.config.read_text() + "\n[agents.two\nrunner = \n")
    problems = eventually(lambda: daemon.api.get("/status")["problems"])
    assert problems[0]["line"] > 0
    assert problems[0]["file"].endswith("layover.toml")
    shown = daemon.tower("status")
    assert shown.returncode == 3
    assert "layover.toml:" in shown.stdout
    flight = daemon.landed(daemon.send("one")["id"])
    assert daemon.answer(flight["runs"][0]["id"]) == "good"
    daemon.configure(ONE.format(answer="better"))
    eventually(lambda: not daemon.api.get("/status")["problems"])
    flight = daemon.landed(daemon.send("one")["id"])
    assert daemon.answer(flight["runs"][0]["id"]) == "better"


def test_reload_prints_what_changed_or_what_is_wrong(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="a"))
    daemon.start()
    # Without a watcher's help: the file is changed and looked at in the same moment.
    daemon.configure(ONE.format(answer="b") + ONE.replace("agents.one", "agents.two").format(answer="c"))
    done = daemon.tower("reload")
    assert done.returncode == 0, done.stderr
    daemon.config.write_text("")
    refused = daemon.tower("reload")
    assert refused.returncode == 78
    assert "layover.toml" in refused.stdout + refused.stderr


def test_what_a_reload_would_change_is_said_before_and_what_is_live_is_drawn(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="a"))
    daemon.start()
    assert daemon.tower("config", "diff").stdout == ""
    other = daemon.config.with_name("other.toml")
    other.write_text(daemon.config.read_text() + ONE.replace("agents.one", "agents.two").format(answer="c"))
    done = daemon.tower("config", "diff", "--from", str(other), "--config", str(daemon.config))
    assert done.stdout.splitlines()[-1].split("\t")[:2] == ["two", "removed"]
    other.replace(daemon.config)
    eventually(lambda: [it["name"] for it in daemon.api.get("/graph?format=json")["agents"]] == ["one", "two"])
    assert daemon.api.get("/agents/two")["values"]["entry"] == {"value": True, "origin": "agent"}


def test_a_removed_agent_s_flights_are_held_and_released_when_it_returns(daemon: Daemon) -> None:
    both = ONE.format(answer="one") + ONE.replace("agents.one", "agents.two").format(answer="two")
    daemon.configure(both)
    daemon.start()
    daemon.tower("drain", check=True)
    flight = daemon.send("two")
    daemon.configure(ONE.format(answer="one"))
    eventually(lambda: len(daemon.api.get("/status")["agents"]) == 1)
    daemon.tower("resume", check=True)
    held = daemon.until(flight["id"], lambda one: one["state"] == "held")
    assert held["held_reason"] == "agent"
    assert "two" in held["reason"]
    daemon.configure(both)
    assert daemon.landed(flight["id"])["outcome"] == "succeeded"


def test_what_cannot_change_while_running_is_said(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="one"))
    daemon.start()
    daemon.configure(ONE.format(answer="two"), layover='socket = "other.sock"')
    eventually(lambda: daemon.api.get("/status")["needs_restart"])
    flight = daemon.landed(daemon.send("one")["id"])
    assert daemon.answer(flight["runs"][0]["id"]) == "two"


def test_every_way_of_saving_is_seen(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="start"))
    daemon.start()

    def in_place(text: str) -> None:
        daemon.config.write_text(text)

    def renamed(text: str) -> None:
        new = daemon.folder / ".layover.toml.swp"
        new.write_text(text)
        new.rename(daemon.config)

    def removed_first(text: str) -> None:
        daemon.config.unlink()
        daemon.config.write_text(text)

    def by_sed(text: str) -> None:
        before = daemon.config.read_text()
        wanted = text.split("cmd:echo ")[1].split('"', maxsplit=1)[0]
        present = before.split("cmd:echo ")[1].split('"')[0]
        subprocess.run(["sed", "-i", f"s/echo {present}/echo {wanted}/", str(daemon.config)], check=True)

    text = daemon.config.read_text()
    for number, save in enumerate([in_place, renamed, removed_first, by_sed] * 3):
        save(text.replace("start", f"v{number}"))
        generation = number + 2
        eventually(lambda generation=generation: daemon.api.get("/status")["generation"]["number"] == generation)


def generation(daemon: Daemon) -> int:
    return int(daemon.api.get("/status")["generation"]["number"])


def test_included_files_are_followed(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="one"), layover='include = ["agents/*.toml"]')
    daemon.start()
    two = ONE.replace("agents.one", "agents.two")
    (daemon.folder / "agents").mkdir()
    (daemon.folder / "agents" / "two.toml").write_text(two.format(answer="2"))
    eventually(lambda: generation(daemon) == 2)
    assert daemon.answer(daemon.landed(daemon.send("two")["id"])["runs"][0]["id"]) == "2"
    (daemon.folder / "agents" / "two.toml").write_text(two.format(answer="two"))
    eventually(lambda: generation(daemon) == 3)
    (daemon.folder / "agents" / "three.toml").write_text("[agents.one]\nrunner = 'none'\n")
    (problem,) = eventually(lambda: daemon.api.get("/status")["problems"])
    assert problem["file"].endswith("agents/three.toml")
    assert "is declared in" in problem["sentence"]
    (daemon.folder / "agents" / "three.toml").unlink()
    eventually(lambda: not daemon.api.get("/status")["problems"])
    assert generation(daemon) == 3
    shutil.rmtree(daemon.folder / "agents")
    eventually(lambda: [agent["name"] for agent in daemon.api.get("/status")["agents"]] == ["one"])


def test_a_config_map_is_followed_through_its_swaps(daemon: Daemon) -> None:
    """As an orchestrator mounts it: every file is a link through `..data`, which is swapped by a rename."""
    daemon.configure(ONE.format(answer="v1").replace('prompt = "Go."', 'prompt_file = "one.md"'))
    text = daemon.config.read_text()
    daemon.config.unlink()

    def mount(version: str) -> None:
        (daemon.folder / f"..{version}").mkdir()
        (daemon.folder / f"..{version}" / "layover.toml").write_text(text.replace("v1", version))
        (daemon.folder / f"..{version}" / "one.md").write_text(f"Go {version}.\n")
        (daemon.folder / "..new").symlink_to(f"..{version}")
        (daemon.folder / "..new").rename(daemon.folder / "..data")

    mount("v1")
    for name in ("layover.toml", "one.md"):
        (daemon.folder / name).symlink_to(f"..data/{name}")
    daemon.start()

    def answered() -> str:
        return daemon.answer(daemon.landed(daemon.send("one")["id"])["runs"][0]["id"])

    for number, version in enumerate(["v2", "v3"], start=2):
        mount(version)
        # A look in the middle of the swap may meet files of both; another one follows it.
        eventually(lambda version=version: answered() == version)
        shutil.rmtree(daemon.folder / f"..v{number - 1}")
    eventually(lambda: not daemon.api.get("/status")["problems"])


def test_a_half_written_file_is_a_bad_edit_until_it_is_whole(daemon: Daemon) -> None:
    daemon.configure(ONE.format(answer="one"))
    daemon.start()
    before = daemon.config.read_text()
    two = ONE.replace("agents.one", "agents.two").format(answer="two")
    cut = len(before) + two.index("cmd:echo") + 3
    whole = before + two
    daemon.config.write_text(whole[:cut])
    eventually(lambda: daemon.api.get("/status")["problems"])
    assert generation(daemon) == 1
    with daemon.config.open("a") as file:
        file.write(whole[cut:])
    eventually(lambda: generation(daemon) == 2)
    assert not daemon.api.get("/status")["problems"]
    assert daemon.answer(daemon.landed(daemon.send("two")["id"])["runs"][0]["id"]) == "two"
    assert generation(daemon) == 2


def test_a_folder_of_prompts_that_vanishes_and_returns(daemon: Daemon) -> None:
    prompts = daemon.folder / "prompts"
    prompts.mkdir()
    (prompts / "one.md").write_text("Go.\n")
    daemon.configure(ONE.format(answer="here").replace('prompt = "Go."', 'prompt_file = "one.md"'))
    daemon.start()
    prompts.rename(daemon.folder / "away")
    (problem,) = eventually(lambda: daemon.api.get("/status")["problems"])
    assert "was not found; tried" in problem["sentence"]
    # No run is ever started uninstructed: the last good generation has its texts.
    run = daemon.landed(daemon.send("one")["id"])["runs"][0]
    assert (daemon.answer(run["id"]), run["generation"]) == ("here", 1)
    (daemon.folder / "away").rename(prompts)
    eventually(lambda: not daemon.api.get("/status")["problems"])
    assert generation(daemon) == 1
    (prompts / "one.md").write_text("Go on.\n")
    eventually(lambda: generation(daemon) == 2)


def test_files_that_a_prompt_includes_are_followed(daemon: Daemon) -> None:
    prompts = daemon.folder / "prompts"
    prompts.mkdir()
    (prompts / "one.md").write_text("Go.\n\n@include rules.md\n")
    (prompts / "rules.md").write_text("Slowly.\n")
    daemon.configure(ONE.format(answer="here").replace('prompt = "Go."', 'prompt_file = "one.md"'))
    daemon.start()
    first = daemon.landed(daemon.send("one")["id"])["runs"][0]
    assert daemon.tower("show", first["id"], "--payload").stdout.count("Go.\n\nSlowly.\n") == 1
    (prompts / "rules.md").write_text("Fast.\n")
    eventually(lambda: generation(daemon) == 2)
    second = daemon.landed(daemon.send("one")["id"])["runs"][0]
    assert daemon.tower("show", second["id"], "--payload").stdout.count("Go.\n\nFast.\n") == 1
    assert first["prompt_sha256"] != second["prompt_sha256"]
    assert first["prompt_files"].keys() == second["prompt_files"].keys() == {f"{prompts}/one.md", f"{prompts}/rules.md"}
    (prompts / "one.md").write_text("Go.\n\n@include more/rules.md\n")
    (problem,) = eventually(lambda: daemon.api.get("/status")["problems"])
    assert (problem["line"], "more/rules.md, which was not found" in problem["sentence"]) == (3, True)
    (prompts / "more").mkdir()
    (prompts / "more" / "rules.md").symlink_to("../../elsewhere.md")
    (daemon.folder / "elsewhere.md").write_text("No.\n")
    eventually(lambda: "leads outside" in daemon.api.get("/status")["problems"][0]["sentence"])
    (prompts / "more" / "rules.md").unlink()
    (prompts / "more" / "rules.md").write_text("Well.\n")
    eventually(lambda: not daemon.api.get("/status")["problems"])
    assert generation(daemon) == 3


def test_no_edit_touches_a_process_that_runs(daemon: Daemon) -> None:
    """B061: an edit of anything at all, and what runs has its pid."""
    gate = daemon.folder / "gate"
    agents = "".join(SLOW.format(gate=gate).replace("agents.slow", f"agents.slow{number}") for number in range(5))
    daemon.configure(agents, defaults="max_concurrent_runs = 5")
    daemon.start()
    flights = [daemon.send(f"slow{number}")["id"] for number in range(5)]
    pids = [daemon.until(it, lambda one: one["state"] == "running")["runs"][0]["pid"] for it in flights]
    edits = [
        (agents + "# a comment\n", "max_concurrent_runs = 5"),
        (agents + ONE.format(answer="unrelated"), "max_concurrent_runs = 5"),
        (agents, "max_concurrent_runs = 5\nmax_hops = 3"),
        (agents.replace('"Waits for a gate"', '"Waits"'), "max_concurrent_runs = 5"),
    ]
    for number, (text, defaults) in enumerate(edits, start=2):
        daemon.configure(text, defaults=defaults)
        eventually(lambda number=number: generation(daemon) == number)
    assert [daemon.flight(it)["runs"][0]["pid"] for it in flights] == pids
    gate.touch()
    for it in flights:
        done = daemon.landed(it)
        assert (done["outcome"], len(done["runs"]), done["runs"][0]["generation"]) == ("succeeded", 1, 1)


def test_a_busy_agent_that_is_removed_ends_its_run_while_others_go_on(daemon: Daemon) -> None:
    """B062: nobody waits for it."""
    gate = daemon.folder / "gate"
    daemon.configure(SLOW.format(gate=gate) + ONE.format(answer="on"))
    daemon.start()
    busy = daemon.send("slow")["id"]
    daemon.until(busy, lambda one: one["state"] == "running")
    daemon.configure(ONE.format(answer="on"))
    eventually(lambda: generation(daemon) == 2)
    assert daemon.answer(daemon.landed(daemon.send("one")["id"])["runs"][0]["id"]) == "on"
    assert daemon.flight(busy)["state"] == "running"
    gate.touch()
    assert daemon.landed(busy)["outcome"] == "succeeded"


def test_what_a_sender_chooses_reaches_the_program_and_is_shown(daemon: Daemon) -> None:
    daemon.configure(CHOOSY)
    daemon.start()
    chosen = ("--choose", "one.model=large", "--choose", "one.args=--deep well")
    first = daemon.tower("send", "one", "go", *chosen).stdout.strip()
    assert daemon.answer(daemon.landed(first)["runs"][0]["id"]) == "large --deep well"
    assert daemon.tower("send", "--wait", "one", "go").stdout == "none\n"
    story = daemon.tower("show", daemon.flight(first)["itinerary"])
    assert "chosen" in story.stdout
    assert "one: model large, args '--deep well'" in story.stdout
    refused = daemon.tower("send", "two", "go", "--choose", "onne.model=large")
    assert (refused.returncode, "cannot find an agent called" in refused.stderr) == (1, True)
