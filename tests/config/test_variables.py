# ruff: noqa: E501  (lists of names)
from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.variables import looks_like_credential

from .conftest import GOOD, Loads


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN", "GITHUB_TOKEN", "github_token", "GITHUBTOKEN", "AWS_SECRET_ACCESS_KEY", "API_KEY", "APIKEY", "OPENAI_APIKEY",
        "SECRET_KEY_BASE", "DB_PASSWORD", "PGPASSWORD", "DB_PASSWD", "DB_PWD", "GH_PAT", "PASSPHRASE", "MY_CREDENTIALS",
        "SSH_PRIVATE_KEY", "TOKEN_2",
    ],
)  # fmt: skip
def test_a_name_of_a_credential(name: str) -> None:
    assert looks_like_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "PWD", "OLDPWD", "KEYBOARD", "MONKEY", "MAX_TOKENS", "TOKEN_LIMIT", "TOKEN_FILE", "SECRETS_DIR", "MODE",
        "PATTERN", "KEY_PATH", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK",
    ],
)  # fmt: skip
def test_a_name_of_something_else(name: str) -> None:
    assert not looks_like_credential(name)


def test_a_variable_is_looked_for_in_the_environment_and_then_among_credentials(loads: Loads, tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "FILED").write_text("x")
    loaded = loads(
        "[defaults]\nenv_from = ['SET', 'EMPTY', 'FILED', 'NOWHERE']\n" + GOOD,
        {"SET": "1", "EMPTY": "", "CREDENTIALS_DIRECTORY": str(folder)},
    )
    assert [it.sentence for it in loaded.problems] == ["NOWHERE is not set now"]
    assert loaded.factory is not None


def test_what_defaults_declare_is_said_once_for_all_agents(loads: Loads) -> None:
    agents = GOOD + GOOD.replace("solo", "duo")
    loaded = loads("[defaults]\nenv_from = ['NOPE']\nenv = { A_TOKEN = 'x' }\n" + agents)
    assert [it.key for it in loaded.problems] == ["defaults.env_from[0]", "defaults.env.A_TOKEN"]


def test_a_literal_is_never_shown(loads: Loads) -> None:
    loaded = loads(GOOD + "env = { A_TOKEN = 'hunter2', 'b c' = 'hunter2', D = ['hunter2'] }\n")
    assert loaded.problems
    assert "hunter2" not in "".join(map(str, loaded.problems))
