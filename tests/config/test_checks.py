"""Every check of a configuration: a minimal bad file, the exact place that is pointed at, and what is said.

In the files, `»` stands right before that place. Nothing else may be wrong with them.
"""
# ruff: noqa: E501  (a case reads best on one line)

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tower.config.known import NOT_YET, refuse_key
from tower.config.load import load
from tower.config.tables import SECTIONS, TOP, accepted_keys

from .conftest import GOOD, Loads

AGENT = GOOD
RUNNER = '[runners.mine]\ncommand = ["agent"]\n'
PIPELINE = "[pipelines.p]\nentry = 'solo'\n"
ROUTE = "[[routes]]\nfrom = 'solo'\nto = 'solo'\n"
OTHER = '[agents.other]\ndescription = "d"\nrunner = "none"\nprompt = "x"\n'
JOINED = AGENT + OTHER + "[[routes]]\nfrom = ['other', 'solo']\nto = 'solo'\n"


@dataclasses.dataclass(frozen=True)
class Case:
    text: str
    key: str
    sentence: str
    hint: str


ERRORS = {
    # keys
    "unknown table": Case("[»agent.x]\n" + AGENT, "agent", "not a known key", "did you mean agents?"),
    "unknown top key": Case("»zzz = 1\n" + AGENT, "zzz", "not a known key", "the file knows agents, defaults"),
    "unknown layover key": Case("[layover]\n  »socet = 'x'\n" + AGENT, "layover.socet", "not a known key", "socket"),
    "unknown agent key": Case(AGENT + "»acess = 'read-only'\n", "agents.solo.acess", "not a known key", "access?"),
    "unknown runner key": Case(AGENT + RUNNER + "»arg = []\n", "runners.mine.arg", "not a known key", "args?"),
    "unknown estimate key": Case(
        AGENT + RUNNER + "estimate = { base = 1, »perbyte = 1 }\n", "runners.mine.estimate.perbyte", "known key", "per_byte"
    ),
    "unknown route key": Case(
        AGENT + "[[routes]]\nfrom = 'solo'\nto = 'solo'\n»mod = 'async'\n", "routes[0].mod", "not a known key", "mode?"
    ),
    "layover key in an agent": Case(
        AGENT + "»grace_sec = 3\n", "agents.solo.grace_sec", "not a known key here", "it belongs into [layover]"
    ),
    "agent key in layover": Case(
        "[layover]\n»timeout_sec = 3\n" + AGENT, "layover.timeout_sec", "known key here", "[defaults] or [agents.NAME]"
    ),
    "runner key on top": Case("»command = ['x']\n" + AGENT, "command", "not a known key here", "into [runners.NAME]"),
    "table in a table": Case(
        "[layover.»runners.x]\ncommand = ['x']\n" + AGENT, "layover.runners", "not a known key here", "at the top of the file"
    ),
    "key near to a later one": Case(AGENT + "»privledged = true\n", "agents.solo.privledged", "not a known key", "agents knows"),
    "quoted key": Case(AGENT + '»"a\\u001bb" = 1\n', 'agents.solo."a\\u001bb"', "not a known key", "agents knows"),
    "later table": Case("[»copilot]\nusd_per_credit = 1\n" + AGENT, "copilot", "not available yet", "as a runner reports"),
    "unknown pipeline key": Case(AGENT + PIPELINE + "»entri = 1\n", "pipelines.p.entri", "not a known key", "entry?"),
    "unknown flag key": Case(
        AGENT + PIPELINE + "[pipelines.p.flags]\ndeep = { »defautl = true }\n", "pipelines.p.flags.deep.defautl", "not a known key", "default?"
    ),
    "unknown choice key": Case(
        AGENT + PIPELINE + "[pipelines.p.agents.solo]\n»modle = 'x'\n", "pipelines.p.agents.solo.modle", "known key", "model?"
    ),
    "later pipeline key": Case(AGENT + PIPELINE + "»overlap = 'skip'\n", "pipelines.p.overlap", "not available yet", "remove"),
    "clock": Case(
        AGENT + PIPELINE + "»trigger = { every = '1h' }\n", "pipelines.p.trigger", "starts by itself, which is not available yet", "tower send -p"
    ),
    "pipeline without an entry": Case(AGENT + "[pipelines.»p]\n", "pipelines.p.entry", "is missing", "add it"),
    "pipeline to nobody": Case(
        AGENT + "[pipelines.p]\n»entry = 'sole'\n", "pipelines.p.entry", "there is no agent 'sole'", "did you mean solo?"
    ),
    "pipeline name": Case(AGENT + "[pipelines.»P]\nentry = 'solo'\n", "pipelines.P", "not a name for a pipeline", "a-z"),
    "pipeline priority": Case(AGENT + PIPELINE + "»priority = 101\n", "pipelines.p.priority", "at most 100", "-100 to 100"),
    "flag name": Case(
        AGENT + PIPELINE + "[pipelines.p.flags]\n»2x = {}\n", "pipelines.p.flags.2x", "not a name for a flag", "no digit"
    ),
    "choice for nobody": Case(
        AGENT + PIPELINE + "[pipelines.p.agents.»sola]\n", "pipelines.p.agents.sola", "there is no agent 'sola'", "solo?"
    ),
    "choice for a resident": Case(
        AGENT.replace('"none"', '"mine"') + "resident = true\n" + RUNNER + 'protocol = "jsonl"\n' + PIPELINE
        + "[pipelines.p.agents.»solo]\nmodel = 'x'\n",
        "pipelines.p.agents.solo", "one process of it serves the chains of every pipeline", "remove it",
    ),
    "choice with an unknown placeholder": Case(
        AGENT + PIPELINE + "[pipelines.p.agents.solo]\nargs = [»'{modle}']\n", "pipelines.p.agents.solo.args[0]", "{modle}", ""
    ),
    "route of an unknown pipeline": Case(
        AGENT + PIPELINE + ROUTE + "pipelines = ['p', »'q']\n", "routes[0].pipelines[1]", "there is no pipeline 'q'", "[pipelines.NAME]"
    ),
    "route of no pipeline": Case(AGENT + PIPELINE + ROUTE + "»pipelines = []\n", "routes[0].pipelines", "must not be empty", ""),
    "two modes of one edge in one pipeline": Case(
        AGENT + PIPELINE + ROUTE + ROUTE.replace("[[", "[[»") + "mode = 'spawn'\npipelines = 'p'\n",
        "routes[1]", "is declared async without a join before, and spawn without a join here", "for different pipelines",
    ),
    "later layover key": Case("[layover]\n»http_addr = ''\n" + AGENT, "layover.http_addr", "not available yet", "remove"),
    "later default": Case("[defaults]\n»sandbox = 'auto'\n" + AGENT, "defaults.sandbox", "not available yet", "remove"),
    "later agent key": Case(AGENT + "»approve = true\n", "agents.solo.approve", "not available yet", "remove it"),
    "resident without a protocol": Case(
        AGENT + "»resident = true\n", "agents.solo.resident", "it has no protocol", "name a runner"
    ),
    "resident on a runner without a protocol": Case(
        AGENT.replace('"none"', '"mine"') + "»resident = true\n" + RUNNER,
        "agents.solo.resident",
        "runner mine cannot be resident",
        "write protocol in [runners.mine]",
    ),
    "resident that runs twice": Case(
        AGENT.replace('"none"', '"mine"')
        + "resident = true\n»max_concurrent = 2\n"
        + RUNNER
        + 'protocol = "jsonl"\n',
        "agents.solo.max_concurrent",
        "one flight at a time",
        "remove it",
    ),
    "later protocol": Case(
        AGENT + RUNNER + "»protocol = 'acp'\n", "runners.mine.protocol", "not available yet", 'write "jsonl"'
    ),
    "unknown protocol": Case(AGENT + RUNNER + "»protocol = 'telnet'\n", "runners.mine.protocol", "must be", "jsonl"),
    "more residents than slots": Case(
        "[defaults]\n»max_concurrent_runs = 1\n"
        + AGENT.replace('"none"', '"mine"')
        + "resident = true\n"
        + AGENT.replace('"none"', '"mine"').replace("agents.solo", "agents.duo")
        + "resident = true\n"
        + RUNNER
        + 'protocol = "jsonl"\n',
        "defaults.max_concurrent_runs",
        "there are 2 residents",
        "max_concurrent_runs = 2",
    ),
    "later agent table": Case(
        AGENT + "[agents.solo.»mcp.s]\nurl = 'x'\n", "agents.solo.mcp", "not available yet", "remove it"
    ),
    "later runner key": Case(AGENT + RUNNER + "»cli = 'claude'\n", "runners.mine.cli", "not available yet", "command"),
    "unknown join": Case(JOINED + "»join = 'both'\n", "routes[0].join", 'must be "all", "any", "settled", or a number', "how many"),
    "join of nobody": Case(JOINED + "»join = 0\n", "routes[0].join", "or a number", "how many"),
    "join of more than there are": Case(JOINED + "»join = 3\n", "routes[0].join", "waits for 3 of 2 senders", "at most 2"),
    "join of one": Case(
        AGENT + ROUTE + "»join = 'all'\n", "routes[0].join", "has one sender, solo", "name several in from"
    ),
    "join of one, twice": Case(
        AGENT + ROUTE.replace("from = 'solo'", "from = ['solo', 'solo']") + "»join = 'all'\n", "routes[0].join", "has one sender", ""
    ),
    "join of what spawns": Case(
        JOINED + "mode = 'spawn'\n»join = 'all'\n", "routes[0].join", "opens a chain of its own", 'mode = "async"'
    ),
    "timeout without a join": Case(JOINED + "»timeout_sec = 5\n", "routes[0].timeout_sec", "there is none", "write join"),
    "suspects without a join": Case(JOINED + "»accept_suspect = true\n", "routes[0].accept_suspect", "there is none", "write join"),
    "one edge with and without a join": Case(
        JOINED + "join = 'any'\n[[»routes]]\nfrom = 'other'\nto = 'solo'\n", "routes[1]",
        "from other to solo is declared with join = any of other, solo before, and async without a join here", "alike",
    ),
    "two joins of one receiver": Case(
        JOINED + "join = 2\n" + "[[»routes]]\nfrom = ['a', 'b']\nto = 'solo'\njoin = 'all'\n"
        + OTHER.replace("other", "a") + OTHER.replace("other", "b"),
        "routes[1]", "solo has a join of other, solo already", "name all senders in one route",
    ),
    "unknown route mode": Case(
        AGENT + "[[routes]]\nfrom = 'solo'\nto = 'solo'\n»mode = 'sync'\n", "routes[0].mode", "must be one of", "async"
    ),
    "two modes of one edge": Case(
        AGENT + "[[routes]]\nfrom = 'solo'\nto = 'solo'\n[[»routes]]\nfrom = 'solo'\nto = 'solo'\nmode = 'spawn'\n",
        "routes[1]", "declared async without a join before, and spawn without a join here", "alike",
    ),
    "later output": Case(
        AGENT + RUNNER + "»output = 'claude'\n", "runners.mine.output", "'claude' is not available yet", '"report"'
    ),
    # shapes
    "no table": Case("»agents = 1\n" + RUNNER, "agents", "must be a table", "[agents]"),
    "no agent table": Case("[agents]\n»x = 1\n" + AGENT, "agents.x", "must be a table", "[agents.NAME]"),
    "no layover table": Case("»layover = true\n" + AGENT, "layover", "must be a table", "[layover]"),
    "routes as a table": Case("[»routes]\n" + AGENT, "routes", "must be a list of tables", "[[routes]]"),
    "route as a number": Case("routes = [»1]\n" + AGENT, "routes[0]", "must be a table", "[[routes]]"),
    "env as a list": Case(AGENT + "»env = ['A']\n", "agents.solo.env", "must be a table", "NAME"),
    "estimate as a number": Case(AGENT + RUNNER + "»estimate = 1\n", "runners.mine.estimate", "must be a table", "key"),
    # types
    "text": Case(AGENT + "»model = 1\n", "agents.solo.model", "must be text", "in quotes"),
    "truth": Case(AGENT + "»enabled = 1\n", "agents.solo.enabled", "must be true or false", "without quotes"),
    "whole number": Case(AGENT + "»max_pending = 1.5\n", "agents.solo.max_pending", "must be a whole number", "such as 3"),
    "truth is no number": Case(AGENT + "»max_pending = true\n", "agents.solo.max_pending", "must be a whole number", "such as 3"),
    "number": Case(AGENT + RUNNER + "estimate = { »base = 'x' }\n", "runners.mine.estimate.base", "must be a number", ""),
    "list": Case(AGENT + "»env_from = 'A'\n", "agents.solo.env_from", "must be a list", "["),
    "element": Case(AGENT + "args = ['a', »1]\n", "agents.solo.args[1]", "must be text", "in quotes"),
    "env value": Case(AGENT + "env = { A = '1', »B = 2 }\n", "agents.solo.env.B", "must be text", "in quotes"),
    "date": Case(AGENT + "»timeout_sec = 2020-01-01\n", "agents.solo.timeout_sec", "must be a duration", '"15m"'),
    "duration": Case(AGENT + "»timeout_sec = '15 min'\n", "agents.solo.timeout_sec", "must be a duration", '"15m"'),
    "empty duration": Case(AGENT + "»timeout_sec = ''\n", "agents.solo.timeout_sec", "must be a duration", '"15m"'),
    "one of": Case(AGENT + "»recovery = 'manuel'\n", "agents.solo.recovery", 'must be one of "automatic"', '"manual"?'),
    "one of a number": Case(AGENT + "»access = 1\n", "agents.solo.access", "must be one of", 'write "read-write"'),
    "effort": Case(AGENT + "»effort = 'hihg'\n", "agents.solo.effort", "must be one of", '"high"?'),
    "interruption": Case(
        AGENT + "recover_on = ['crash', »'restart']\n", "agents.solo.recover_on[1]", "must be one of", "tower_restart"
    ),
    # bounds
    "zero": Case(AGENT + "»timeout_sec = 0\n", "agents.solo.timeout_sec", "must be greater than 0", '"15m"'),
    "negative": Case(AGENT + "»stall_sec = -1\n", "agents.solo.stall_sec", "must be greater than 0", "seconds"),
    "too long": Case(AGENT + "»timeout_sec = '31d'\n", "agents.solo.timeout_sec", "must be at most 30 days", "seconds"),
    "nan": Case(AGENT + "»timeout_sec = nan\n", "agents.solo.timeout_sec", "must be a finite number", "ordinary"),
    "infinite": Case("[layover]\n»grace_sec = inf\n" + AGENT, "layover.grace_sec", "must be a finite number", "ordinary"),
    "low": Case("[defaults]\n»max_hops = 0\n" + AGENT, "defaults.max_hops", "must be at least 1", "from 1 to 1000"),
    "high": Case(
        "[defaults]\n»max_concurrent_runs = 9999\n" + AGENT, "defaults.max_concurrent_runs", "must be at most 1024", "1024"
    ),
    "huge": Case(AGENT + "»max_pending = 1" + "0" * 400 + "\n", "agents.solo.max_pending", "must be at most", "from 1"),
    "huge duration": Case(AGENT + "»timeout_sec = 1" + "0" * 400 + "\n", "agents.solo.timeout_sec", "duration", "seconds"),
    "empty list": Case(AGENT + "[runners.m]\n»command = []\n", "runners.m.command", "must not be empty", "element"),
    "empty from": Case(
        AGENT + "[[routes]]\n»from = []\nto = 'solo'\n", "routes[0].from", "must not be empty", "at least one"
    ),
    "long list": Case(AGENT + f"»args = {['a'] * 1001}\n", "agents.solo.args", "too many elements", "shorten"),
    "long text": Case(AGENT + f"»model = '{'m' * 5000}'\n", "agents.solo.model", "is too long", "file"),
    "NUL": Case(AGENT + '»model = "a\\u0000b"\n', "agents.solo.model", "holds a NUL character", "remove"),
    "NUL in a list": Case(AGENT + 'args = ["a", »"\\u0000"]\n', "agents.solo.args[1]", "holds a NUL", "remove"),
    "NUL in a name": Case(AGENT + 'env = { »"\\u0000" = "x" }\n', 'agents.solo.env."\\u0000"', "holds a NUL", "remove"),
    # missing
    "no command": Case(AGENT + "[runners.»m]\nargs = []\n", "runners.m.command", "is missing", "add it"),
    "no receiver": Case(AGENT + "[[»routes]]\nfrom = 'solo'\n", "routes[0].to", "is missing", "add it"),
    # names
    "reserved agent": Case(AGENT + "[agents.»tower]\nrunner = 'none'\nprompt = 'x'\n", "agents.tower", "reserved", "another"),
    "agent as a path": Case(
        AGENT + "[agents.»'../x']\nrunner = 'none'\nprompt = 'x'\n", 'agents."../x"', "is a path, not a name", "at most 64"
    ),
    "agent in capitals": Case(AGENT + "[agents.»Bob]\nrunner = 'none'\nprompt = 'x'\n", "agents.Bob", "not a name", "a-z"),
    "long agent name": Case(
        AGENT + f"[agents.»{'a' * 65}]\nrunner = 'none'\nprompt = 'x'\n", f"agents.{'a' * 65}", "not a name", "at most 64"
    ),
    "agent without a name": Case(AGENT + "[agents.»'']\nrunner = 'none'\nprompt = 'x'\n", 'agents.""', "not a name", "a-z"),
    "reserved runner": Case(AGENT + "[runners.»none]\ncommand = ['x']\n", "runners.none", "reserved", "another"),
    "runner name": Case(AGENT + "[runners.»'a b']\ncommand = ['x']\n", 'runners."a b"', "not a name", "a-z"),
    # runners
    "no runner": Case("[agents.»solo]\nprompt = 'x'\nentry = true\n", "agents.solo", "has no runner", "[defaults]"),
    "empty runner": Case(AGENT.replace("runner", "»runner").replace("none", ""), "agents.solo.runner", "must name", '"none"'),
    "unknown runner": Case(
        RUNNER + AGENT.replace("runner", "»runner").replace("none", "mien"), "agents.solo.runner", "neither", "did you mean mine?"
    ),
    "no form": Case(
        AGENT.replace("runner", "»runner").replace("none", "ssh:host"), "agents.solo.runner", "neither", "cmd:SCRIPT, fake:FILE"
    ),
    "preset": Case(
        AGENT.replace("runner", "»runner").replace("none", "claude:x@high"), "agents.solo.runner", "not available yet", "cmd:"
    ),
    "default preset": Case(
        "[defaults]\n»runner = 'codex'\n" + (AGENT + OTHER).replace('runner = "none"\n', ""),
        "defaults.runner", "not available yet", "cmd:",
    ),
    "default that no agent takes": Case(
        "[defaults]\n»runner = 'cdoex'\n" + AGENT, "defaults.runner", "neither declared nor a spec", "cmd:SCRIPT"
    ),
    "no fake": Case(
        AGENT.replace("runner", "»runner").replace("none", "fake:x.yaml"), "agents.solo.runner", "names x.yaml", "make"
    ),
    "placeholder": Case(
        AGENT + "[runners.m]\ncommand = ['x', »'{modle}']\n", "runners.m.command[1]", "unknown placeholder {modle}", "model?"
    ),
    "placeholder of args": Case(AGENT + "args = [»'{x}']\n", "agents.solo.args[0]", "unknown placeholder {x}", "workspace"),
    "args in args": Case(AGENT + RUNNER + "args = [»'{args}']\n", "runners.mine.args[0]", "holds {args}", "remove"),
    "args in text": Case(
        AGENT + "[runners.m]\ncommand = ['x', »'-c {args}']\n", "runners.m.command[1]", "beside other text", "of its own"
    ),
    "no level of effort": Case(
        AGENT + RUNNER + "efforts = { »hihg = 'x' }\n", "runners.mine.efforts.hihg", 'must be one of "none"', '"high"?'
    ),
    "no tier": Case(AGENT + "»tier = 'ligth'\n", "agents.solo.tier", "must be one of", '"light"?'),
    "no tier of a runner": Case(AGENT + RUNNER + "tiers = { »big = 'x' }\n", "runners.mine.tiers.big", "must be one of", '"light"'),
    "tier of no runner": Case(
        AGENT + RUNNER + "[tiers]\nlight = { »mien = 'x' }\n", "tiers.light.mien", "there is no runner 'mien'", "did you mean mine?"
    ),
    "unknown tier table": Case(AGENT + "[tiers.»ligth]\n", "tiers.ligth", "not a known key", "did you mean light?"),
    "no expression": Case(
        AGENT + RUNNER + "unavailable_patterns = ['a', »'(']\n", "runners.mine.unavailable_patterns[1]", "no regular expression", "backslash"
    ),
    "expression of everything": Case(
        AGENT + RUNNER + "unavailable_patterns = [»'.*']\n", "runners.mine.unavailable_patterns[0]", "matches every line", "rate limit"
    ),
    "config_home": Case(AGENT + RUNNER + "»config_home = 'own'\n", "runners.mine.config_home", 'must be one of "inherit"', "inherit"),
    "tools that nothing enforces": Case(
        AGENT.replace('"none"', '"mine"') + "»tools = ['read']\n" + RUNNER, "agents.solo.tools", "has no flag that holds", "args of its own"
    ),
    "tools of defaults that nothing enforces": Case(
        "[defaults]\n»tools = []\n" + AGENT.replace('"none"', '"mine"') + RUNNER, "defaults.tools", "has no flag that holds", "args"
    ),
    "tools that widen": Case(
        "[defaults]\ntools = ['read', 'write']\n" + AGENT + "tools = ['read', »'wirte']\n",
        "agents.solo.tools[1]", "only narrow the tools of [defaults], and wirte is not among them", "did you mean write?",
    ),
    "signal": Case(AGENT + RUNNER + "»stop_signal = 'KILL'\n", "runners.mine.stop_signal", "must be a signal", "TERM, INT"),
    # prompts
    "two prompts": Case(AGENT + "»prompt_file = 'p.md'\n", "agents.solo.prompt_file", "solo has prompt as well", "one"),
    "no prompt": Case("[agents.»solo]\nrunner = 'none'\nentry = true\n", "agents.solo", "has neither prompt nor", "one"),
    "blank prompt": Case(AGENT.replace("prompt", "»prompt").replace('"x"', '" \\n"'), "agents.solo.prompt", "says nothing", ""),
    "prompt with an include": Case(
        AGENT.replace('"x"', "'''\nDo:\n»@include a.md\n'''"),
        "agents.solo.prompt", "includes a.md, which was not found; tried {folder}/prompts/a.md", "make the file",
    ),
    "no prompt file": Case(
        AGENT.replace('prompt = "x"', "»prompt_file = 'p.md'"),
        "agents.solo.prompt_file",
        "names p.md, which was not found; tried {folder}/prompts/p.md, then {folder}/p.md",
        "make the file",
    ),
    "prompt file outside": Case(
        AGENT.replace('prompt = "x"', "»prompt_file = '/etc/passwd'"), "agents.solo.prompt_file", "leads outside", "move"
    ),
    "prompt file above": Case(
        AGENT.replace('prompt = "x"', "»prompt_file = '../../../../../../../etc/passwd'"),
        "agents.solo.prompt_file", "leads outside", "move",
    ),
    "prompt file is a folder": Case(
        AGENT.replace('prompt = "x"', "»prompt_file = 'workspace'"), "agents.solo.prompt_file", "which is not a file", "text"
    ),
    "blank prompt file": Case(
        AGENT.replace('prompt = "x"', "»prompt_file = 'blank.md'"), "agents.solo.prompt_file", "says nothing", "write"
    ),
    "no name": Case(AGENT.replace('prompt = "x"', "»prompt_file = ''"), "agents.solo.prompt_file", "must name a path", "path"),
    "home": Case(AGENT.replace('prompt = "x"', "»prompt_file = '~/x'"), "agents.solo.prompt_file", "begins with ~", "whole"),
    "very long name": Case(
        AGENT.replace('prompt = "x"', f"»prompt_file = '{'n' * 300}'"), "agents.solo.prompt_file", "not found", "make"
    ),
    "no persona file": Case(AGENT + "»persona = 'who.md'\n", "agents.solo.persona", "was not found; tried", "make"),
    "blank persona file": Case(AGENT + "»persona = 'blank.md'\n", "agents.solo.persona", "says nothing", "write"),
    "persona of empty sections": Case(AGENT + "»persona = 'hollow.md'\n", "agents.solo.persona", "says nothing", "write"),
    "no role file": Case(AGENT + "»role = 'job.md'\n", "agents.solo.role", "was not found; tried", "make"),
    "default persona file": Case(
        "[defaults]\n»persona = 'who.md'\n" + AGENT + OTHER.replace("prompt", "entry = true\nprompt"),
        "defaults.persona", "was not found; tried", "make",
    ),
    # environment
    "credential": Case(
        AGENT + "env = { »GITHUB_TOKEN = 'x' }\n", "agents.solo.env.GITHUB_TOKEN", "looks like a credential", "env_from"
    ),
    "default credential": Case(
        "[defaults.env]\n»MY_API_KEY = 'x'\n" + AGENT, "defaults.env.MY_API_KEY", "looks like a credential", "env_from"
    ),
    "variable name": Case(AGENT + "env = { »a-b = 'x' }\n", "agents.solo.env.a-b", "not a name for a variable", "letters"),
    "forwarded name": Case(AGENT + "env_from = [»'A=B']\n", "agents.solo.env_from[0]", "not a name for a variable", "letters"),
    "the tower's name": Case(AGENT + "env = { »LAYOVER_RUN_ID = 'x' }\n", "agents.solo.env.LAYOVER_RUN_ID", "set by", "another"),
    "set and forwarded": Case(
        "[defaults]\nenv_from = ['HOME']\n" + AGENT + "env = { »HOME = '/x' }\n",
        "agents.solo.env.HOME", "forwarded by defaults.env_from", "one of the two",
    ),
    # places
    "work_dir outside": Case(
        AGENT + "»work_dir = '/usr'\n", "agents.solo.work_dir", "is /usr, which lies outside {folder}/workspace", "allowed_dirs"
    ),
    "work_dir through a link": Case(AGENT + "»work_dir = 'workspace/out'\n", "agents.solo.work_dir", "lies outside", "allowed"),
    "work_dir is a file": Case(AGENT + "»work_dir = 'workspace/file'\n", "agents.solo.work_dir", "is not a folder", "folder"),
    "work_dir in the state": Case(
        "[layover]\n»work_dir = '.layover/x'\nstate_dir = '.layover'\n" + AGENT, "layover.work_dir", "inside the state", "outside"
    ),
    "no snapshots": Case(
        AGENT + "»access = 'read-only'\n", "agents.solo.access", "needs a git work tree to take snapshots of", "git init"
    ),
    "socket path": Case(
        f"[layover]\n»socket = '/run/{'s' * 110}'\n" + AGENT, "layover.socket", "a socket path of 115 bytes", "below /run"
    ),
    "state path": Case(
        f"[layover]\n»state_dir = '/run/{'s' * 100}'\n" + AGENT, "layover.state_dir", "a socket path of 116 bytes", "socket"
    ),
    "no repository in the system": Case(
        "[layover]\nwork_dir = '/etc'\n" + AGENT + "»access = 'read-only'\n",
        "agents.solo.access", "needs a git work tree", "name a repository in work_dir, or write",
    ),
    "umask as a number": Case("[layover]\n»umask = 22\n" + AGENT, "layover.umask", "must be text of octal digits", '"022"'),
    "umask of other digits": Case("[layover]\n»umask = '088'\n" + AGENT, "layover.umask", "octal digits", '"077"'),
    "umask that is no mode": Case("[layover]\n»umask = '1777'\n" + AGENT, "layover.umask", "octal digits", '"077"'),
    "no group": Case(
        "[layover]\n»socket_group = 'no-such'\n" + AGENT, "layover.socket_group", "there is no group 'no-such'", "groupadd"
    ),
    "absolute pattern": Case(
        AGENT + "snapshot_include = ['a', »'/etc/*']\n", "agents.solo.snapshot_include[1]", "must stay inside", "relative"
    ),
    "pattern above": Case(
        AGENT + "snapshot_include = [»'a/../../b']\n", "agents.solo.snapshot_include[0]", "must stay inside", "without .."
    ),
    "blank pattern": Case(AGENT + "snapshot_include = [»' ']\n", "agents.solo.snapshot_include[0]", "must name", "pattern"),
    # together
    "unknown sender": Case(AGENT + "[[routes]]\n»from = 'sole'\nto = 'solo'\n", "routes[0].from", "no agent 'sole'", "solo?"),
    "unknown receiver": Case(
        AGENT + "[[routes]]\nfrom = 'solo'\nto = ['solo', »'zz']\n", "routes[0].to[1]", "no agent 'zz'", "[agents.NAME]"
    ),
    "no way in": Case(f"[»agents]\n{OTHER}", "agents", "there is no way in", "entry = true"),
    "no agents": Case(RUNNER, "agents", "no agent is declared", "tower init"),
}  # fmt: skip

WARNINGS = {
    "two defaults of one flag": Case(
        AGENT + PIPELINE + "flags = { deep = {} }\n[pipelines.q]\nentry = 'solo'\nflags = { »deep = { default = true } }\n",
        "pipelines.q.flags.deep", "has another default than in pipeline p", "the same default in both",
    ),
    "residents keep every slot": Case(
        "[defaults]\n»max_concurrent_runs = 1\n"
        + AGENT.replace('"none"', '"mine"')
        + "resident = true\n"
        + RUNNER
        + 'protocol = "jsonl"\n'
        + OTHER
        + "entry = true\n",
        "defaults.max_concurrent_runs",
        "no other agent ever starts",
        "max_concurrent_runs = 2",
    ),
    "turns without a resident": Case(
        AGENT + "»max_turns = 3\n", "agents.solo.max_turns", "for residents alone", "resident = true"
    ),
    "no description": Case(
        AGENT.replace("solo", "»solo").replace('description = "d"\n', ""), "agents.solo", "no description", "one line"
    ),
    "empty description": Case(AGENT.replace("solo", "»solo").replace('"d"', '""'), "agents.solo", "no description", "one line"),
    "nothing can wake it": Case(AGENT + OTHER.replace("other", "»other"), "agents.other", "nothing can wake it", "route"),
    "woken only by itself": Case(
        AGENT + OTHER.replace("other", "»other") + "[[routes]]\nfrom = 'other'\nto = 'other'\n",
        "agents.other", "nothing can wake it", "route",
    ),
    "too far": Case(
        "[defaults]\nmax_hops = 1\n" + AGENT + OTHER.replace("other", "»other") + "[[routes]]\nfrom = 'solo'\nto = 'other'\n",
        "agents.other", "is 2 flights from every way in, and max_hops is 1", "raise max_hops",
    ),
    "variable not set": Case(AGENT + "env_from = ['HOME', »'NOPE']\n", "agents.solo.env_from[1]", "NOPE is not set now", "held"),
    "runner's variable": Case(
        AGENT + RUNNER + "env_from = [»'NOPE']\n", "runners.mine.env_from[0]", "NOPE is not set now", "credential"
    ),
    "no workspace": Case("[layover]\n»work_dir = 'none'\n" + AGENT, "layover.work_dir", "there is no folder", "make it"),
    "no place of its own": Case(AGENT + "»work_dir = 'workspace/none'\n", "agents.solo.work_dir", "there is no folder", "make"),
    "model left behind": Case(
        RUNNER + "[defaults]\nrunner = 'none'\nmodel = 'big'\n" + AGENT.replace("runner", "»runner").replace("none", "mine"),
        "agents.solo.runner", "agent solo uses the own model of runner mine: big, the model of [defaults], is for runner none",
        "[agents.solo]",
    ),
    "stall after the timeout": Case(
        AGENT + "timeout_sec = 5\n»stall_sec = '1m'\n", "agents.solo.stall_sec", "never ends a run of solo", "less than"
    ),
    "default stall after the timeout": Case(
        "[defaults]\n»stall_sec = '1m'\n" + AGENT + "timeout_sec = 5\n", "defaults.stall_sec", "timeout_sec is 5", "less than"
    ),
    "a budget that nothing fits into": Case(
        AGENT + "»context_budget = 700\n", "agents.solo.context_budget", "even an empty one is taken for 711", "raise it"
    ),
    "no place for a model": Case(
        RUNNER + AGENT.replace("none", "mine") + "»model = 'big'\n", "agents.solo.model", "mine has no place for it", "{model}"
    ),
    "no place for a context": Case(
        RUNNER + AGENT.replace("none", "mine") + "»context = '1m'\n", "agents.solo.context", "no place for it", "LAYOVER_CONTEXT"
    ),
    "no place for the model of a tier": Case(
        RUNNER + "tiers = { light = 'small' }\n" + AGENT.replace("none", "mine") + "»tier = 'light'\n",
        "agents.solo.tier", "mine has no place for the model that it stands for", "{model}",
    ),
    "no model for a tier": Case(
        RUNNER.replace('"agent"', '"agent", "{model}"') + "[defaults]\n»tier = 'light'\n" + AGENT.replace("none", "mine"),
        "defaults.tier", "runner mine has no model for it", 'tiers = { light = "MODEL" } in [runners.mine]',
    ),
    "tier beside a model": Case(AGENT + "model = 'x'\n»tier = 'light'\n", "agents.solo.tier", "has no effect", "one of the two"),
    "default tier beside a model": Case(
        "[defaults]\nmodel = 'x'\n»tier = 'light'\n" + AGENT, "defaults.tier", "has no effect", "one of the two"
    ),
    "effort that the runner does not have": Case(
        RUNNER.replace('"agent"', '"agent", "{effort}"') + "efforts = { max = '', xhigh = '' }\n" + AGENT.replace("none", "mine") + "»effort = 'max'\n",
        "agents.solo.effort", "runner mine does not have it", 'write "high", the nearest',
    ),
    "no place for an effort": Case(
        RUNNER + "[defaults]\n»effort = 'low'\n" + AGENT.replace("none", "mine"), "defaults.effort", "no place", "{effort}"
    ),
}  # fmt: skip


@pytest.fixture
def furnished(loads: Loads, tmp_path: Path) -> Loads:
    (tmp_path / "workspace" / "out").symlink_to("/usr")
    (tmp_path / "workspace" / "file").write_text("")
    (tmp_path / "blank.md").write_text(" \n\n")
    (tmp_path / "hollow.md").write_text("# Persona: X\n\n## Persona\n\n## Background\n")
    return loads


def place_of(marked: str) -> tuple[int, int]:
    before = marked.partition("»")[0]
    return (before.count("\n") + 1, len(before) - before.rfind("\n")) if "»" in marked else (1, 1)


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_an_error_is_found_alone_and_at_its_place(case: Case, furnished: Loads, tmp_path: Path) -> None:
    loaded = furnished(case.text.replace("»", ""), {"HOME": "/h"})
    (problem,) = [it for it in loaded.problems if it.severity == "error"]
    assert loaded.factory is None
    assert (problem.line, problem.column, problem.key) == (*place_of(case.text), case.key)
    assert (
        case.sentence.format_map({"folder": tmp_path, "modle": "{modle}", "x": "{x}", "args": "{args}"})
        in problem.sentence
    )
    assert case.hint in problem.hint
    assert problem.file == str(tmp_path / "layover.toml")


@pytest.mark.parametrize("case", WARNINGS.values(), ids=WARNINGS)
def test_a_warning_is_found_alone_and_leaves_the_factory(case: Case, furnished: Loads) -> None:
    loaded = furnished(case.text.replace("»", ""), {"HOME": "/h"})
    (problem,) = loaded.problems
    assert loaded.factory is not None
    assert problem.severity == "warning"
    assert (problem.line, problem.column, problem.key) == (*place_of(case.text), case.key)
    assert case.sentence in problem.sentence
    assert case.hint in problem.hint


def test_nothing_is_wrong_with_the_smallest_factory(loads: Loads) -> None:
    loaded = loads(GOOD)
    assert loaded.problems == ()
    assert loaded.factory is not None


def test_all_problems_are_listed_together_in_the_order_of_the_file(loads: Loads) -> None:
    loaded = loads(
        "[defaults]\nmax_hops = 0\n[agents.b]\nprompt_file = 'no.md'\nacess = 1\ntimeout_sec = 0\n[agents.a]\nprompt = 'x'\n"
        "[[routes]]\nfrom = 'c'\nto = 'a'\n[layover]\nsocket = 1\n"
    )
    assert [(it.line, it.key) for it in loaded.problems if it.severity == "error"] == [
        (2, "defaults.max_hops"),
        (3, "agents"),
        (3, "agents.b"),
        (4, "agents.b.prompt_file"),
        (5, "agents.b.acess"),
        (6, "agents.b.timeout_sec"),
        (7, "agents.a"),
        (10, "routes[0].from"),
        (13, "layover.socket"),
    ]


def test_a_read_only_agent_needs_git_where_the_tower_looks_for_it(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "workspace" / ".git").mkdir()
    (tmp_path / "bin").mkdir()
    text = AGENT + "access = 'read-only'\n"
    (problem,) = loads(text, {"PATH": str(tmp_path / "bin")}).problems
    assert (problem.line, problem.key, problem.severity) == (6, "agents.solo.access", "error")
    assert "there is none on the PATH" in problem.sentence
    assert load(tmp_path / "layover.toml", environ={"PATH": os.environ["PATH"]}).problems == ()


def test_no_suggestion_is_a_key_that_is_not_available_yet_or_what_was_written() -> None:
    for section, later in NOT_YET.items():
        for key in later:
            for written in (key[:-1], key + "s", key.upper()):
                accepted = {"": TOP, **{table: accepted_keys(table) for table in SECTIONS}}
                _, hint = refuse_key(section, written, accepted)
                suggested = hint.removeprefix("did you mean ").removesuffix("?")
                assert suggested == hint or suggested in accepted[section]
                assert suggested != written


def test_what_is_mistyped_is_not_said_to_be_missing(loads: Loads) -> None:
    loaded = loads(
        "[defaults]\nrunner = 1\n[agents.a]\nprompt = 1\nentry = 'yes'\n[agents.b]\nprompt_file = 1\nrunner = 2\n"
    )
    assert [it.key for it in loaded.problems] == [
        "defaults.runner", "agents.a.prompt", "agents.a.entry", "agents.b.prompt_file", "agents.b.runner",
    ]  # fmt: skip


def test_a_runner_that_was_mistyped_is_not_unknown_to_those_who_use_it(loads: Loads) -> None:
    loaded = loads("[runners.mine]\ncommand = 'x'\n" + AGENT.replace("none", "mine"))
    assert [it.key for it in loaded.problems] == ["runners.mine.command"]


def test_a_disabled_agent_may_be_out_of_reach(loads: Loads) -> None:
    assert loads(AGENT + OTHER + "enabled = false\n").problems == ()


def test_a_mistyped_place_does_not_make_other_places_wrong(loads: Loads) -> None:
    loaded = loads("[layover]\nwork_dir = 1\n" + AGENT + "work_dir = '/usr'\n" + OTHER)
    assert [it.key for it in loaded.problems] == ["layover.work_dir"]


def test_a_text_outside_the_folder_is_named_by_its_whole_path(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "p.md").write_text("@include x.md\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "workspace").mkdir()
    file = tmp_path / "sub" / "layover.toml"
    file.write_text("[layover]\nprompt_dir = '../shared'\n" + GOOD.replace('prompt = "x"', "prompt_file = 'p.md'"))
    (problem,) = load(file, environ={}).problems
    assert problem.file == str(tmp_path / "shared" / "p.md")


def test_a_message_reads_as_one_line(loads: Loads, tmp_path: Path) -> None:
    loaded = loads(
        "[agents.tester]\nrunner = 'none'\nprompt = 'x'\nentry = true\ndescription = 'd'\n  timeout_sec = 0\n"
    )
    (problem,) = loaded.problems
    assert str(problem) == (
        f"{tmp_path}/layover.toml:6:3: agents.tester.timeout_sec: must be greater than 0;"
        ' write seconds (900), or text such as "30s", "15m", "2h", "3d"'
    )


def test_files_are_named_as_the_person_named_the_configuration(
    loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads(GOOD.replace('prompt = "x"', 'prompt_file = "p.md"'), p="fine\n\n@include a b\n")
    monkeypatch.chdir(tmp_path)
    (problem,) = load(Path(), environ={}).problems
    assert (
        str(problem) == "p.md:3:1: agents.solo.prompt_file: @include is followed by more than one path;"
        ' put a path with blanks into quotes: @include "a file.md"; in a block of code the line is text'
    )
    monkeypatch.chdir("/")
    (problem,) = load(tmp_path / "workspace" / "..", environ={}).problems
    assert problem.file == f"{tmp_path}/workspace/../p.md"


def test_a_pipeline_is_read_with_everything_that_it_says(loads: Loads) -> None:
    loaded = loads(
        GOOD
        + """\
args = ["-a"]
model = "small"
effort = "low"
[pipelines.build]
description = "b"
entry = "solo"
trigger = "manual"
priority = 7
body = "go"
flags = { deep = { default = true, description = "d" }, plain = {} }
[pipelines.build.agents.solo]
model = ""
args = ["-b"]
[pipelines.other]
entry = "solo"
"""
    )
    assert loaded.factory is not None
    build = loaded.factory.pipelines["build"]
    assert (build.entry, build.description, build.priority, build.body) == ("solo", "b", 7, "go")
    assert build.settled({"plain": True}) == {"deep": True, "plain": True}
    assert build.flags["deep"].description == "d"
    chosen = loaded.factory.agent_in("solo", "build")
    assert (chosen.model, chosen.effort, chosen.args) == (None, "low", ("-a", "-b"))
    assert (chosen.origins["model"], chosen.origins["effort"]) == ("pipeline build", "agent")
    plain = loaded.factory.agents["solo"]
    assert loaded.factory.agent_in("solo", "other") is loaded.factory.agent_in("solo", None) is plain
