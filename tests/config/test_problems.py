# ruff: noqa: E501  (a case reads best on one line)
from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.positions import KeyPath
from tower.config.problems import Findings, Problem, key_text
from tower.config.sources import Source, Sources


def findings_in(text: str) -> Findings:
    return Findings(Sources(Source(file="f.toml", text=text)), Path("/x"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("agents", "a-b_1", "env"), "agents.a-b_1.env"),
        (("routes", 0, "to", 12), "routes[0].to[12]"),
        (("agents", "a.b", ""), 'agents."a.b".""'),
        (("agents", "\x1b[2J\n"), 'agents."\\u001b[2J\\n"'),
    ],
)
def test_a_key_as_text(path: KeyPath, text: str) -> None:
    assert key_text(path) == text


@pytest.mark.parametrize(
    ("line", "key", "hint", "text"),
    [
        (3, "a.b", "do this", "f.toml:3:7: a.b: is wrong; do this"),
        (3, "", "", "f.toml:3:7: is wrong"),
        (0, "a.b", "", "f.toml: a.b: is wrong"),
        (0, "", "do this", "f.toml: is wrong; do this"),
    ],
)
def test_a_problem_as_one_line(line: int, key: str, hint: str, text: str) -> None:
    assert str(Problem(file="f.toml", line=line, column=7, key=key, sentence="is wrong", hint=hint)) == text


def test_findings_are_sorted_by_position_and_each_is_kept_once() -> None:
    findings = findings_in("a = 1\nb = 2\nc = 3\n")
    assert not findings.has_errors
    findings.environment("VARIABLE", "e")
    findings.warning(("c",), "w")
    findings.add("a.md", 9, 1, "k", "s", "", "error")
    findings.error(("a",), "e")
    findings.error(("b", "missing", 3), "e")
    findings.error(("a",), "e")
    assert [(it.file, it.line, it.key) for it in findings.sorted()] == [
        ("f.toml", 1, "a"), ("f.toml", 2, "b.missing[3]"), ("f.toml", 3, "c"), ("a.md", 9, "k"), ("environment", 0, "VARIABLE"),
    ]  # fmt: skip
    assert findings.has_errors


def test_a_warning_alone_is_no_error() -> None:
    findings = findings_in("")
    findings.warning(("a",), "w")
    assert not findings.has_errors
