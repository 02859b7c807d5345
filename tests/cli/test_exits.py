"""Which exit code an error becomes."""

from __future__ import annotations

import pytest

from tower.cli import exits
from tower.core.errors import (
    BusyError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TowerError,
    UnreachableError,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (TowerError, 1),
        (NotFoundError, 1),
        (ConflictError, 1),
        (InvalidError, 2),
        (UnreachableError, 69),
        (BusyError, 75),
        (RefusedError, 77),
    ],
)
def test_each_kind_of_error_has_its_code(kind: type[TowerError], code: int) -> None:
    assert exits.of(kind("any", "cannot")) == code


@pytest.mark.parametrize("code", ["config", "config-unreadable"])
def test_a_bad_configuration_is_78_whatever_kind_it_is(code: str) -> None:
    assert exits.of(InvalidError(code, "cannot")) == 78
