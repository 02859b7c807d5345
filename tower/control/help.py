"""Verbs on requests for help: a run asks, people list, read and resolve them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tower.control import views
from tower.control.rights import require_person, require_run
from tower.core import accounts, ids
from tower.core.accounts import HelpRequest
from tower.core.callers import Caller
from tower.core.errors import ConflictError, InvalidError, RefusedError
from tower.core.records import Event
from tower.engine.tower import Tower
from tower.store import accounts as stored
from tower.store import events, lookup, runs
from tower.store.database import Connection

NOTE_CHARS: Final = 2_000
"""Longest note of a person."""


@dataclass(frozen=True, slots=True)
class HelpVerbs:
    """What can be done with requests for help."""

    tower: Tower

    async def ask(
        self, caller: Caller, *, summary: str, detail: str, blocker: str | None = None, fatal: bool = False
    ) -> views.View:
        """Tell a person. Said twice by one run with the same summary, it stays one request.

        Raises `InvalidError` (an empty summary, an unknown blocker), `RefusedError` (no run, too many are open).
        """
        run_id = require_run(caller, "ask for help")
        masked = self.tower.redaction.apply
        title, text = accounts.summary(masked(summary)), accounts.detail(masked(detail))
        kind = accounts.blocker(blocker)

        def write(connection: Connection) -> tuple[HelpRequest, bool]:
            run = runs.get(connection, run_id)
            assert run is not None  # noqa: S101 (the token named it)
            known = stored.open_of_run(connection, run.id)
            for earlier in known:
                if earlier.summary == title.text and (earlier.fatal or not fatal):
                    return earlier, True
            if len(known) >= accounts.OPEN_OF_A_RUN:
                raise RefusedError(
                    "too-much-help",
                    f"cannot ask for help again: {len(known)} requests of this run are open",
                    "go on with what you can do, or report what you have and end",
                )
            wanted = HelpRequest(
                id=self.tower.new_id(ids.HELP),
                run=run.id,
                itinerary=run.itinerary,
                agent=run.agent,
                at=self.tower.clock(),
                blocker=kind,
                summary=title.text,
                detail=text.text,
                fatal=fatal,
            )
            stored.ask_for_help(connection, wanted)
            events.append(connection, self._event("help.requested", wanted, blocker=kind, summary=title.text))
            return wanted, False

        request, is_known = await self.tower.store.write(write)
        cuts = [cut for cut in (title.cut, text.cut) if cut]
        return views.help_request(request) | {"duplicate": is_known, "cuts": cuts}

    async def listing(self, caller: Caller, *, every: bool, agent: str | None, limit: int) -> views.View:
        """Requests, newest first: the open ones, or all."""
        require_person(caller, "list requests for help")
        found = await self.tower.store.read(
            lambda connection: stored.help_requests(connection, every=every, agent=agent, limit=limit)
        )
        return {"help": [views.help_request(one) for one in found]}

    async def show(self, caller: Caller, text: str) -> views.View:
        """One request."""
        require_person(caller, "show a request for help")
        return views.help_request(await self.tower.store.read(lambda connection: _find(connection, text)))

    async def resolve(self, caller: Caller, text: str, *, note: str | None) -> views.View:
        """Close a request: somebody has seen to it. Raises `ConflictError` for one that is closed."""
        require_person(caller, "resolve a request for help")
        if note is not None and len(note) > NOTE_CHARS:
            raise InvalidError(
                "note-too-long", "cannot keep a note of that length", f"give at most {NOTE_CHARS} characters"
            )

        def write(connection: Connection) -> HelpRequest:
            found = _find(connection, text)
            if found.resolved_at is not None:
                raise ConflictError(
                    "resolved", f"cannot resolve {found.id}: {found.resolved_by} has done so", "nothing is left to do"
                )
            stored.resolve(connection, found.id, at=self.tower.clock(), by=caller.name, note=note)
            events.append(connection, self._event("help.resolved", found, by=caller.name))
            return _find(connection, found.id)

        return views.help_request(await self.tower.store.write(write))

    def _event(self, type_: str, request: HelpRequest, **data: Any) -> Event:
        return self.tower.event(
            type_,
            itinerary=request.itinerary,
            run=request.run,
            agent=request.agent,
            help=request.id,
            fatal=request.fatal,
            **data,
        )


def _find(connection: Connection, text: str) -> HelpRequest:
    _, identity = lookup.find(connection, text, kind="help request")
    found = stored.help_request(connection, identity)
    assert found is not None  # noqa: S101 (found in the same view of the database)
    return found
