"""Runners as the file names them: declared in `[runners.NAME]`, or written as a spec where a runner may stand.

What a runner of each kind does is left to `tower.runners`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tower.config.files import Unreadable, exists, read_text
from tower.config.known import nearest
from tower.config.money import micros
from tower.config.positions import KeyPath
from tower.config.problems import Findings
from tower.config.schema import RunnerTable
from tower.config.tables import Checked, Tables
from tower.core import fake_script
from tower.core.errors import InvalidError
from tower.core.factory import Runner, ToolWiring
from tower.core.placeholders import ARGS, IN_COMMANDS, unknown_names
from tower.core.runner_spec import parse_spec

MAX_SCRIPT_BYTES: Final = 1 << 20
"""A script is some lines a call."""


class Runners:
    """The runners of one factory, by the text that names them. A name that is refused is refused once a place."""

    def __init__(self, tables: Tables, folder: Path, findings: Findings) -> None:
        self._folder = folder
        self._findings = findings
        self._declared = tables.runner_names
        self.found = {name: self._from_table(name, checked) for name, checked in tables.runners.items()}
        """Name or spec -> runner: all that are declared, and every spec that was asked for."""
        if tables.defaults.value.runner is not None:
            self.get(tables.defaults.value.runner, ("defaults", "runner"))

    def get(self, text: str, path: KeyPath) -> Runner | None:
        """The runner that `text` at the key `path` names; None after a problem was added (here or before)."""
        if text not in self.found and text not in self._declared:
            runner = self._from_spec(text, path)
            if runner is None:
                return None
            self.found[text] = runner
        return self.found.get(text)

    def _from_table(self, name: str, checked: Checked[RunnerTable]) -> Runner:
        table, path = checked.value, ("runners", name)
        check_placeholders(table.command, (*path, "command"), self._findings, args_allowed=True)
        check_placeholders(table.args, (*path, "args"), self._findings)
        if table.mcp is None:
            _warn_of_no_tools(table, path, self._findings)
        return Runner(
            name=name,
            kind="command",
            command=table.command,
            args=table.args,
            output=table.output,
            env_from=table.env_from,
            max_concurrent=table.max_concurrent,
            stop_signal=table.stop_signal,
            own_sandbox=table.own_sandbox,
            protocol=table.protocol,
            mcp=None if table.mcp is None else ToolWiring(**table.mcp.model_dump()),
            efforts={str(level): word for level, word in table.efforts.items()},
            unavailable_patterns=table.unavailable_patterns,
            private_home=table.config_home == "per-agent",
            assume=micros(table.assume_usd),
            per_credit=micros(table.usd_per_credit),
            estimate_base=table.estimate.base,
            estimate_per_byte=table.estimate.per_byte,
        )

    def _from_spec(self, text: str, path: KeyPath) -> Runner | None:
        try:
            runner = parse_spec(text)
        except InvalidError as error:
            self._findings.error(path, error.sentence, nearest(text, self._declared, error.hint))
            return None
        if runner.kind != "fake":
            return runner
        script = self._folder / runner.detail
        read = read_script(script)
        if not isinstance(read, fake_script.Script):
            self._findings.error(path, *read)
            return None
        return replace(runner, detail=str(script), output=read.output)


def read_script(script: Path) -> fake_script.Script | tuple[str, str]:
    """The script of a `fake:` runner; or what is wrong with it, and what to do about that."""
    if not exists(script):
        return f"names {script.name}, which was not found; tried {script}", "make the file"
    text = read_text(script, MAX_SCRIPT_BYTES)
    if isinstance(text, Unreadable):
        return f"names {script}, which {text.sentence}", text.hint
    try:
        return fake_script.parse(text)
    except fake_script.ScriptError as error:
        return f"names {script}, which cannot be followed: {error}", "mend the script"


def _warn_of_no_tools(table: RunnerTable, path: KeyPath, findings: Findings) -> None:
    for key, words in (("command", table.command), ("args", table.args)):
        for index, word in enumerate(words):
            if "{mcp}" in word:
                findings.warning(
                    (*path, key, index),
                    "holds {mcp}, which stands for nothing: its runner has no `mcp`, so its program gets no tools",
                    'add `mcp = { format = "claude_json" }` with the format that the program reads, or remove the word',
                )


def check_placeholders(words: Sequence[str], path: KeyPath, findings: Findings, *, args_allowed: bool = False) -> None:
    """Refuse placeholders that nothing fills in, and `{args}` where no arguments can go."""
    for index, word in enumerate(words):
        for name in unknown_names([word]):
            hint = nearest(name, IN_COMMANDS, f"known are {', '.join(sorted(IN_COMMANDS))}")
            findings.error((*path, index), f"holds the unknown placeholder {{{name}}}", hint)
        if ARGS in word and not args_allowed:
            findings.error((*path, index), f"holds {ARGS}, which stands for these very arguments", "remove it")
        elif ARGS in word and word != ARGS:
            findings.error((*path, index), f"holds {ARGS} beside other text", f"make {ARGS} an element of its own")
