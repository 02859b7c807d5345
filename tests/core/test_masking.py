import json
import string
import subprocess
import sys
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tower.core.masking import MASK, SHORTEST, SHORTEST_ANCHOR, Masker, mask, patterns, unmaskable

TOKEN = 'sk-ant/api03+Zäh="quote\\back"\n&<end>'

# Few letters, so that occurrences overlap, repeat and nest; none of them stands in the mask. What is searched for is
# the longest part without a slash, so some secrets have that part in their middle, or share it.
letters = st.sampled_from(b"abA/")
secret = st.one_of(
    st.lists(letters, min_size=SHORTEST, max_size=14).map(bytes),
    st.builds(
        lambda before, part, after: bytes([*before, *part, *after]),
        st.lists(letters, max_size=3),
        st.lists(st.sampled_from(b"ab"), min_size=SHORTEST_ANCHOR, max_size=SHORTEST_ANCHOR + 1),
        st.lists(letters, max_size=3),
    ),
)
chunks = st.lists(st.one_of(st.lists(letters, max_size=9).map(bytes), st.sampled_from([b"\n", b"\xff", "ö".encode()])))


def through(masker: Masker, parts: list[bytes]) -> bytes:
    return b"".join(map(masker.feed, parts)) + masker.flush()


@given(st.lists(secret, min_size=1, max_size=4), st.data())
def test_no_secret_comes_out_however_the_stream_is_cut(secrets: list[bytes], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.one_of(chunks.map(b"".join), st.sampled_from(secrets))))
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    masked = through(Masker(secrets), pieces)
    assert not [one for one in secrets if one in masked]
    assert masked == reference(whole, secrets)


def reference(whole: bytes, secrets: list[bytes]) -> bytes:
    """The slow and plain way: mark each byte of each occurrence; a mask for each stretch that hangs together."""
    owners = [0] * len(whole)
    linked = [False] * (len(whole) + 1)
    for one in secrets:
        for at in range(len(whole) - len(one) + 1):
            if whole[at : at + len(one)] == one:
                for i in range(at, at + len(one)):
                    owners[i] = 1
                for i in range(at + 1, at + len(one)):
                    linked[i] = True
    out = b""
    for i, covered in enumerate(owners):
        if not covered:
            out += whole[i : i + 1]
        elif not linked[i]:
            out += MASK
    return out


@given(chunks, st.lists(st.text("xyz~-_.%+", min_size=SHORTEST), max_size=4))
def test_text_without_secrets_is_unchanged(parts: list[bytes], secrets: list[str]) -> None:
    assert through(Masker(patterns(secrets)), parts) == b"".join(parts)


@given(st.text(min_size=1), st.text(min_size=SHORTEST))
def test_every_written_form_is_masked(before: str, value: str) -> None:
    found = patterns([value])
    value = value.strip(string.whitespace)
    if not found:
        assert not value or unmaskable({"X": value})
        return
    for written in (
        value,
        json.dumps([before, value]),
        json.dumps({"a": value}, ensure_ascii=False),
        json.dumps(json.dumps(value)),
        quote(value),
        quote_plus(value),
    ):
        masked = through(Masker(found), [written.encode()])
        assert MASK in masked
        assert value.encode() not in masked or value.encode() in MASK


@pytest.mark.parametrize(
    "written",
    [
        TOKEN,
        json.dumps(TOKEN),
        json.dumps(TOKEN, ensure_ascii=False),
        json.dumps(TOKEN).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        json.dumps({"tool_result": json.dumps({"text": TOKEN})}),
        f"https://x.example/?k={quote(TOKEN)}&n=1",
        f"https://x.example/?k={quote(TOKEN, safe='')}&n=1",
        f"k={quote_plus(TOKEN)}",
        quote(TOKEN)
        .replace("%C3", "%c3")
        .replace("%A4", "%a4")
        .replace("%2B", "%2b")
        .replace("%3D", "%3d")
        .replace("%5C", "%5c")
        .replace("%0A", "%0a")
        .replace("%3C", "%3c")
        .replace("%3E", "%3e"),
    ],
)
def test_forms_of_a_hard_secret(written: str) -> None:
    masked = mask(written, patterns([TOKEN]))
    assert MASK.decode() in masked
    assert "api03" not in masked
    assert "end" not in masked


def test_masked_json_is_still_json() -> None:
    line = json.dumps({"text": f"the key is {TOKEN}", "list": [TOKEN, "b"]})
    assert json.loads(mask(line, patterns([TOKEN]))) == {"text": "the key is [masked]", "list": ["[masked]", "b"]}


def test_a_value_is_known_without_the_newline_of_its_file() -> None:
    assert mask("x=0123-4567-89ab.", patterns(["0123-4567-89ab\n"])) == "x=[masked]."


def test_secrets_that_share_bytes_leave_no_remainder() -> None:
    assert mask("<abcdefg123456789>", [b"abcdefg123", b"123456789"]) == "<[masked]>"


def test_only_a_possible_beginning_is_held_back() -> None:
    masker = Masker([b"hunter2-hunter2"])
    assert masker.feed(b"ready> ") == b"ready> "
    assert masker.feed(b"say hunter2-h") == b"say "
    assert masker.feed(b"at\n") == b"hunter2-hat\n"


def test_a_flood_of_a_repeating_secret_is_never_held_whole() -> None:
    masker = Masker([b"aaaaaaaa"])
    out = [masker.feed(b"a" * 1000) for _ in range(50)]
    assert b"".join(out) + masker.flush() == MASK
    assert len(masker.feed(b"b" * 5000)) == 5000


def test_text_with_lone_surrogates_survives() -> None:
    assert mask("\ud800 0123-4567-89ab", patterns(["0123-4567-89ab"])) == "\ud800 [masked]"


def test_values_that_cannot_be_told_from_text() -> None:
    values = {"PORT": "80808080", "RATE": "-12345.678", "MODE": "production", "SHORT": "s3cret", "KEY": "s3cretS3cret"}
    assert unmaskable(values | {"EMPTY": "", "LETTERS": "qwertyuiopasdfghjklz", "MIXED": "aBcDeFgHiJ"}) == {
        "PORT": "a number",
        "RATE": "a number",
        "MODE": "a plain word",
        "SHORT": "shorter than 8 bytes",
    }
    assert patterns(values.values()) == (b"s3cretS3cret",)


def test_a_value_that_is_no_utf8() -> None:
    found = patterns([b"\xff\xfe-secret-\x80", "\udcff-other-secret"])
    assert through(Masker(found), [b"a \xff\xfe-sec", b"ret-\x80 b \xff-other-secret."]) == b"a [masked] b [masked]."


def test_the_keeper_can_import_it_cheaply() -> None:
    code = """
import sys
before = set(sys.modules)
sys.path.append(sys.argv[1])
import tower.core.masking
print(*sorted(set(sys.modules) - before))
"""
    argv = [sys.executable, "-I", "-S", "-c", code, __file__.rpartition("/tests/")[0]]
    shown = subprocess.run(argv, capture_output=True, text=True)
    assert shown.stdout.split() == ["__future__", "tower", "tower.core", "tower.core.masking"], shown.stderr
