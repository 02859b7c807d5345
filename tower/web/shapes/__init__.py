"""What answers look like, for the API's description at `/openapi.json`.

`control` makes the answers as plain values and nothing is copied through these models; a test holds the two together.
Times are ISO 8601 in UTC, money is US dollars, sizes are bytes. Unknown is null, never 0.

One module a noun; resources name them from here.
"""

from tower.web.shapes.agents import Agent, AgentRecord, Agents, Resident, Value, Variable
from tower.web.shapes.configuration import Compared, Consequence, Generation, Problem, Reloaded
from tower.web.shapes.flights import Flight, Flights, FlightWithRuns, Sender, Sent
from tower.web.shapes.help import HelpRequest, HelpRequests
from tower.web.shapes.itineraries import Delivery, Fuel, Itineraries, Itinerary, JoinOfChain, Story
from tower.web.shapes.money import Circuit, Costs, Reserve, RunnerReset, Spent, SpentBy
from tower.web.shapes.pipelines import Choice, Flag, Pipeline, Pipelines
from tower.web.shapes.runs import Report, Run, Runs
from tower.web.shapes.status import Found, GroundStop, Health, Queue, Recovered, Slots, Status, Summary
from tower.web.shapes.worktrees import Rescued, RescuedTree, Worktree, Worktrees

__all__ = (
    "Agent",
    "AgentRecord",
    "Agents",
    "Choice",
    "Circuit",
    "Compared",
    "Consequence",
    "Costs",
    "Delivery",
    "Flag",
    "Flight",
    "FlightWithRuns",
    "Flights",
    "Found",
    "Fuel",
    "Generation",
    "GroundStop",
    "Health",
    "HelpRequest",
    "HelpRequests",
    "Itineraries",
    "Itinerary",
    "JoinOfChain",
    "Pipeline",
    "Pipelines",
    "Problem",
    "Queue",
    "Recovered",
    "Reloaded",
    "Report",
    "Rescued",
    "RescuedTree",
    "Reserve",
    "Resident",
    "Run",
    "RunnerReset",
    "Runs",
    "Sender",
    "Sent",
    "Slots",
    "Spent",
    "SpentBy",
    "Status",
    "Story",
    "Summary",
    "Value",
    "Variable",
    "Worktree",
    "Worktrees",
)
