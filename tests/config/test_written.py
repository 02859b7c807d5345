"""A factory under the keys of its file: everything that can be written is there, with where it came from."""

from __future__ import annotations

import json
from typing import Any

from tower.config import written
from tower.config.overrides import LayoverTable
from tower.config.schema import AgentTable, DefaultsTable, RunnerTable, Shared
from tower.config.tables import TOP

from .conftest import GOOD, Loads

ONCE = {"prompt_file"}
"""Keys that say the same as another."""

TEXT = (
    """\
[layover]
grace_sec = 5
max_log_mb = 2
[defaults]
writers = "shared"
model = "big"
env_from = ["A"]
[runners.mine]
command = ["x", "{model}"]
args = ["-v"]
env_from = ["B"]
config_home = "per-agent"
[pipelines.p]
entry = "solo"
flags = { deep = { default = true, description = "d" }, plain = {} }
[pipelines.p.agents.solo]
model = "small"
args = ["-x"]
[agents.other]
runner = "cmd:true"
prompt = "y"
description = "d"
[[routes]]
from = ["solo", "other"]
to = ["solo", "other"]
join = 1
timeout_sec = "1m"
pipelines = "p"
"""
    + GOOD.replace('"none"', '"mine"')
    + 'env = { C = "c" }\nrecover_on = ["lost", "crash"]\n'
)


def shown(loads: Loads) -> dict[str, Any]:
    made = loads(
        TEXT,
        {"TOWER_LAYOVER__ON_STOP": "leave"},
    )
    assert made.factory is not None, made.problems
    return json.loads(json.dumps(written.document(made.factory)))


def test_every_key_that_can_be_written_is_shown(loads: Loads) -> None:
    document = shown(loads)
    # What a tier stands for stands with the agents as their model.
    assert document.keys() - {"path", "digest"} == {*TOP} - {"tiers"}
    assert document["layover"].keys() == LayoverTable.model_fields.keys()
    assert document["defaults"].keys() == DefaultsTable.model_fields.keys() - Shared.model_fields.keys()
    assert document["agents"]["solo"].keys() == AgentTable.model_fields.keys() - ONCE
    assert document["runners"].keys() == {"mine"}
    assert document["runners"]["mine"].keys() == RunnerTable.model_fields.keys() - {"tiers"}


def test_each_value_says_where_it_came_from(loads: Loads) -> None:
    document = shown(loads)
    layover, defaults, solo = document["layover"], document["defaults"], document["agents"]["solo"]
    assert layover["grace_sec"] == {"value": 5, "origin": "file"}
    assert layover["max_log_mb"] == {"value": 2, "origin": "file"}
    assert layover["on_stop"] == {"value": "leave", "origin": "environment TOWER_LAYOVER__ON_STOP"}
    assert layover["min_free_mb"] == {"value": 512, "origin": "built in"}
    assert defaults["writers"] == {"value": "shared", "origin": "file"}
    assert solo["runner"] == {"value": "mine", "origin": "agent"}
    assert solo["env_from"] == {"value": ["A", "B"], "origin": "defaults.env_from, runners.mine.env_from"}
    assert solo["env"] == {"value": {"C": "c"}, "origin": "agent"}
    assert solo["recover_on"] == {"value": ["crash", "lost"], "origin": "agent"}
    assert solo["timeout_sec"] == {"value": 3600, "origin": "built in"}
    assert solo["prompt"] == {"value": {"files": [], "flags": [], "bytes": 1}, "origin": "agent"}


def test_runners_pipelines_and_routes_are_as_in_the_file(loads: Loads) -> None:
    document = shown(loads)
    assert document["runners"]["mine"]["config_home"] == "per-agent"
    assert document["pipelines"]["p"]["agents"] == {"solo": {"model": "small", "args": ["-x"]}}
    assert document["pipelines"]["p"]["flags"] == {
        "deep": {"default": True, "description": "d"},
        "plain": {"default": False},
    }
    assert document["routes"] == [
        {
            "from": ["solo", "other"],
            "to": ["solo", "other"],
            "mode": "async",
            "join": 1,
            "timeout_sec": 60,
            "accept_suspect": False,
            "pipelines": ["p"],
        }
    ]
