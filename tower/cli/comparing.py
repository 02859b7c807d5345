"""Two configuration files beside each other, compared without a tower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tower.cli import factories

if TYPE_CHECKING:
    from pathlib import Path


def compared(old: Path, new: Path) -> dict[str, Any]:
    """What going over from one file to the other would change, as the tower says it of its own.

    Raises `TowerError` for a file with errors, which are said before.
    """
    before, after = factories.good(old), factories.good(new)
    # Here, since `tower --help` imports every verb.
    from tower.config.changes import diff, needs_restart
    from tower.core.consequences import consequences

    return {
        "generation": None,
        "path": str(new),
        "changes": list(diff(before, after)),
        "problems": [],
        "needs_restart": list(needs_restart(before, after)),
        "agents": [
            {"name": it.agent, "change": it.change, "process": it.process, "held": 0}
            for it in consequences(before, after)
        ],
    }
