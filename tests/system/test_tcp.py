"""The TCP port: a free one taken once, taken again, given up when somebody else has it."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from tower.core.addresses import Address
from tower.core.errors import BusyError, InvalidError
from tower.system.tcp import listen_at

FREE = Address("127.0.0.1", 0)


def test_a_free_port_is_taken_once_and_again_at_each_start(tmp_path: Path) -> None:
    first = listen_at(FREE, tmp_path / "port")
    first.close()
    second = listen_at(FREE, tmp_path / "port")
    assert (second.address, second.lost) == (first.address, None)
    assert socket.create_connection(("127.0.0.1", second.address.port), timeout=5).close() is None
    assert not second.socket.get_inheritable()
    second.close()
    assert stat.S_IMODE((tmp_path / "port").stat().st_mode) == 0o600


def test_a_port_that_somebody_else_has_is_given_up_and_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        (tmp_path / "port").write_text(f"{taken}\n")
        port = listen_at(FREE, tmp_path / "port")
        assert port.lost == taken
        assert (tmp_path / "port").read_text() == f"{port.address.port}\n"
        port.close()


@pytest.mark.parametrize("text", ["", "no port", "0", "65536", "-1", "²"])
def test_a_file_that_names_no_port_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "port").write_text(text)
    port = listen_at(FREE, tmp_path / "port")
    assert port.lost is None
    port.close()


def test_a_port_that_was_asked_for_is_that_port_or_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(BusyError, match=f"cannot listen at 127.0.0.1:{taken}"):
            listen_at(Address("127.0.0.1", taken), tmp_path / "port")
    port = listen_at(Address("127.0.0.1", taken), tmp_path / "port")
    assert port.address.port == taken
    port.close()
    assert not (tmp_path / "port").exists()


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"cannot listen at 192\.0\.2\.1:0"):
        listen_at(Address("192.0.2.1", 0), tmp_path / "port")
