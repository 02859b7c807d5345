"""The keeper's start: from the tower's pipe to a program under supervision, or to a word why not.

Nothing of the run is known here until this process can no longer be read by others; the plan, with all secrets,
comes only then. Whoever creates the record `start` decides whether the program may run.
"""

from __future__ import annotations

import _socket as socket
import os
import sys
import time

from tower.system import procfs
from tower.system.keeper import program
from tower.system.keeper.ending import GIVE_UP_AFTER
from tower.system.keeper.failpoints import failpoint
from tower.system.keeper.files import create, write_all
from tower.system.keeper.group import Group
from tower.system.keeper.inlet import Inlet
from tower.system.keeper.logs import LogShelf
from tower.system.keeper.program import StartError, describe
from tower.system.keeper.protocol import LENGTH_BYTES, PAYLOAD, PROTOCOL, STDERR, STDOUT, unpack
from tower.system.keeper.records import ExitFile, create_start, exit_fields
from tower.system.keeper.streams import Stream
from tower.system.keeper.supervisor import KILL_AGAIN, Supervisor
from tower.system.keeper.tree import Tree
from tower.system.prctl import become_subreaper, forbid_new_privileges, make_undumpable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, NoReturn

    from tower.system.keeper.protocol import Plan
else:
    import _signal as signal

CRASHED: Final = 70
"""Exit code after a defect of the keeper itself (EX_SOFTWARE)."""

NOTE: Final = "keeper.error"
"""Where a defect of the keeper is named, in the folder of the run."""


def main() -> NoReturn:
    """The whole life of a keeper. Leaves no process of its run behind, even when it fails itself."""
    try:
        _keep()
    except BaseException:
        _end_everything()
        os._exit(CRASHED)
    os._exit(0)


def _keep() -> None:
    wake = _set_signals()
    make_undumpable()
    become_subreaper()
    forbid_new_privileges()
    connection = _take_connection()
    run = sys.argv[3]
    hello = f"hello {PROTOCOL} {os.getpid()} {procfs.start_ticks(os.getpid())} {run}"
    connection.sendall(f"{hello}\n".encode("ascii"))
    plan = _receive_plan(connection)
    if plan is not None and plan["run"] == run:
        os.umask(0o077)
        _keep_run(plan, hello, connection, wake)


def _keep_run(plan: Plan, hello: str, connection: socket.socket, wake: int) -> None:
    try:
        folder = os.open(plan["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        failpoint(plan, "keeper.start-before")
        is_ours = _claim_start(folder)
    except OSError as error:
        _say(connection, f"failed start {describe(error)}")
        return
    if not is_ours:
        _say(connection, "void")
        return
    failpoint(plan, "keeper.start-after")
    try:
        _run(plan, folder, hello, connection, wake)
    except BaseException as error:
        _leave_note(folder, error)
        raise


def _run(plan: Plan, folder: int, hello: str, connection: socket.socket, wake: int) -> None:
    """Start the program and supervise it. What fails on the way is recorded as a start error, and said."""
    exit_file = door = None
    step = "record"
    try:
        exit_file = ExitFile(folder)
        step = "log"
        shelf = LogShelf(folder, plan["max_log_bytes"])
        out, err = (Stream(shelf.open(name), plan["patterns"]) for name in (STDOUT, STDERR))
        supervisor = Supervisor(plan, hello, wake, streams=(out, err), shelf=shelf, exit_file=exit_file)
        step = "socket"
        door = supervisor.door
        door.listen(plan["socket_dir"], plan["socket_name"])
        step = "payload"
        stdin = _stdin(plan, folder, supervisor)
        pid, inside = _start(plan, (stdin, out.writer, err.writer), supervisor)
    except (OSError, StartError) as error:
        failure = error if isinstance(error, StartError) else StartError(step, describe(error))
        if door is not None:
            door.close()
        if exit_file is not None:
            exit_file.write(exit_fields(ended_at=time.time(), start_error=str(failure)), is_last=True)
        _say(connection, f"failed {failure.step} {failure.detail}")
        return
    failpoint(plan, "keeper.forked")
    for fd in (stdin, out.writer, err.writer):
        os.close(fd)
    plan["env"].clear()
    door.admit(connection)
    supervisor.run(pid, inside)


def _start(plan: Plan, descriptors: tuple[int, int, int], supervisor: Supervisor) -> tuple[int, int | None]:
    """What `program.start` gives: in a control group of its own if there can be one. Raises StartError."""
    try:
        supervisor.group = None if plan["cgroup"] is None else Group(plan["cgroup"])
    except OSError:
        supervisor.group = None
    try:
        return program.start(plan, descriptors, supervisor.group)
    except StartError as error:
        if supervisor.group is not None:
            supervisor.group.discard()
            supervisor.group = None
        if error.step != program.GROUP:
            raise
    return program.start(plan, descriptors, None)


def _stdin(plan: Plan, folder: int, supervisor: Supervisor) -> int:
    """What the program reads: the payload, or the pipe that turns come through. Raises OSError."""
    if not plan["resident"]:
        return os.open(PAYLOAD, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    supervisor.inlet = Inlet(folder)
    return supervisor.inlet.reader


def _claim_start(folder: int) -> bool:
    pid = os.getpid()
    ticks = procfs.start_ticks(pid) or 0
    return create_start(folder, void=False, pid=pid, ticks=ticks, boot_id=procfs.boot_id(), protocol=PROTOCOL)


def _set_signals() -> int:
    """Only the socket asks a keeper for anything. Returns what becomes readable when a child has ended."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    return wake


def _take_connection() -> socket.socket:
    """The first tower, on standard input, whose place the empty device takes."""
    connection = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    return connection


def _receive_plan(connection: socket.socket) -> Plan | None:
    """The plan; None when the tower went away before it was whole."""
    length = _receive(connection, LENGTH_BYTES)
    data = _receive(connection, int.from_bytes(length, "big"))
    return unpack(data) if data else None


def _receive(connection: socket.socket, size: int) -> bytes:
    pieces: list[bytes] = []
    while size:
        piece = connection.recv(min(size, 1 << 20))
        if not piece:
            return b""
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _say(connection: socket.socket, line: str) -> None:
    try:  # noqa: SIM105
        connection.sendall(f"{line}\n".encode("ascii", "backslashreplace"))
    except OSError:  # that tower is gone; the next one reads the records
        pass


def _end_everything() -> None:
    tree = Tree(0)
    give_up_at = time.monotonic() + GIVE_UP_AFTER
    tree.reap()
    while not tree.is_empty and time.monotonic() < give_up_at:
        tree.kill_all()
        time.sleep(KILL_AGAIN)
        tree.reap()


def _leave_note(folder: int, error: BaseException) -> None:
    """Name the place of a defect. Its words are left out: they might hold a secret."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    fd = create(NOTE, folder)
    write_all(fd, f"{type(error).__name__} at {place}\n".encode())
    os.close(fd)
