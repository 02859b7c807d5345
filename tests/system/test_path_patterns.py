from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import User

from tower.core.errors import InvalidError
from tower.system.patterns import check_patterns, literal


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[User, Path]:
    place = tmp_path_factory.mktemp("patterns")
    user = User(place / "home")
    return user, user.repository(place / "live", {})


def ordinary(name: bytes) -> bool:
    return not {0, 10, 13, 47} & set(name) and name not in (b".", b"..")


@settings(max_examples=60)
@given(
    st.binary(min_size=1, max_size=5).filter(ordinary)
    | st.text("ab *?[]\\\\!#", min_size=1, max_size=5).map(str.encode)
)
def test_a_name_as_a_pattern_matches_itself_and_nothing_else(tree: tuple[User, Path], name: bytes) -> None:
    user, live = tree
    (live / ".git/info/exclude").write_bytes(b"/" + literal(name) + b"\n")
    others = [name + b"x", b"x" + name, b"x", b"x/" + name, name.strip(b" ") or b"y"]
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--no-index", "--stdin"],
        cwd=live,
        env=user.env,
        input=b"\0".join([name, *(other for other in others if other != name)]),
        capture_output=True,
        check=False,
    )
    assert done.stdout == name + b"\0"


@pytest.mark.parametrize("pattern", [".env", "/build/", "*.key", "deep/**/x", "[ab].txt", "...", "a..b"])
def test_ordinary_patterns_pass(pattern: str) -> None:
    check_patterns([pattern])


@pytest.mark.parametrize("pattern", ["", "  ", "!.env", "..", "../x", "a/..", "x\0", "x\ny"])
def test_patterns_that_can_match_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_patterns([".env", pattern])
    assert caught.value.code == "snapshot-include"
