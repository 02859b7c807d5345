from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tower.config.overrides import LayoverTable
from tower.config.schema import DefaultsTable
from tower.core.factory import Settings

from .conftest import GOOD, Loads

SYSTEMD = {
    "STATE_DIRECTORY": "/var/lib/tower:/var/lib/other",
    "RUNTIME_DIRECTORY": "/run/tower",
    "CACHE_DIRECTORY": "/var/cache/tower",
}


@pytest.mark.parametrize(
    ("written", "environ", "places"),
    [
        ("", {}, ("{f}/.layover", "{f}/.layover/tower.sock", "{f}/.layover/snapshots")),
        ("", SYSTEMD, ("/var/lib/tower", "/run/tower/tower.sock", "/var/cache/tower/snapshots")),
        ("", dict.fromkeys(SYSTEMD, ""), ("{f}/.layover", "{f}/.layover/tower.sock", "{f}/.layover/snapshots")),
        ("state_dir = 's'", {}, ("{f}/s", "{f}/s/tower.sock", "{f}/s/snapshots")),
        ("state_dir = './a/../s'", SYSTEMD, ("{f}/s", "/run/tower/tower.sock", "/var/cache/tower/snapshots")),
        (
            "socket = '/run/x'\nsnapshots_dir = 'n'",
            SYSTEMD,
            ("/var/lib/tower", "/run/x", "{f}/n"),
        ),
    ],
)
def test_where_things_live(
    loads: Loads, tmp_path: Path, written: str, environ: dict[str, str], places: tuple[str, str, str]
) -> None:
    factory = loads(f"[layover]\n{written}\n{GOOD}", environ).factory
    assert factory is not None
    settings = factory.settings
    assert (settings.state_dir, settings.socket, settings.snapshots_dir) == tuple(
        it.format(f=tmp_path) for it in places
    )


def test_each_key_has_its_origin(loads: Loads) -> None:
    factory = loads("[defaults]\nmax_runs = 2\n[layover]\ngrace_sec = 20\n" + GOOD, {"STATE_DIRECTORY": "/s"}).factory
    assert factory is not None
    origins = factory.settings.origins
    assert origins["layover.grace_sec"] == "file"
    assert origins["layover.on_stop"] == "built in"
    assert origins["layover.state_dir"] == "environment STATE_DIRECTORY"
    assert (origins["defaults.max_runs"], origins["defaults.max_hops"]) == ("file", "built in")


def test_what_is_built_in_is_what_the_core_says(loads: Loads, tmp_path: Path) -> None:
    factory = loads(GOOD).factory
    assert factory is not None
    built = {it.name: it.default for it in fields(Settings)}
    for name in (
        "on_stop",
        "grace_sec",
        "max_body_bytes",
        "max_log_bytes",
        "min_free_bytes",
        "allowed_dirs",
        "reserve",
    ):
        assert getattr(factory.settings, name) == built[name]
    for name in ("max_concurrent_runs", "max_hops", "max_runs", "shared_writers", "socket_group"):
        assert getattr(factory.settings, name) == built[name]
    assert factory.settings.work_dir == str(tmp_path / "workspace")
    assert {f"layover.{key}" for key in LayoverTable.model_fields} <= factory.settings.origins.keys()
    assert DefaultsTable().max_hops == built["max_hops"]


def test_a_work_dir_is_named_by_its_real_path(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    factory = loads("[layover]\nwork_dir = 'link'\n" + GOOD + "work_dir = 'link/../link'\n").factory
    assert factory is not None
    assert factory.settings.work_dir == factory.agents["solo"].work_dir == str(tmp_path / "real")


@pytest.mark.parametrize("length", [107, 108])
def test_the_longest_socket_path(loads: Loads, length: int) -> None:
    socket = "/run/" + "s" * (length - 5)
    assert (loads(f"[layover]\nsocket = '{socket}'\n{GOOD}").factory is None) == (length > 107)


@pytest.mark.parametrize(
    "variable", ["TOWER_LAYOVER__SOCKET", "TOWER_LAYOVER__STATE_DIR", "RUNTIME_DIRECTORY", "STATE_DIRECTORY"]
)
def test_a_variable_that_makes_the_socket_path_too_long_is_named(loads: Loads, variable: str) -> None:
    (problem,) = loads(GOOD, {variable: "/run/" + "s" * 110}).problems
    assert (problem.file, problem.key) == ("environment", variable)


def test_a_place_that_a_variable_names_is_the_variables_problem(loads: Loads) -> None:
    (problem,) = loads("[layover]\nwork_dir = '.'\n" + GOOD, {"TOWER_LAYOVER__WORK_DIR": "nowhere"}).problems
    assert str(problem).startswith("environment: TOWER_LAYOVER__WORK_DIR: there is no folder ")


def test_a_socket_path_is_measured_in_bytes(loads: Loads) -> None:
    assert loads(f"[layover]\nsocket = '/run/{'é' * 52}'\n{GOOD}").factory is None


def test_an_allowed_folder_and_a_read_only_agent_in_a_part_of_a_work_tree(loads: Loads, tmp_path: Path) -> None:
    part = tmp_path / "lib" / "part"
    part.mkdir(parents=True)
    (tmp_path / "lib" / ".git").write_text("gitdir: elsewhere\n")
    loaded = loads("[layover]\nallowed_dirs = ['lib']\n" + GOOD + "work_dir = 'lib/part'\naccess = 'read-only'\n")
    assert loaded.problems == ()
    assert loaded.factory is not None
    assert loaded.factory.agents["solo"].work_dir == str(part)


def test_working_on_the_source_of_the_tower_is_noticed(loads: Loads) -> None:
    source = Path(__file__).parents[2]
    loaded = loads(f"[layover]\nwork_dir = '{source}'\n{GOOD}")
    (problem,) = loaded.problems
    assert "is the source of the tower that runs here" in problem.sentence
    assert problem.severity == "warning"


@pytest.mark.parametrize(
    ("work_dir", "leads_to"),
    [
        ("workspace", "workspace"),
        ("workspace/sub", "workspace/sub"),
        ("./workspace//sub/", "workspace/sub"),
        ("workspace/../workspace/sub", "workspace/sub"),
        ("workspace/link", "workspace/sub"),
        ("alias/sub", "workspace/sub"),
        ("library/part", "elsewhere/part"),
        ("elsewhere/part", "elsewhere/part"),
        ("{folder}/workspace/sub", "workspace/sub"),
        ("workspace/out", None),
        ("workspace/out/..", None),
        ("workspace/link/../../..", None),
        ("workspace/chain", None),
        ("workspace-2", None),
        (".", None),
        ("..", None),
        ("/", None),
    ],
)
def test_a_work_dir_is_confined_whatever_links_it_goes_through(
    loads: Loads, tmp_path: Path, work_dir: str, leads_to: str | None
) -> None:
    for made in ("workspace/sub", "workspace-2", "elsewhere/part"):
        (tmp_path / made).mkdir(parents=True)
    for link, target in {
        "alias": "workspace",
        "library": "elsewhere",
        "workspace/link": "sub",
        "workspace/out": "/usr",
        "workspace/chain": "link/../../workspace-2",
    }.items():
        (tmp_path / link).symlink_to(target)
    text = f"[layover]\nallowed_dirs = ['library']\n{GOOD}work_dir = '{work_dir.format(folder=tmp_path)}'\n"
    loaded = loads(text)
    if leads_to is None:
        (problem,) = [it for it in loaded.problems if it.is_error]
        assert "lies outside" in problem.sentence
        assert f"{tmp_path}/workspace and {tmp_path}/elsewhere" in problem.sentence
    else:
        assert loaded.factory is not None
        assert loaded.factory.agents["solo"].work_dir == str(tmp_path / leads_to)


def test_a_live_tree_that_is_a_link_confines_to_where_it_leads(loads: Loads, tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "tree").symlink_to("real")
    loaded = loads("[layover]\nwork_dir = 'tree'\n" + GOOD + "work_dir = 'real/sub'\n")
    assert loaded.factory is not None
    assert loaded.factory.agents["solo"].work_dir == str(tmp_path / "real" / "sub")
