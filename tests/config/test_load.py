# ruff: noqa: E501  (lists of names)
from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tower.config.load import Loaded, load
from tower.config.tables import accepted_keys
from tower.core.factory import Access, RecoveryPolicy
from tower.core.routes import Route

from .conftest import GOOD, Loads

# --- the file itself ---------------------------------------------------------------------------


def only_problem(loaded: Loaded) -> str:
    (problem,) = loaded.problems
    assert loaded.factory is None
    assert problem.severity == "error"
    assert problem.hint
    return str(problem)


def test_a_folder_means_the_file_in_it(loads: Loads, tmp_path: Path) -> None:
    loads(GOOD)
    loaded = load(tmp_path, environ={})
    assert loaded.factory is not None
    assert loaded.factory.path == str(tmp_path / "layover.toml")


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    loaded = load(tmp_path, environ={})
    assert "layover.toml: does not exist; `tower init`" in only_problem(loaded)
    assert loaded.watched == {tmp_path}


def test_a_missing_folder_is_watched_where_it_would_appear(tmp_path: Path) -> None:
    loaded = load(tmp_path / "not" / "yet" / "layover.toml", environ={})
    assert "does not exist" in only_problem(loaded)
    assert loaded.watched == {tmp_path}


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").mkdir()
    assert "is not a file" in only_problem(load(tmp_path, environ={}))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "layover.toml")
    assert "is not a file" in only_problem(load(tmp_path, environ={}))


def test_a_file_that_may_not_be_read(loads: Loads, tmp_path: Path) -> None:
    loads(GOOD)
    (tmp_path / "layover.toml").chmod(0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        loaded = load(tmp_path / "layover.toml", environ={})
    finally:
        os.seteuid(user)
    assert "cannot be read by this user" in only_problem(loaded)


def test_a_file_whose_reading_fails(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").symlink_to("/proc/self/mem")
    assert "cannot be read: Input/output error" in only_problem(load(tmp_path, environ={}))


def test_a_loop_of_symlinks(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").symlink_to(tmp_path / "layover.toml")
    assert "cannot be read" in only_problem(load(tmp_path, environ={}))


def test_a_name_that_no_system_call_takes() -> None:
    assert "cannot be" in only_problem(load(Path("/x\0y"), environ={}))
    assert "cannot be" in only_problem(load(Path("/" + "x" * 300), environ={}))


def test_a_current_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "cannot be found" in only_problem(load(Path("layover.toml"), environ={}))


def test_ten_megabytes(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").write_bytes(b"# " + b"x" * 10_000_000)
    assert "is larger than 1048576 bytes" in only_problem(load(tmp_path, environ={}))


def test_what_is_not_utf8_is_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").write_bytes("[layover]\n# café ".encode() + b"caf\xe9\n")
    assert "layover.toml:2:11: is not UTF-8" in only_problem(load(tmp_path, environ={}))


def test_a_nul_byte_is_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "layover.toml").write_bytes(b"[layover]\n  \0\n")
    assert "layover.toml:2:3: holds a NUL byte" in only_problem(load(tmp_path, environ={}))


WHOLE = (
    "[layover]\nwork_dir = 'workspace'\nallowed_dirs = ['/usr']\n[defaults]\nrunner = 'mine'\nmodel = \"m\"\n"
    "[runners.mine]\ncommand = ['x', '{model}']\nestimate = { base = 1, per_byte = 2 }\n"
    "[agents.a]\nprompt = '''\nx\n'''\nentry = true\nenv = { A = 'b' }\n[agents.b]\nprompt_file = 'p.md'\n"
    "[[routes]]\nfrom = 'a'\nto = ['b']\n"
)


@pytest.mark.parametrize("at", range(0, len(WHOLE), 7))
def test_a_half_written_file_is_a_problem_or_a_factory_and_never_an_exception(loads: Loads, at: int) -> None:
    loaded = loads(WHOLE[:at], p="x")
    assert (loaded.factory is None) == any(problem.is_error for problem in loaded.problems)


JUNK = ["1", "-1", "1.5", "nan", "inf", "true", "''", "' '", "'~'", "'..'", '"\\u0000"', "'\\u0000'", "[]", "[1]", "['']", "[[]]",
        "{}", "{ a = 1 }", "{ a = 'b' }", "1979-05-27", "07:32:00", "0x" + "f" * 400]  # fmt: skip
HEADERS = {
    "layover": "[layover]",
    "defaults": "[defaults]",
    "runners.*": "[runners.r]",
    "runners.*.estimate": "[runners.r.estimate]",
    "runners.*.mcp": "[runners.r.mcp]",
    "agents.*": "[agents.a]",
    "routes.*": "[[routes]]",
}


def check_sanity(loaded: Loaded, text: str) -> None:
    assert (loaded.factory is None) == any(problem.is_error for problem in loaded.problems)
    lines = text.split("\n")
    for problem in loaded.problems:
        assert str(problem).isprintable()
        assert problem.sentence
        assert problem.line <= len(lines)
        assert problem.line == 0 or 1 <= problem.column <= len(lines[problem.line - 1]) + 1


@pytest.mark.parametrize("section", HEADERS)
@pytest.mark.parametrize("junk", JUNK)
def test_any_value_at_any_key_is_a_problem_or_a_factory(loads: Loads, section: str, junk: str) -> None:
    for key in accepted_keys(section):
        text = f"{HEADERS[section]}\n{key} = {junk}\n"
        check_sanity(loads(text), text)


KEYS = st.sampled_from(
    ["_env_file", "self", "x y", "", *(key for section in HEADERS for key in accepted_keys(section))]
)
TABLES = st.sampled_from([*HEADERS.values(), "[agents.'..']", "[agents]", "[x]", "[[agents]]", "[routes]", "['']"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TABLES, st.dictionaries(KEYS, st.sampled_from(JUNK), max_size=4)), max_size=4))
def test_any_mixture_is_a_problem_or_a_factory(tmp_path: Path, tables: list[tuple[str, dict[str, str]]]) -> None:
    text = "".join(
        f"{header}\n" + "".join(f'"{key}" = {value}\n' for key, value in table.items()) for header, table in tables
    )
    (tmp_path / "layover.toml").write_text(text)
    check_sanity(load(tmp_path, environ={}), text)


# --- what is watched, and what counts as the same ----------------------------------------------


def test_the_folders_of_the_file_and_its_texts_are_watched(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "prompts" / "deep").mkdir(parents=True)
    (tmp_path / "prompts" / "deep" / "a.md").write_text("x")
    loaded = loads(GOOD.replace('prompt = "x"', "prompt_file = 'deep/a.md'"))
    assert loaded.factory is not None
    assert loaded.watched == {tmp_path, tmp_path / "prompts" / "deep"}


def test_a_missing_text_is_watched_where_it_would_appear(loads: Loads, tmp_path: Path) -> None:
    loaded = loads(GOOD.replace('prompt = "x"', "prompt_file = 'deep/a.md'"))
    assert loaded.factory is None
    assert loaded.watched == {tmp_path}


def test_symlinks_on_the_way_are_watched_where_they_can_be_swapped(loads: Loads, tmp_path: Path) -> None:
    """As a mounted config map does it: the file leads through a link to a folder that is swapped whole."""
    (tmp_path / "..v1").mkdir()
    (tmp_path / "..v1" / "layover.toml").write_text(GOOD)
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "layover.toml").symlink_to("..data/layover.toml")
    (tmp_path / "workspace").mkdir(exist_ok=True)
    elsewhere = tmp_path / "current"
    elsewhere.symlink_to(tmp_path / "..v1")
    assert load(tmp_path, environ={}).watched == {tmp_path, tmp_path / "..v1"}
    assert load(elsewhere, environ={}).watched == {tmp_path, elsewhere, tmp_path / "..v1"}


def test_the_digest_follows_the_content_and_nothing_else(loads: Loads, tmp_path: Path) -> None:
    text = GOOD.replace('prompt = "x"', "prompt_file = 'p.md'")

    def digest(text: str, prompt: str) -> str:
        factory = loads(text, p=prompt).factory
        assert factory is not None
        assert len(factory.digest) == 64
        return factory.digest

    first = digest(text, "one")
    os.utime(tmp_path / "p.md", (1, 1))
    assert digest(text, "one") == first
    assert digest(text, "two") != first
    assert digest(text + "# a comment\n", "one") != first


def test_the_digest_knows_where_one_text_ends(loads: Loads) -> None:
    text = GOOD.replace('prompt = "x"', "prompt_file = 'p.md'\nrole = 'q.md'")
    digests = [loads(text, p=p, q=q).factory.digest for p, q in (("ab", "c"), ("a", "bc"))]  # type: ignore[union-attr]
    assert digests[0] != digests[1]


# --- what comes of a whole file ------------------------------------------------------------------


def test_a_whole_factory(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "workspace" / ".git").mkdir()
    (tmp_path / "workspace" / "sub").mkdir()
    (tmp_path / "agent.toml").write_text('[[call]]\nsteps = [{ say = "done" }]\n')
    loaded = loads(
        """
        [defaults]
        runner = "mine"
        max_hops = 3
        writers = "shared"

        [runners.mine]
        command = ["my-agent", "--model", "{model}"]
        args = ["--quiet"]
        output = "report"
        env_from = ["KEY"]
        max_concurrent = 2
        stop_signal = "SIGINT"
        estimate = { base = 10, per_byte = 0.5 }

        [agents.coder]
        description = "writes"
        prompt_file = "coder.md"
        role = "role.md"
        persona = "Blunt."
        entry = true
        env = { MODE = "fast" }
        work_dir = "workspace/sub"

        [agents.reviewer]
        description = "reads"
        purpose = "after a change"
        runner = "fake:agent.toml"
        prompt = "Review."
        access = "read-only"
        snapshot = "head"
        snapshot_include = ["build/*.json"]
        recovery = "manual"
        enabled = false

        [[routes]]
        from = "coder"
        to = ["reviewer", "coder"]
        """,
        {"KEY": "k"},
        coder="Write.\n",
        role="---\nname: dev\n---\n\nBuild it.\n",
    )
    assert [str(problem) for problem in loaded.problems] == []
    factory = loaded.factory
    assert factory is not None
    coder, reviewer = factory.agents["coder"], factory.agents["reviewer"]
    assert (coder.instructions.text({}), coder.role, coder.persona, coder.env) == (
        "Write.\n",
        "dev\n\nBuild it.",
        "Blunt.",
        {"MODE": "fast"},
    )
    assert (coder.work_dir, coder.runner, coder.env_from) == (
        str(tmp_path / "workspace" / "sub"), "mine", {"KEY": "runners.mine.env_from"},
    )  # fmt: skip
    assert (reviewer.access, reviewer.recovery, reviewer.enabled) == (Access.READ_ONLY, RecoveryPolicy.MANUAL, False)
    assert (reviewer.snapshot, reviewer.snapshot_include) == ("head", ("build/*.json",))
    assert reviewer.purpose == "after a change"
    mine, fake = factory.runners["mine"], factory.runners["fake:agent.toml"]
    assert (mine.kind, mine.args, mine.output, mine.stop_signal) == ("command", ("--quiet",), "report", "INT")
    assert (mine.max_concurrent, mine.estimate_base, mine.estimate_per_byte) == (2, 10.0, 0.5)
    assert (fake.kind, fake.detail) == ("fake", str(tmp_path / "agent.toml"))
    assert set(factory.routes) == {Route(sender="coder", receiver="reviewer"), Route(sender="coder", receiver="coder")}
    assert (factory.settings.max_hops, factory.settings.shared_writers) == (3, True)


def test_fifty_agents_load_at_once(loads: Loads) -> None:
    agents = "".join(
        f"[agents.a{number}]\ndescription = 'd'\nprompt_file = 'p.md'\nentry = true\ntimeout_sec = '15m'\n"
        f"env = {{ MODE = 'x' }}\nargs = ['--x', '{{name}}']\nrecover_on = ['crash', 'timeout']\n\n"
        f"[[routes]]\nfrom = 'a{number}'\nto = ['a{(number + 1) % 50}', 'a{(number + 7) % 50}']\n"
        for number in range(50)
    )
    text = "[defaults]\nrunner = 'mine'\n[runners.mine]\ncommand = ['x']\n" + agents
    begin = time.process_time()
    loaded = loads(text, p="Work.\n")
    took = time.process_time() - begin
    assert loaded.problems == ()
    assert took < 0.5
