"""The tools that the tower offers to runs: their names, and what each does in one line.

What they take and how they answer is `mcp.tools`'; a prompt may name them, and a run is told of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOOLS: Final[Mapping[str, str]] = {
    "layover_send": "Hand work on: send a message to another agent along a permitted route.",
    "layover_peers": "List the agents that you may send to now.",
    "layover_status": "Show what is left of your budgets: hops, money, runs, time.",
    "layover_report": "Give the account of this run, for people and for whoever comes after you.",
    "layover_help": "Tell a person what you need.",
    "layover_memory_read": "Read your own memory, which your earlier runs wrote.",
    "layover_memory_write": "Add an entry to your own memory, for your later runs.",
    "layover_logbook_read": "Read the end of the logbook that all agents share.",
    "layover_logbook_append": "Add an entry to the logbook that all agents share.",
    "layover_cancel": "Cancel a message of your own chain that has not started; for the orchestrator alone.",
}
"""Name -> what it does."""

FOR_ORCHESTRATORS: Final = frozenset({"layover_cancel"})
"""Offered to them alone."""
