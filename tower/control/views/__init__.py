"""How records look to a client: plain JSON-able dicts, the same for the command line, the page and curl.

Times become ISO 8601 UTC with milliseconds, micro-dollars become dollars, unknown stays null.

One module for what was done, one for what stands there; they are named from here.
"""

from tower.control.views.factory import agent, circuit, consequence, pipeline, problem, reserve, resident
from tower.control.views.plain import View, dollars, moment
from tower.control.views.work import event, flight, help_request, itinerary, join, report, run, worktree

__all__ = (
    "View",
    "agent",
    "circuit",
    "consequence",
    "dollars",
    "event",
    "flight",
    "help_request",
    "itinerary",
    "join",
    "moment",
    "pipeline",
    "problem",
    "report",
    "reserve",
    "resident",
    "run",
    "worktree",
)
