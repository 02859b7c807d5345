"""Which sockets are tried, in which order, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tower.client.discover import SYSTEM_SOCKET, nearest_config, places, state_dir

RUNTIME = {"XDG_RUNTIME_DIR": "/run/user/7"}


def paths(given: str | None, environ: dict[str, str], folder: Path | None) -> list[str]:
    return [place.path for place in places(given, environ, str(folder) if folder else None)]


@pytest.fixture
def factory(tmp_path: Path) -> Path:
    (tmp_path / "layover.toml").write_text("[layover]\n")
    return tmp_path


def test_whoever_names_a_socket_gets_that_one_alone(factory: Path) -> None:
    environ = {"TOWER_SOCKET": "/b.sock", "LAYOVER_SOCKET": "/c.sock", **RUNTIME}
    assert paths("/a.sock", environ, factory) == ["/a.sock"]
    assert paths(None, environ, factory) == ["/b.sock"]
    assert paths(None, {"LAYOVER_SOCKET": "/c.sock", **RUNTIME}, factory) == ["/c.sock"]


def test_a_relative_socket_is_taken_from_where_we_stand(factory: Path) -> None:
    assert paths("x/t.sock", {}, factory) == [f"{factory}/x/t.sock"]


def test_the_nearest_file_upwards_then_the_system_then_the_user(factory: Path) -> None:
    deep = factory / "a" / "b"
    deep.mkdir(parents=True)
    expected = [f"{factory}/.layover/tower.sock", SYSTEM_SOCKET, "/run/user/7/tower/tower.sock"]
    assert paths(None, RUNTIME, deep) == expected
    (factory / "a" / "layover.toml").write_text('[layover]\nsocket = "near.sock"\n')
    assert paths(None, RUNTIME, deep)[0] == f"{factory}/a/near.sock"


def test_without_a_file_or_a_folder_only_the_well_known_places_are_left(tmp_path: Path) -> None:
    assert paths(None, {}, tmp_path) == [SYSTEM_SOCKET]
    assert paths(None, RUNTIME, None) == [SYSTEM_SOCKET, "/run/user/7/tower/tower.sock"]


def test_what_the_tower_wrote_down_beats_what_would_be_the_default(factory: Path) -> None:
    (factory / "state").mkdir()
    (factory / "layover.toml").write_text('[layover]\nstate_dir = "state"\n')
    assert paths(None, {}, factory)[0] == f"{factory}/state/tower.sock"
    (factory / "state" / "socket.path").write_text("/somewhere/else.sock\n")
    assert paths(None, {}, factory)[0] == "/somewhere/else.sock"


def test_a_socket_named_by_the_file_comes_before_one_that_was_written_down(factory: Path) -> None:
    (factory / "layover.toml").write_text('[layover]\nsocket = "/new.sock"\n')
    (factory / ".layover").mkdir()
    (factory / ".layover" / "socket.path").write_text("/old.sock\n")
    assert paths(None, {}, factory) == ["/new.sock", "/old.sock", SYSTEM_SOCKET]


def test_inside_the_unit_the_folders_of_the_service_are_meant(factory: Path) -> None:
    environ = {"STATE_DIRECTORY": "/var/lib/tower:/x", "RUNTIME_DIRECTORY": "/run/tower"}
    assert paths(None, environ, factory) == ["/run/tower/tower.sock"]
    assert state_dir(f"{factory}/layover.toml", environ) == "/var/lib/tower"


def test_the_environment_overrides_the_file_as_it_does_for_the_daemon(factory: Path) -> None:
    (factory / "layover.toml").write_text('[layover]\nsocket = "a.sock"\nstate_dir = "s"\n')
    assert paths(None, {"TOWER_LAYOVER__SOCKET": "/b.sock"}, factory)[0] == "/b.sock"
    assert state_dir(f"{factory}/layover.toml", {"TOWER_LAYOVER__STATE_DIR": "/s2"}) == "/s2"


@pytest.mark.parametrize("named", ["layover.toml", ""])
def test_a_named_configuration_stands_in_for_the_nearest(factory: Path, named: str) -> None:
    elsewhere = factory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "layover.toml").touch()
    environ = {"TOWER_CONFIG": str(factory / named)}
    assert nearest_config(environ, str(elsewhere)) == str(factory / "layover.toml")


@pytest.mark.parametrize(
    "content", [b"", b"[layover", b"\xff\xfe", b"layover = 3", b'[layover]\nsocket = ""\n', b"socket = 'x'"]
)
def test_a_broken_file_still_says_where_its_state_lies(factory: Path, content: bytes) -> None:
    (factory / "layover.toml").write_bytes(content)
    assert paths(None, {}, factory)[0] == f"{factory}/.layover/tower.sock"


def test_without_its_file_a_tower_is_found_by_what_it_wrote_down(tmp_path: Path) -> None:
    (tmp_path / ".layover").mkdir()
    (tmp_path / ".layover" / "socket.path").write_text("/somewhere/else.sock\n")
    deep = tmp_path / "a"
    deep.mkdir()
    assert paths(None, {}, deep) == ["/somewhere/else.sock", SYSTEM_SOCKET]


@pytest.mark.parametrize("content", [b"", b"\n", b"relative.sock\n", b"\x00", b"/a\x00b"])
def test_a_pointer_that_names_nothing_is_passed_over(factory: Path, content: bytes) -> None:
    (factory / ".layover").mkdir()
    (factory / ".layover" / "socket.path").write_bytes(content)
    assert paths(None, {}, factory)[0] == f"{factory}/.layover/tower.sock"
