"""One run under supervision: the loop that copies its output, keeps its limits, and ends it and all that it left.

A run goes through: running; perhaps ending (asked by a tower, or by a limit); exited, which is recorded at once;
perhaps lingering, while what it left is asked and then made to end; over. Starting it is the part of `main`.
"""

from __future__ import annotations

import os
import select
import time

from tower.system import procfs
from tower.system.keeper.clock import NEVER, TICK, Clock, LimitWatch
from tower.system.keeper.door import Door
from tower.system.keeper.ending import EOF_BEFORE, Ending
from tower.system.keeper.failpoints import failpoint
from tower.system.keeper.records import exit_fields
from tower.system.keeper.tree import Tree, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from tower.system.keeper.group import Group
    from tower.system.keeper.inlet import Inlet
    from tower.system.keeper.logs import LogShelf
    from tower.system.keeper.protocol import Plan
    from tower.system.keeper.records import ExitFile
    from tower.system.keeper.streams import Stream

KILL_AGAIN: Final = 0.02
"""Seconds between two rounds of killing."""

GROWTH_EVERY: Final = 0.2
"""Seconds between two words about the growth of the logs."""

LONGEST_WORD: Final = 32


class Supervisor:
    """Supervises one program from its start until nothing of its run is left.

    `wake` is a descriptor that becomes readable when a child has ended; `hello` is the line that greets a tower.
    """

    def __init__(
        self, plan: Plan, hello: str, wake: int, *, streams: tuple[Stream, Stream], shelf: LogShelf, exit_file: ExitFile
    ) -> None:
        self._plan = plan
        self._hello = hello
        self._wake = wake
        self._streams = streams
        self._shelf = shelf
        self._exit_file = exit_file
        self._poll = select.poll()
        self.door = Door(self._poll, self._hear, self._greet)
        self._tree = Tree(0)
        self._clock = Clock(time.monotonic())
        self._limits = LimitWatch(plan["limits"])
        if plan["resident"]:
            self._limits.end_turn()
        self._ending = Ending()
        self.inlet: Inlet | None = None
        """A resident's input; a program that is told once reads a file."""
        self.group: Group | None = None
        """The control group of the run, where it has one."""
        self._is_writing = False
        self._started = ""
        self._ended_at: float | None = None
        self._told: tuple[int, int] = (0, 0)
        self._told_at = 0.0
        self._ticked_at = 0.0

    def run(self, program: int, inside: int | None = None) -> None:
        """Supervise the program that was just started; returns when all is over and recorded.

        `inside` is the first process of its sandbox, when `program` is what built one around it.
        """
        self._tree = Tree(program, inside, self.group)
        grouped = "alone" if self.group is None else "grouped"
        self._started = f"started {program} {procfs.start_ticks(program)} {grouped}"
        self._clock = Clock(time.monotonic())
        self.door.say(self._started)
        self._poll.register(self._wake, select.POLLIN)
        for stream in self._streams:
            self._poll.register(stream.fd, select.POLLIN)
        left: list[int] | None = None
        while left is None:
            self._wait()
            left = self._act(self._clock.now)
        self._finish(left)

    def _wait(self) -> None:
        """Sleep until something comes or is due, and take in what has come."""
        seconds = min(TICK, max(0.0, self._next_due() - self._clock.now))
        ready = self._poll.poll(int(seconds * 1000) + 1)
        self._clock.advance(time.monotonic())
        if self._clock.now >= self._ticked_at + TICK:
            self._ticked_at = self._clock.now
            self._tree.reap()
            self.door.retry()
        for fd, events in ready:
            if fd == self._wake:
                os.read(self._wake, 4096)
                self._tree.reap()
            elif self.inlet is not None and fd == self.inlet.fd:
                self._write(self.inlet)
            elif not self.door.serve(fd, events):
                self._copy(fd)

    def _next_due(self) -> float:
        now = self._clock.now
        if self._ending.kill_is_due(now):
            return now + KILL_AGAIN
        limit = self._limits.next_due() if self._is_running and not self._ending.why else NEVER
        growth = self._told_at + GROWTH_EVERY if self._sizes() != self._told else NEVER
        return min(limit, growth, self._ending.next_due())

    def _copy(self, fd: int) -> None:
        for stream in self._streams:
            if stream.fd == fd:
                if stream.copy():
                    self._limits.heard(self._clock.now)
                if not stream.is_open:
                    self._poll.unregister(fd)
                    if self.inlet is not None and stream is self._streams[0]:
                        self._limits.muted(self._clock.now)

    def _write(self, inlet: Inlet) -> None:
        """Copy on into a resident's input, and have the poll say when more can be taken."""
        fd = inlet.fd
        if not inlet.copy():
            self._poll.unregister(fd) if self._is_writing else None
            self._is_writing = False
            self._end(self._plan["limits"]["grace"], limit="deaf")
        elif inlet.is_sending != self._is_writing:
            self._is_writing = inlet.is_sending
            self._poll.register(fd, select.POLLOUT) if self._is_writing else self._poll.unregister(fd)

    def _close_inlet(self) -> None:
        if self.inlet is not None and self.inlet.is_open:
            if self._is_writing:
                self._poll.unregister(self.inlet.fd)
                self._is_writing = False
            self.inlet.close()

    def _act(self, now: float) -> list[int] | None:
        """Do what is due. Returns what could not be ended (nothing, as a rule) when the run is over."""
        if self._tree.status is not None and self._ended_at is None:
            self._note_exit(now)
        if self._tree.is_empty:
            return []
        self._limits.attended(now, towers=len(self.door.peers))
        self._keep_limits(now)
        if self._ending.signal_is_due(now):
            self._tree.ask_program(self._plan["stop_signal"])
        if self._ending.group_is_due(now):
            self._tree.ask_group(self._plan["stop_signal"])
        if self._ending.kill_is_due(now):
            self._tree.kill_all()
            if self._ending.is_hopeless(now):
                return self._tree.members()
        if self._sizes() != self._told and now >= self._told_at + GROWTH_EVERY:
            self._told, self._told_at = self._sizes(), now
            self.door.say("grew {} {}".format(*self._told), droppable=True)
        return None

    def _keep_limits(self, now: float) -> None:
        if self._is_running and not self._ending.why:
            limit = self._limits.passed(now)
            if limit is not None:
                self._end(self._plan["limits"]["grace"], limit=limit)

    def _end(self, grace: float, *, word: str | None = None, limit: str | None = None) -> None:
        wait = 0.0 if self.inlet is None else EOF_BEFORE
        if self._ending.ask(self._clock.now, grace, word=word, limit=limit, wait=wait):
            self._close_inlet()
            self.door.say(f"ending {self._ending.why}")
            if not wait:
                self._tree.ask_program(self._plan["stop_signal"])

    def _note_exit(self, now: float) -> None:
        """The program has ended on its own or by our doing: record it, and ask what it left to end."""
        self._ended_at = time.time()
        self._close_inlet()
        for stream in self._streams:
            stream.drain()
        failpoint(self._plan, "keeper.exit-before")
        if not self._tree.is_empty:
            self._record(swept=False, left=[])
            self.door.say("exited")
            failpoint(self._plan, "keeper.exit-after")
            self._tree.ask_all()
            self._ending.has_exited(now, self._plan["limits"]["linger"])

    def _finish(self, left: list[int]) -> None:
        """The last bytes, the final record, and the end of the socket."""
        for stream in self._streams:
            stream.finish()
        self._shelf.sync()
        if self.group is not None:
            self.group.discard()
        is_first = not self._exit_file.is_written
        if not is_first:
            failpoint(self._plan, "keeper.swept")
        self._record(swept=not left, left=left, is_last=True)
        if is_first:
            self.door.say("exited")
            failpoint(self._plan, "keeper.exit-after")
            failpoint(self._plan, "keeper.swept")
        self.door.say("gone")
        self.door.close()

    def _record(self, *, swept: bool, left: list[int], is_last: bool = False) -> None:
        fields = exit_fields(
            ended_at=self._ended_at or time.time(),
            status=self._tree.status,
            usage=usage(),
            sizes=self._sizes(),
            limit=self._ending.limit,
            stopping=self._ending.word,
            swept=swept,
            left=left,
            log_errors=self._shelf.errors,
        )
        try:  # noqa: SIM105
            self._exit_file.write(fields, is_last=is_last)
        except OSError:  # an input/output error: the tower finds no record, and takes the run for interrupted
            pass

    @property
    def _is_running(self) -> bool:
        return self._ended_at is None

    def _sizes(self) -> tuple[int, int]:
        out, err = self._streams
        return out.size, err.size

    def _greet(self) -> str:
        """All that a tower has missed."""
        lines = [self._hello, self._started, "grew {} {}".format(*self._sizes())]
        if self.inlet is not None:
            lines.append(f"turn {self.inlet.turn}")
        if self._ending.why:
            lines.append(f"ending {self._ending.why}")
        if not self._is_running:
            lines.append("exited")
        return "\n".join(lines) + "\n"

    def _hear(self, line: str) -> None:
        """Do what a tower asks; what is no known word changes nothing."""
        match line.split():
            case ["poke"]:
                self._limits.poked(self._clock.now)
            case ["turn", turn, *limits] if self.inlet is not None and turn.isdecimal() and len(limits) == 3:
                self._begin_turn(self.inlet, int(turn), limits)
            case ["done"] if self.inlet is not None:
                self._limits.end_turn()
            case ["stop", word, grace] if word.replace("-", "").replace("_", "").isalnum():
                try:
                    seconds = float(grace)
                except ValueError:
                    return
                if not 0 <= seconds < NEVER:
                    return
                if self._is_running:
                    self._end(seconds, word=word[:LONGEST_WORD])
                else:
                    self._ending.hasten(self._clock.now + seconds)

    def _begin_turn(self, inlet: Inlet, turn: int, limits: list[str]) -> None:
        """Tell the program of a turn, whose time begins now. The answer is the last turn that was begun."""
        if self._is_running and not self._ending.why and inlet.begin(turn):
            timeout, stall, first_output = map(_seconds, limits)
            self._limits.begin_turn(self._clock.now, timeout=timeout, stall=stall, first_output=first_output)
            failpoint(self._plan, "keeper.turn-taken")
            self._write(inlet)
        self.door.say(f"turn {inlet.turn}")


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
