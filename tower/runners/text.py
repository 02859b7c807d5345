"""Plain output: the whole of it is the answer."""

from __future__ import annotations

from tower.core.fences import tail
from tower.runners.invocation import ANSWER_BYTES


def answer(stdout_tail: bytes) -> str | None:
    """The end of the output as text, without blank lines around it; None when there is nothing but space.

    Bytes that are no UTF-8 are replaced.
    """
    text = tail(stdout_tail, ANSWER_BYTES).strip("\r\n")
    return text if text.strip() else None
