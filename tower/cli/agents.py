"""Names on a command line: what to say of one that no agent, or nothing of another kind, has.

Importing difflib would be felt in each verb, so it is imported when a name turns out to be none.
"""

from __future__ import annotations

from collections.abc import Iterable

from tower.client.api import Api
from tower.core.errors import NotFoundError


def unknown(name: str, known: Iterable[str], kind: str = "agent") -> NotFoundError:
    """The error for a name that is none of `known`, with the nearest one."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return NotFoundError(
        f"unknown-{kind}",
        f"cannot find {'an' if kind[0] in 'aeiou' else 'a'} {kind} called {name!r}",
        f"{meant}there are: {', '.join(names) or 'none'}",
    )


def require(api: Api, name: str) -> None:
    """Raise `NotFoundError` when the tower has no agent of this name."""
    names = [agent["name"] for agent in api.get("/agents")["agents"]]
    if name not in names:
        raise unknown(name, names)
