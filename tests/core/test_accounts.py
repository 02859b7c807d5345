"""Reports and requests for help: bounds, and what is struck out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core import accounts
from tower.core.errors import InvalidError
from tower.core.redaction import STRUCK, strike


def test_what_is_too_long_is_cut_and_said() -> None:
    title = accounts.headline("x" * 161)
    assert (len(title.text), title.cut) == (160, "the headline was cut to its first 160 of 161 characters")
    text = accounts.body("é" * 12_001)
    assert (len(text.text), text.cut) == (12_000, "the body was cut to its first 12000 of 12001 characters")
    files, words = accounts.artifacts([f"{n}.txt" for n in range(33)])
    assert (len(files), words) == (32, "only the first 32 of 33 artifacts are kept")


def test_what_fits_is_kept_as_it_is() -> None:
    assert accounts.headline("x" * 160) == accounts.Trimmed("x" * 160)
    assert accounts.body("") == accounts.Trimmed("")
    assert accounts.artifacts(["a", "b", "a"]) == (("a", "b"), None)


def test_a_headline_is_one_line() -> None:
    assert accounts.headline(" a\n\n b\r\n").text == "a b"


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000"])
def test_an_empty_headline_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="cannot take an empty headline"):
        accounts.headline(text)


@pytest.mark.parametrize("text", ["a\ud800", "a\0b"])
def test_what_is_no_text_is_refused(text: str) -> None:
    for check in (accounts.headline, accounts.body, accounts.summary, accounts.detail):
        with pytest.raises(InvalidError, match="is not UTF-8 text"):
            check(text)


def test_an_unknown_blocker_is_refused_with_the_list() -> None:
    assert accounts.blocker(None) == "other"
    assert accounts.blocker("access") == "access"
    with pytest.raises(InvalidError) as refused:
        accounts.blocker("money")
    assert refused.value.hint == "blocker is one of access, environment, ambiguity, dependency, tooling, other"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("the key sk-abcdefghijklmnop1234 is dead", f"the key {STRUCK} is dead"),
        ("ghp_" + "a1" * 15, STRUCK),
        ("AKIAIOSFODNN7EXAMPLE", STRUCK),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", STRUCK),
        ("https://ann:hunter22@host/x", f"https://ann:{STRUCK}@host/x"),
        ("Authorization: Bearer abcdef123456", f"Authorization: Bearer {STRUCK}"),
        ("DB_PASSWORD=correcthorse and on", f"DB_PASSWORD={STRUCK} and on"),
        ('{"api_key": "abcdef123456"}', f'{{"api_key": "{STRUCK}"}}'),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest", f"{STRUCK}\nrest"),
    ],
)
def test_credentials_are_struck_out(text: str, left: str) -> None:
    assert strike(text) == left
    assert strike(strike(text)) == left


@pytest.mark.parametrize(
    "text",
    [
        "commit 6f1ed002ab5595859014ebf0951522d9abcdef01 broke src/token/secret.py",
        "the password is wrong",
        "run_01J0000000000000000000R001 of coder",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert strike(text) == text


@given(st.text(max_size=2000))
def test_striking_twice_changes_nothing_more(text: str) -> None:
    assert strike(strike(text)) == strike(text)
