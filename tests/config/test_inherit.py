from __future__ import annotations

import random
from typing import Any

import pytest

from tower.config.inherit import BUILT_IN, INHERITED, OWN, inherit
from tower.config.schema import AgentTable, DefaultsTable

from .conftest import GOOD, Loads

SAMPLES: dict[str, tuple[Any, Any, Any]] = {
    # key: agent's value, default's value, what "set to empty" reads as (None where a key cannot be empty)
    "runner": ("none", "cmd:x", ...),
    "model": ("m1", "m2", None),
    "effort": ("low", "high", None),
    "tier": ("light", "frontier", None),
    "context": ("1m", "200k", None),
    "tools": (("read",), ("write",), ()),
    "persona": ("p1", "p2", None),
    "language": ("Estonian", "German", None),
    "timeout_sec": (1.0, 2.0, ...),
    "stall_sec": (1.0, 2.0, None),
    "first_output_sec": (1.0, 2.0, None),
    "linger_sec": (1.0, 3.0, 0.0),
    "orphan_sec": (1.0, 2.0, 0.0),
    "max_recovery_attempts": (1, 3, 0),
    "memory_bytes": (1, 2, 0),
    "snapshot": ("work", "head", ...),
    "snapshot_include": (("a",), ("b",), ()),
    "snapshot_writes": ("deny", "keep", ...),
    "sandbox": ("off", "require", ...),
    "sandbox_writable": (("/a",), ("/b",), ()),
    "network": (True, False, ...),
    "fuel_usd": (1.0, 2.0, ...),
    "mcp_grace_sec": (1.0, 2.0, ...),
}


def test_every_inherited_key_has_a_row() -> None:
    assert set(SAMPLES) == set(INHERITED)


@pytest.mark.parametrize("key", INHERITED)
def test_an_inherited_key_unset_set_and_empty_against_a_default_unset_and_set(key: str) -> None:
    own, shared, empty = SAMPLES[key]
    with_default = {"runner": "none", key: shared}
    without = {} if key == "runner" else {"runner": "none"}

    def resolved(agent: dict[str, Any], defaults: dict[str, Any]) -> tuple[Any, str]:
        it = inherit("a", agent, defaults, {})
        return it.values[key], it.origins[key]

    assert resolved({}, without) == (BUILT_IN[key], "built in")
    assert resolved({}, with_default) == (shared, "defaults")
    assert resolved({key: own}, without) == (own, "agent")
    assert resolved({key: own}, with_default) == (own, "agent")
    if empty is not ...:
        assert resolved({key: empty}, without) == (empty, "agent")
        assert resolved({key: empty}, with_default) == (empty, "agent")


@pytest.mark.parametrize("key", OWN)
def test_a_key_of_its_own_is_never_inherited(key: str) -> None:
    it = inherit("a", {}, {key: "x"}, {})
    assert (it.values[key], it.origins[key]) == (BUILT_IN[key], "built in")


@pytest.mark.parametrize(
    ("agent", "defaults", "model", "origin", "left"),
    [
        ({}, {"runner": "r", "model": "m"}, "m", "defaults", None),
        ({"runner": "r"}, {"runner": "r", "model": "m"}, "m", "defaults", None),
        ({"runner": "s"}, {"runner": "r", "model": "m"}, None, "runner", "m"),
        ({"runner": "s"}, {"runner": "r"}, None, "runner", None),
        ({"runner": "s", "model": "n"}, {"runner": "r", "model": "m"}, "n", "agent", None),
        ({"runner": "s", "model": None}, {"runner": "r", "model": "m"}, None, "agent", None),
        ({"model": "n"}, {"runner": "r", "model": "m"}, "n", "agent", None),
        ({"runner": "s"}, {"model": "m"}, "m", "defaults", None),
        ({"runner": "s"}, {}, None, "built in", None),
    ],
)
def test_runner_and_model_are_a_pair(
    agent: dict[str, Any], defaults: dict[str, Any], model: str | None, origin: str, left: str | None
) -> None:
    it = inherit("a", agent, defaults, {})
    assert (it.values["model"], it.origins["model"], it.model_left) == (model, origin, left)


TIERS = {"r": {"light": "r-small", "frontier": "r-big"}, "s": {"light": "s-small"}}


@pytest.mark.parametrize(
    ("agent", "defaults", "model", "tier", "origin", "left"),
    [
        ({"runner": "r", "tier": "light"}, {}, "r-small", "light", "tier light of agent", None),
        ({"runner": "r", "tier": "standard"}, {}, None, "standard", "tier standard of agent", None),
        ({"runner": "r", "tier": "light", "model": "m"}, {}, "m", None, "agent", None),
        ({"runner": "r", "tier": "light", "model": None}, {}, "r-small", "light", "tier light of agent", None),
        ({}, {"runner": "r", "tier": "light"}, "r-small", "light", "tier light of defaults", None),
        ({}, {"runner": "r", "tier": "light", "model": "m"}, "m", None, "defaults", None),
        ({"tier": "frontier"}, {"runner": "r", "model": "m"}, "r-big", "frontier", "tier frontier of agent", None),
        ({"tier": None}, {"runner": "r", "tier": "light"}, None, None, "built in", None),
        ({"tier": None}, {"runner": "r", "model": "m"}, "m", None, "defaults", None),
        ({"model": None}, {"runner": "r", "tier": "light"}, None, None, "agent", None),
        ({"model": "n"}, {"runner": "r", "tier": "light"}, "n", None, "agent", None),
        ({"runner": "s"}, {"runner": "r", "tier": "light"}, "s-small", "light", "tier light of defaults", None),
        (
            {"runner": "s"}, {"runner": "r", "tier": "light", "model": "m"},
            "s-small", "light", "tier light of defaults", None,
        ),
        ({"runner": "s", "tier": None}, {"runner": "r", "tier": "light", "model": "m"}, None, None, "runner", "m"),
    ],
)  # fmt: skip
def test_a_model_beats_a_tier_of_its_level_and_a_level_the_one_below(
    agent: dict[str, Any], defaults: dict[str, Any], model: str | None, tier: str | None, origin: str, left: str | None
) -> None:
    it = inherit("a", agent, defaults, {}, TIERS)
    assert (it.values["model"], it.values["tier"], it.origins["model"], it.model_left) == (model, tier, origin, left)


@pytest.mark.parametrize(
    ("agent", "defaults", "env", "origin"),
    [
        ({}, {}, {}, "built in"),
        ({}, {"env": {"A": "1"}}, {"A": "1"}, "defaults"),
        ({"env": {"A": "2"}}, {}, {"A": "2"}, "agent"),
        ({"env": {"A": "2"}}, {"env": {"A": "1", "B": "1"}}, {"A": "2", "B": "1"}, "agent and defaults"),
        ({"env": {}}, {"env": {"A": "1"}}, {}, "agent"),
    ],
)
def test_env_is_joined_and_an_empty_table_is_none(
    agent: dict[str, Any], defaults: dict[str, Any], env: dict[str, str], origin: str
) -> None:
    it = inherit("a", agent, defaults, {})
    assert (it.env, it.origins["env"]) == (env, origin)


@pytest.mark.parametrize(
    ("own", "shared", "skills", "origin"),
    [
        (None, None, (), "built in"),
        (None, ("s", "t"), ("s", "t"), "defaults"),
        (("a",), None, ("a",), "agent"),
        (("a", "t"), ("s", "t"), ("s", "t", "a"), "agent and defaults"),
        ((), ("s", "t"), (), "agent"),
        ((), None, (), "agent"),
    ],
)
def test_skills_are_united_and_an_empty_list_is_none(
    own: tuple[str, ...] | None, shared: tuple[str, ...] | None, skills: tuple[str, ...], origin: str
) -> None:
    agent = {} if own is None else {"skills": own}
    defaults = {} if shared is None else {"skills": shared}
    it = inherit("a", agent, defaults, {})
    assert (it.skills, it.origins["skills"]) == (skills, origin)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, {"D": "defaults.env_from", "S": "defaults.env_from", "R": "runners.r.env_from"}),
        (
            ("A", "S"),
            {"D": "defaults.env_from", "S": "defaults.env_from", "R": "runners.r.env_from", "A": "agents.a.env_from"},
        ),
        ((), {"S": "runners.r.env_from", "R": "runners.r.env_from"}),
    ],
)
def test_env_from_is_a_union_that_says_who_declared_what(own: tuple[str, ...] | None, expected: dict[str, str]) -> None:
    agent = {"runner": "r"} | ({} if own is None else {"env_from": own})
    it = inherit("a", agent, {"env_from": ("D", "S")}, {"r": ("S", "R"), "other": ("X",)})
    assert it.env_from == expected


def test_what_is_built_in_is_what_the_tables_say() -> None:
    for table in (AgentTable, DefaultsTable):
        for key, info in table.model_fields.items():
            if key in BUILT_IN and key != "recover_on" and (table, key) != (DefaultsTable, "reserve_usd"):
                assert info.get_default(call_default_factory=True) == BUILT_IN[key], key
    assert set(AgentTable.model_fields["recover_on"].default) == BUILT_IN["recover_on"]


def test_the_order_of_tables_does_not_matter(loads: Loads) -> None:
    blocks = [
        '[defaults]\nrunner = "mine"\nlanguage = "German"\nenv_from = ["HOME"]\n',
        GOOD.replace('runner = "none"\n', ""),
        '[runners.mine]\ncommand = ["x"]\nenv_from = ["PATH"]\n',
        "[layover]\ngrace_sec = 5\n",
    ]
    made = []
    for seed in range(6):
        random.Random(seed).shuffle(blocks)
        loaded = loads("".join(blocks), {"HOME": "/", "PATH": "/bin"})
        assert loaded.factory is not None
        made.append((loaded.factory.agents, loaded.factory.settings, loaded.factory.runners))
    assert all(it == made[0] for it in made)


def test_a_loaded_agent_says_everything_about_itself(loads: Loads) -> None:
    loaded = loads(
        "[defaults]\nrunner = 'cmd:./x'\nmodel = 'm'\ntimeout_sec = '2h'\nstall_sec = 60\nenv_from = ['HOME']\n"
        + GOOD.replace('runner = "none"\n', "")
        + "stall_sec = ''\naccess = 'read-write'\nrecover_on = ['timeout']\nargs = ['{model}']\n",
        {"HOME": "/"},
    )
    assert loaded.problems == ()
    assert loaded.factory is not None
    agent = loaded.factory.agents["solo"]
    assert (agent.runner, agent.model, agent.timeout_sec, agent.stall_sec) == ("cmd:./x", "m", 7200.0, None)
    assert (agent.recover_on, agent.args, agent.env_from) == (
        frozenset({"timeout"}),
        ("{model}",),
        {"HOME": "defaults.env_from"},
    )
    assert {key: agent.origins[key] for key in ("model", "stall_sec", "recovery", "work_dir")} == {
        "model": "defaults",
        "stall_sec": "agent",
        "recovery": "built in",
        "work_dir": "layover.work_dir",
    }
