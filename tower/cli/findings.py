"""What is wrong with a configuration file, as lines that editors and people can follow to the place.

Pure, over the documents of the API (`file`, `line`, `column`, `key`, `sentence`, `hint`, `severity`).
"""

from __future__ import annotations

from typing import Any

Finding = dict[str, Any]


def place(finding: Finding) -> str:
    """`layover.toml:14:3`, as far as it is known."""
    return ":".join(str(part) for part in (finding["file"], finding["line"], finding["column"]) if part)


def sentence(finding: Finding) -> str:
    """`agents.tester.timeout_sec: must be greater than 0; write ...`."""
    text = f"{finding['key']}: {finding['sentence']}" if finding["key"] else str(finding["sentence"])
    return f"{text}; {finding['hint']}" if finding["hint"] else text


def full(finding: Finding) -> str:
    """One line: place, severity unless it is an error, what is wrong and what to write instead."""
    mark = "" if finding["severity"] == "error" else f" {finding['severity']}:"
    return f"{place(finding)}:{mark} {sentence(finding)}"
