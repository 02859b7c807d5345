"""Foreign text, made harmless for a terminal: bodies, names, reasons and logs are written by agents.

An escape sequence can retitle a window, paste into a shell or hide a line; a bidirectional mark can make one text
look like another. What is not plain text is shown as an escape (`\\x1b`), never dropped in silence.
"""

from __future__ import annotations


class _Shown(dict[int, str]):
    """Code point -> what is shown for it; filled as it is asked, so that translating runs at full speed."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Spaces of other widths are not "printable" to Python, and harmless; a line separator is neither.
        space = code > 0x85 and character.isspace() and code not in (0x2028, 0x2029)
        shown = character if character.isprintable() or space or character in "\n\t" else _escape(code)
        self[code] = shown
        return shown


_SHOWN = _Shown()


def block(text: str) -> str:
    """Text of several lines; newlines and tabs stay, a carriage return before a newline goes."""
    return text.replace("\r\n", "\n").translate(_SHOWN)


def line(text: str) -> str:
    """Text on one line: white space of any kind becomes one space."""
    return " ".join(text.split()).translate(_SHOWN)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
