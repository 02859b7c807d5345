"""docs/commands.md against the code: every verb, every option, every exit code, and none that is not there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest

from tower.cli import SECTIONS, exits, tower
from tower.core.recovery import FAILED
from tower.core.states import Interruption, Outcome
from tower.engine import program
from tower.runners import report

DOCS = Path(__file__).parents[2] / "docs"
DOC = (DOCS / "commands.md").read_text(encoding="utf-8")
PARTS = dict(re.findall(r"^### tower ([a-z-]+)\n(.*?)(?=^##|\Z)", DOC, flags=re.MULTILINE | re.DOTALL))
VERBS = [verb for verbs in SECTIONS.values() for verb in verbs]


def options_of(command: click.Command) -> set[str]:
    """Every way of writing an option of a verb and of the verbs below it."""
    own = {
        name
        for param in command.params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*(options_of(verb) for verb in below))


def command_of(verb: str) -> click.Command:
    command = tower.get_command(click.Context(tower), verb)
    assert command is not None
    return command


def test_the_verbs_are_documented_in_their_order() -> None:
    assert list(PARTS) == VERBS
    assert re.findall(r"^## (.*)$", DOC, flags=re.MULTILINE)[1:] == list(SECTIONS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_of_a_verb_are_the_documented_ones(verb: str) -> None:
    items = [line for line in PARTS[verb].splitlines() if line.startswith("* ")]
    documented = {name for item in items for name in re.findall(r"`(--?[a-z-]+)", item.partition(": ")[0])}
    assert documented == options_of(command_of(verb))


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_with_arguments_shows_them(verb: str) -> None:
    arguments = [param for param in command_of(verb).params if isinstance(param, click.Argument)]
    usage = " ".join(
        str(param.human_readable_name).upper() if param.required else f"[{str(param.human_readable_name).upper()}]"
        for param in arguments
    )
    assert not usage or f"`tower {verb} {usage}`" in PARTS[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_json_documents_are_described(verb: str) -> None:
    assert ("--json" in options_of(command_of(verb))) == (f"\n| `{verb}` | " in DOC)


def test_every_outcome_is_told() -> None:
    cells = re.findall(r"^\| (`[^|]*) \|", PARTS["ps"], flags=re.MULTILINE)
    assert sorted(re.findall("`([a-z_]+)`", " ".join(cells))) == sorted(Outcome)


def test_every_kind_of_interruption_is_told() -> None:
    recovery = (DOCS / "recovery.md").read_text(encoding="utf-8")
    kinds = recovery.partition("| kind |")[2].partition("\n\n")[0]
    assert set(re.findall("`([a-z_]+)`", kinds)) - {"recover_on"} == {*Interruption, FAILED}


def test_every_variable_and_key_of_a_run_is_told() -> None:
    agents = (DOCS / "agents.md").read_text(encoding="utf-8")
    given = set(re.findall('"(LAYOVER_[A-Z_]+)"', inspect.getsource(program)))
    assert set(re.findall("LAYOVER_[A-Z_]+", agents)) == given
    keys = re.findall(r"^\| `([a-z_]+)` \|", agents.partition("| key |")[2], flags=re.MULTILINE)
    assert keys == ["model", *report.TOKENS, "cost_usd", "credits", "unavailable", "reset_at", "retry_after_sec"]


def test_the_exit_codes_are_those_of_the_code() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", DOC, flags=re.MULTILINE)}
    assert documented == {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
