"""The body that an argument stands for: the text itself, standard input (`-`), or a file (`@FILE`)."""

from __future__ import annotations

import sys
from typing import BinaryIO, Final

from tower.core.errors import InvalidError

READ_BYTES: Final = 64 << 20
"""Most that is read of a body before the tower is asked; its own limit (`max_body_bytes`) is far lower."""


def text(argument: str) -> str:
    """What `argument` stands for. Raises `InvalidError` for what cannot be read, is too long, or is no UTF-8."""
    if argument == "-":
        return _decoded(sys.stdin.buffer, "standard input")
    if not argument.startswith("@"):
        return _checked(argument.encode(errors="surrogateescape"), "the argument")
    from pathlib import Path

    name = argument[1:]
    if not name:
        raise InvalidError(
            "body-unreadable",
            "cannot read the body: no file is named after the @",
            "write @FILE; a text that begins with @ comes on standard input, with - as BODY",
        )
    try:
        with Path(name).open("rb") as file:
            return _decoded(file, name)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidError("body-unreadable", f"cannot read the body from {name}: {why}") from error


def _decoded(stream: BinaryIO, name: str) -> str:
    data = stream.read(READ_BYTES + 1)
    if len(data) > READ_BYTES:
        raise InvalidError("body-too-large", f"cannot take {name} as a body: it is longer than {READ_BYTES} bytes")
    return _checked(data, name)


def _checked(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(
            "body-not-utf8",
            f"cannot take {name} as a body: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8",
            "a body is text; put binary data into a file of the workspace and send its path",
        ) from None
