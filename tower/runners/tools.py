"""Telling a program where the tower's tools are, in the form that it reads: `mcp` of `[runners.NAME]`.

No form holds the token: each names the variable that has it, as the programs allow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tower.core.factory import Runner

SERVER: Final = "layover"
"""What the programs call the tower's tools."""

TOKEN: Final = "LAYOVER_RUN_TOKEN"  # noqa: S105 (the name of a variable)
FILE: Final = "mcp.json"
"""In the run's folder."""

PATIENCE_SEC: Final = 600
"""For one call: a program gives up on its own after a minute or so, and a tower may be restarted meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a start has beside its command, so that its program finds the tools."""

    value: str | None = None
    """What `{mcp}` stands for; None is unset."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Name in the run's folder -> text."""
    env: Mapping[str, str] = field(default_factory=dict)


def offer(runner: Runner, url: str, run_dir: str) -> Offer:
    """How the tools at `url` are told to a runner's program; `run_dir` is the run's folder, absolute."""
    if runner.mcp is None or not url:
        return Offer()
    path, prefix = f"{run_dir}/{FILE}", runner.mcp.prefix
    match runner.mcp.format:
        case "claude_json":
            server = {"type": "http", "url": url, "alwaysLoad": True, "headers": _bearer("${%s}")}
            return Offer(value=prefix + path, files=_file({"mcpServers": {SERVER: server}}))
        case "gemini_settings":
            server = {"httpUrl": url, "headers": _bearer("$%s"), "trust": True, "timeout": PATIENCE_SEC * 1000}
            names = ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_SETTINGS_PATH")
            files = _file({"mcpServers": {SERVER: server}})
            return Offer(value=prefix + path, files=files, env=dict.fromkeys(names, path))
        case "opencode_json":
            server = {
                "type": "remote",
                "url": url,
                "headers": _bearer("{env:%s}"),
                "enabled": True,
                "oauth": False,
                "timeout": PATIENCE_SEC * 1000,
            }
            files = _file({"mcp": {SERVER: server}})
            return Offer(value=prefix + path, files=files, env={"OPENCODE_CONFIG_CONTENT": files[FILE].strip()})
        case "codex_overrides":
            told = (
                f"url={json.dumps(url)}, bearer_token_env_var={json.dumps(TOKEN)}, required=true,"
                f' default_tools_approval_mode="approve", tool_timeout_sec={PATIENCE_SEC}'
            )
            return Offer(value=f"{prefix}mcp_servers.{SERVER}={{{told}}}")
        case "env":
            return Offer(value=prefix + url)
    return Offer()


def arguments(runner: Runner) -> tuple[str, ...]:
    """What is added to a command that has no place of its own for the tools."""
    wired = runner.mcp is not None and runner.mcp.flag is not None
    if not wired or any("{mcp}" in word for word in (*runner.command, *runner.args)):
        return ()
    assert runner.mcp is not None  # noqa: S101 (just asked)
    assert runner.mcp.flag is not None  # noqa: S101 (just asked)
    return (runner.mcp.flag, "{mcp}")


def _bearer(form: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {form % TOKEN}"}


def _file(document: Mapping[str, Any]) -> dict[str, str]:
    return {FILE: json.dumps(document, indent=1) + "\n"}
