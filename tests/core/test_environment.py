"""The environment of a run: nothing but what every program needs, and what was declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.environment import DEFAULT_PATH, MAX_BYTES, Environment, Missing, build
from tower.core.factory import Agent, Runner
from tower.core.prompts import Prompt

OWN = {
    "PATH": "/bin",
    "HOME": "/root",
    "USER": "ada",
    "LOGNAME": "ada",
    "SHELL": "/bin/zsh",
    "LANG": "et_EE.UTF-8",
    "LC_TIME": "C",
    "TZ": "UTC",
    "TERM": "xterm",
    "TMPDIR": "/elsewhere",
    "XDG_CACHE_HOME": "/cache",
    "API_KEY": "s3cret-value",
    "UNDECLARED": "signing-key",
    "GIT_DIR": "/decoy",
    "NOTIFY_SOCKET": "/run/notify",
    "LISTEN_FDS": "1",
    "WATCHDOG_USEC": "1",
    "CLAUDECODE": "1",
    "TOWER_SOCKET": "/t",
    "LAYOVER_AGENT": "outer",
    "CREDENTIALS_DIRECTORY": "/creds",
}


def make(
    own: Mapping[str, str] = OWN,
    *,
    env: Mapping[str, str] | None = None,
    env_from: Mapping[str, str] | None = None,
    runner_from: tuple[str, ...] = (),
    credentials: Callable[[str], str | None] = lambda _: None,
    layover: Mapping[str, str] | None = None,
) -> Environment | Missing:
    agent = Agent(
        name="coder",
        runner="mine",
        instructions=Prompt.of("x"),
        work_dir="/tree",
        env=env or {},
        env_from=env_from or {},
    )
    return build(
        own=own,
        credentials=credentials,
        agent=agent,
        runner=Runner(name="mine", kind="cmd", env_from=runner_from),
        layover=layover or {"LAYOVER_AGENT": "coder"},
        home="/home/ada",
        tmpdir="/run/tmp",
    )


def values(**changes: Any) -> Mapping[str, str]:
    made = make(**changes)
    assert isinstance(made, Environment)
    return made.values


def refused(**changes: Any) -> Missing:
    made = make(**changes)
    assert isinstance(made, Missing)
    return made


def test_what_every_run_gets_and_nothing_else() -> None:
    assert values() == {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "USER": "ada",
        "LOGNAME": "ada",
        "SHELL": "/bin/zsh",
        "LANG": "et_EE.UTF-8",
        "LC_TIME": "C",
        "TZ": "UTC",
        "TERM": "dumb",
        "TMPDIR": "/run/tmp",
        "XDG_CACHE_HOME": "/cache",
        "LAYOVER_AGENT": "coder",
    }


def test_a_tower_with_an_empty_environment() -> None:
    assert values(own={}) == {
        "PATH": DEFAULT_PATH,
        "HOME": "/home/ada",
        "TERM": "dumb",
        "TMPDIR": "/run/tmp",
        "LAYOVER_AGENT": "coder",
    }


@given(st.dictionaries(st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZ_", min_size=1, max_size=12), st.text(max_size=5)))
def test_nothing_undeclared_passes(own: dict[str, str]) -> None:
    made = make(own)
    if isinstance(made, Missing):
        assert any("\0" in value for value in own.values())
        return
    extra = made.values.keys() - values(own={})
    assert all(name in {"USER", "LOGNAME", "SHELL", "LANG", "TZ"} or name.startswith(("LC_", "XDG_")) for name in extra)
    assert made.secrets == ()


def test_declared_names_are_forwarded_and_secret() -> None:
    made = make(env_from={"API_KEY": "agents.coder.env_from"}, runner_from=("UNDECLARED",))
    assert isinstance(made, Environment)
    assert made.values["API_KEY"] == "s3cret-value"
    assert made.values["UNDECLARED"] == "signing-key"
    assert set(made.secrets) == {"s3cret-value", "signing-key"}
    assert "s3cret" not in repr(made)
    assert "API_KEY" in made.names


def test_credentials_come_second() -> None:
    made = make(env_from={"API_KEY": "k", "OTHER": "k"}, credentials={"API_KEY": "no", "OTHER": "from-a-file"}.get)
    assert isinstance(made, Environment)
    assert (made.values["API_KEY"], made.values["OTHER"]) == ("s3cret-value", "from-a-file")
    assert "from-a-file" in made.secrets


def test_all_that_is_missing_is_named_with_its_key() -> None:
    missing = refused(env_from={"NO_A": "defaults.env_from", "NO_B": "agents.coder.env_from"}, runner_from=("NO_C",))
    assert {(unfit.variable, unfit.key) for unfit in missing.variables} == {
        ("NO_A", "defaults.env_from"),
        ("NO_B", "agents.coder.env_from"),
        ("NO_C", "runners.mine.env_from"),
    }
    assert str(missing) == (
        "cannot give coder its environment: NO_C (declared by runners.mine.env_from) is not set; "
        "NO_A (declared by defaults.env_from) is not set; NO_B (declared by agents.coder.env_from) is not set"
    )


def test_set_to_nothing_is_set() -> None:
    made = make({"API_KEY": ""}, env_from={"API_KEY": "k"})
    assert isinstance(made, Environment)
    assert made.values["API_KEY"] == ""
    assert made.secrets == ()


def test_a_literal_beats_a_forwarded_name_and_is_no_secret() -> None:
    made = make(env={"API_KEY": "test", "TERM": "xterm", "GONE": "here"}, env_from={"API_KEY": "k", "GONE": "k"})
    assert isinstance(made, Environment)
    assert (made.values["API_KEY"], made.values["TERM"], made.values["GONE"]) == ("test", "xterm", "here")
    assert made.secrets == ()


def test_common_names_are_no_secrets() -> None:
    made = make(env_from=dict.fromkeys(["HOME", "PATH", "LANG", "LC_TIME", "XDG_CACHE_HOME", "USER"], "k"))
    assert isinstance(made, Environment)
    assert made.values["HOME"] == "/root"
    assert made.secrets == ()


@pytest.mark.parametrize(
    "name",
    [
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "WATCHDOG_USEC",
        "CLAUDECODE",
        "TOWER_SOCKET",
        "CREDENTIALS_DIRECTORY",
        "LAYOVER_AGENT",
        "LAYOVER_NEW",
    ],
)
def test_what_never_passes_cannot_be_declared(name: str) -> None:
    by_name, by_value = refused(env_from={name: "agents.coder.env_from"}), refused(env={name: "x"})
    for missing, key in ((by_name, "agents.coder.env_from"), (by_value, "agents.coder.env")):
        (unfit,) = missing.variables
        assert (unfit.variable, unfit.key) == (name, key)
        assert "never passed on" in unfit.why


def test_the_size_that_the_kernel_takes() -> None:
    fits = MAX_BYTES - len("BIG=") - 1
    assert values(env={"BIG": "x" * fits})["BIG"] == "x" * fits
    (unfit,) = refused(env={"BIG": "x" * (fits + 1)}).variables
    assert unfit.variable == "BIG"
    assert f"{MAX_BYTES + 1} bytes" in unfit.why
    (unfit,) = refused(env={"BIG": "ä" * (fits // 2 + 1)}).variables
    assert "is too large" in unfit.why


def test_a_value_is_never_in_the_words() -> None:
    assert "xxx" not in str(refused(own={"BIG": "xxx" * MAX_BYTES}, env_from={"BIG": "k"}))
    assert "yyy" not in str(refused(own={"NUL": "yyy\0"}, env_from={"NUL": "k"}))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("A", "x\0y", "holds a NUL character"),
        ("A\0", "x", "holds a NUL character"),
        ("A=B", "x", "is no name for a variable"),
        ("", "x", "is no name for a variable"),
    ],
)
def test_what_no_program_can_be_given(name: str, value: str, why: str) -> None:
    (unfit,) = refused(env={name: value}).variables
    assert unfit.why == why


def test_bytes_of_another_encoding_pass() -> None:
    assert values(own={"API_KEY": "caf\udce9"}, env_from={"API_KEY": "k"})["API_KEY"] == "caf\udce9"


@pytest.mark.parametrize(
    ("own", "exempt"),
    [
        ({}, "localhost,127.0.0.1,::1"),
        ({"NO_PROXY": "corp, .lan"}, "corp,.lan,localhost,127.0.0.1,::1"),
        ({"no_proxy": "corp", "NO_PROXY": "localhost"}, "localhost,corp,127.0.0.1,::1"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
@pytest.mark.parametrize("proxy", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_forwarded_proxy_spares_the_loopback(own: dict[str, str], exempt: str, proxy: str) -> None:
    made = make({**own, proxy: "http://u:pass@p:1"}, env_from={proxy: "k"})
    assert isinstance(made, Environment)
    assert made.values["NO_PROXY"] == made.values["no_proxy"] == exempt
    assert made.secrets == ("http://u:pass@p:1",)


def test_without_a_proxy_there_is_nothing_to_exempt() -> None:
    assert "NO_PROXY" not in values(own={"NO_PROXY": "corp", "HTTP_PROXY": "http://p:1"})
    assert values(own={"NO_PROXY": "corp"}, env_from={"NO_PROXY": "k"})["NO_PROXY"] == "corp"


def test_identity_is_the_towers() -> None:
    made = values(layover={"LAYOVER_RUN_ID": "run_1", "LAYOVER_AGENT": "coder"})
    assert (made["LAYOVER_RUN_ID"], made["LAYOVER_AGENT"]) == ("run_1", "coder")
