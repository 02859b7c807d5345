# ruff: noqa: E501  (a case reads best on one line)
from __future__ import annotations

import pytest

from tower.config import changes
from tower.config.changes import diff, needs_restart
from tower.config.overrides import LayoverTable
from tower.config.schema import DefaultsTable, Shared
from tower.core.factory import Factory

from .conftest import GOOD, Loads

BASE = "[layover]\ngrace_sec = 20\n[defaults]\nmax_hops = 8\n[runners.mine]\ncommand = ['x']\n" + GOOD


def factory(loads: Loads, text: str) -> Factory:
    made = loads(text).factory
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("entry", "timeout_sec = 60\nentry", ["agents.solo: timeout_sec 3600 -> 60"]),
        ("entry", "stall_sec = '2m'\nentry", ["agents.solo: stall_sec none -> 120"]),
        ("entry", "enabled = false\nentry", ["agents.solo: enabled true -> false"]),
        ("entry", "recovery = 'never'\nentry", ["agents.solo: recovery automatic -> never"]),
        ("entry", "recover_on = ['lost']\nentry", ["agents.solo: recover_on [crash, lost, tower_restart] -> [lost]"]),
        ("entry", "args = ['-a', 'b']\nentry", ["agents.solo: args [] -> ['-a', 'b']"]),
        ("entry", "env_from = ['HOME']\nentry", ["agents.solo: env_from [] -> [HOME]"]),
        ("entry", "env = { A = 'hidden' }\nentry", ["agents.solo: env changed"]),
        ('prompt = "x"', 'prompt = "y"', ["agents.solo: instructions changed"]),
        ("solo", "duo", ["agents.duo: added", "agents.solo: removed"]),
        ("'x'", f"['{'x' * 70}']".strip("[]"), [f"runners.mine: command ['x'] -> ['{'x' * 57}…"]),
        ("grace_sec = 20", "grace_sec = 5", ["layover: grace_sec 20 -> 5"]),
        ("grace_sec = 20", "min_free_mb = 1\nmax_log_mb = 2", ["layover: max_log_mb 256 -> 2", "layover: min_free_mb 512 -> 1"]),
        ("max_hops = 8", "max_hops = 9\nwriters = 'shared'", ["defaults: max_hops 8 -> 9", "defaults: writers 'exclusive' -> 'shared'"]),
        ("grace_sec = 20", "on_stop = 'leave'", ["layover: on_stop stop -> leave"]),
        ("entry = true\n", "entry = true\n[[routes]]\nfrom = 'solo'\nto = 'solo'\n", ["routes: solo -> solo added"]),
        ("grace_sec = 20", "# a comment", []),
    ],
)  # fmt: skip
def test_what_changed(loads: Loads, old: str, new: str, lines: list[str]) -> None:
    before = factory(loads, BASE)
    after = factory(loads, BASE.replace(old, new))
    assert list(diff(before, after)) == lines
    assert needs_restart(before, after) == ()
    assert diff(before, before) == ()
    if new.startswith("entry = true\n[[routes]]"):
        assert list(diff(after, before)) == ["routes: solo -> solo removed"]


def test_what_waits_for_a_restart(loads: Loads) -> None:
    before = factory(loads, BASE)
    moved = factory(loads, BASE.replace("grace_sec = 20", "state_dir = 'elsewhere'"))
    assert needs_restart(before, moved) == ("layover.state_dir", "layover.socket", "layover.snapshots_dir")
    group = factory(loads, BASE.replace("grace_sec = 20", "socket_group = 'daemon'"))
    assert needs_restart(before, group) == ("layover.socket_group",)


def test_no_key_of_layover_changes_in_silence(loads: Loads) -> None:
    factory = loads(GOOD).factory
    assert factory is not None
    shown = changes._as_written(factory.settings)
    assert {f"layover: {key}" for key in LayoverTable.model_fields} - shown.keys() == set()
    for_all = DefaultsTable.model_fields.keys() - Shared.model_fields.keys()
    assert {f"defaults: {key}" for key in for_all} - shown.keys() == set()
