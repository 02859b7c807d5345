"""Runner specs: the short form in which a runner is written where no `[runners.NAME]` is needed.

Owns the grammar of a spec. Whether a file that it names exists is asked by `config`; what a runner of each kind
does is left to `runners`, and placeholders in its command to `placeholders`.
"""

from __future__ import annotations

import re
from typing import Final

from tower.core.errors import InvalidError
from tower.core.factory import Runner

PRESETS: Final = ("claude", "codex", "copilot", "gemini", "opencode", "qwen")
"""Agent programs that have a preset by name, optionally `:MODEL`, `@EFFORT` or `:MODEL@EFFORT`."""

FORMS: Final = ("cmd:SCRIPT", "fake:FILE", "unavailable:REASON", "none")

_PRESET: Final = re.compile(rf"({'|'.join(PRESETS)})(?:[:@].*)?", re.DOTALL)


def parse_spec(spec: str) -> Runner:
    """Read a runner spec.

    For `fake:FILE` the file stays as written: its folder is known to the caller alone.
    Raises `InvalidError` with code `runner-not-yet` for a preset, `runner-unknown` for anything else that is no spec.
    """
    head, colon, rest = spec.partition(":")
    rest = rest.strip()
    if spec == "none":
        return Runner(name=spec, kind="none")
    if colon and head in ("cmd", "fake", "unavailable"):
        if not rest:
            raise InvalidError("runner-unknown", f"cannot use runner {spec!r}: nothing follows the colon", _forms())
        if head == "cmd":
            return Runner(name=spec, kind=head, command=(rest,))
        # The scripted agent speaks the protocol of one's own programs, so that residents can be rehearsed.
        return Runner(name=spec, kind=head, detail=rest, protocol="jsonl" if head == "fake" else None)
    if _PRESET.fullmatch(spec):
        raise InvalidError(
            "runner-not-yet",
            f"cannot use runner {spec!r}: this preset is not available yet",
            "declare [runners.NAME] with the program's command, or write cmd:SCRIPT",
        )
    raise InvalidError("runner-unknown", f"cannot use runner {spec!r}: it is neither declared nor a spec", _forms())


def _forms() -> str:
    return (
        f"write the name of a [runners.NAME], or one of {', '.join(FORMS)}"
        f" (not available yet: {', '.join(PRESETS)}, each with :MODEL@EFFORT)"
    )
