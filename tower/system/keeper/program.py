"""The agent program itself: how it is started in a session of its own, with nothing but what the plan says."""

from __future__ import annotations

import errno
import os
import resource

from tower.system.keeper.walls import put_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import Final, NoReturn

    from tower.system.keeper.group import Group
    from tower.system.keeper.protocol import Plan
else:
    import _signal as signal  # what the enums of `signal` wrap: they cost 3 ms

GROUP: Final = "cgroup"
"""The step that a program can be started without."""

FAILED: Final = 127
"""Exit code of a child that could not become the program; nobody sees it, the report in the pipe counts."""


class StartError(Exception):
    """A step of the start failed. `detail` is the system's name for the error and its words."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(f"{step}: {detail}")
        self.step = step
        self.detail = detail


def describe(error: OSError) -> str:
    """`ENOENT No such file or directory`. Names of files are left out: the caller knows which step it was."""
    if error.errno is None:
        return str(error)
    return f"{errno.errorcode.get(error.errno, error.errno)} {os.strerror(error.errno)}"


def start(plan: Plan, descriptors: tuple[int, int, int], group: Group | None) -> tuple[int, int | None]:
    """Start the program; returns its pid when it is running, and not before. Raises StartError.

    `descriptors` become its standard streams. A group that it cannot be put into is the failed step `GROUP`.
    The report pipe closes by itself when the program is executed, so an empty report is the proof. Inside bubblewrap
    the pid is that of bubblewrap, and with it comes the pid of the first process in there.
    """
    report, reporter = os.pipe()
    walls = plan["walls"]
    status = os.pipe() if walls and walls["prefix"] else None
    try:
        pid = os.fork()
    except OSError as error:
        for fd in (report, reporter, *(status or ())):
            os.close(fd)
        raise StartError("fork", describe(error)) from None
    if pid == 0:
        _become(plan, descriptors, group, reporter, status)
    os.close(reporter)
    if status:
        os.close(status[1])
    words = b""
    while piece := os.read(report, 1024):
        words += piece
    os.close(report)
    if words:
        if status:
            os.close(status[0])
        os.waitpid(pid, 0)
        step, _, detail = words.decode().partition(" ")
        raise StartError(step, detail)
    return pid, _first_inside(status[0]) if status else None


def _first_inside(status: int) -> int | None:
    """The pid that bubblewrap tells of its first process; None when it ends before there is one."""
    words = b""
    while b"}" not in words and (piece := os.read(status, 4096)):
        words += piece
    # The reader stays open: bubblewrap writes there once more before it ends.
    digits = words.partition(b'"child-pid":')[2].partition(b",")[0].strip(b" }\n")
    return int(digits) if digits.isdigit() else None


def _become(
    plan: Plan,
    descriptors: tuple[int, int, int],
    group: Group | None,
    reporter: int,
    status: tuple[int, int] | None,
) -> NoReturn:
    """The child's part. Nothing here returns, whatever happens."""
    step = GROUP
    try:
        if group is not None:
            os.write(group.members, b"0")
        step = "session"
        os.setsid()
        step = "signals"
        _reset_signals()
        step = "descriptors"
        for target, source in enumerate(descriptors):
            os.dup2(source, target)
        walls = plan["walls"]
        step = "cwd"
        if status is None:  # bubblewrap goes there itself: what is outside may be another folder, or none
            os.chdir(plan["cwd"])
        os.umask(plan["umask"])
        step = "limits"
        _limit_descriptors(plan["descriptor_limit"])
        argv = plan["argv"]
        if walls:
            step = "sandbox"
            put_up(walls)
            if status:
                os.set_inheritable(status[1], True)
                argv = [*walls["prefix"], b"--json-status-fd", str(status[1]).encode(), b"--", *argv]
        step = "exec"
        _execute(argv, plan["env"])
    except OSError as error:
        os.write(reporter, f"{step} {describe(error)}".encode())
    except BaseException as error:
        os.write(reporter, f"{step} {type(error).__name__}".encode())
    finally:
        os._exit(FAILED)


def _execute(argv: list[bytes], env: Mapping[bytes, bytes]) -> None:
    """Raises OSError: of the first place that holds the program but may not execute it, else of the last."""
    name = argv[0]
    if b"/" in name:
        os.execve(name, argv, env)  # noqa: S606
    refusal = FileNotFoundError(errno.ENOENT, "")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        try:
            os.execve((folder or b".") + b"/" + name, argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refusal = error  # type: ignore[assignment]
    raise refusal


def _limit_descriptors(soft: int | None) -> None:
    """The tower raises its own limit; programs that use `select` break when they inherit it."""
    if soft is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft if hard < 0 else min(soft, hard), hard))


def _reset_signals() -> None:
    """Python ignores SIGPIPE and the keeper some more, and who started the tower may have blocked others."""
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # KILL, STOP, and those of the C library
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
