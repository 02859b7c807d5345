import pytest

from tower.core.errors import RefusedError
from tower.web.origin import check_origin

HERE = ["localhost", "localhost:8080", "tower", "LOCALHOST", "a.localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:9"]
FOREIGN = [
    "evil.example",
    "evil.example:8080",
    "10.0.0.1",
    "[::2]",
    "192.168.0.1",
    "localhost.evil.example",
    "",
    "[bad",
    "a b.c",
]


@pytest.mark.parametrize("host", HERE)
def test_names_of_this_machine(host: str) -> None:
    check_origin([host], [])
    check_origin(["localhost"], [f"http://{host}"])


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names(host: str) -> None:
    with pytest.raises(RefusedError) as refused:
        check_origin([host], [])
    assert refused.value.code == "foreign-host"
    with pytest.raises(RefusedError) as refused:
        check_origin(["localhost"], [f"https://{host}"])
    assert refused.value.code == "foreign-origin"


def test_every_header_counts() -> None:
    check_origin([], [])
    with pytest.raises(RefusedError):
        check_origin(["localhost", "evil.example"], [])
    with pytest.raises(RefusedError):
        check_origin(["localhost"], ["http://localhost", "null"])
