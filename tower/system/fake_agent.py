"""The scripted agent: a program that does what a script says, in place of a model.

Run as `python -I -S fake_agent.py SCRIPT [ARGS...]` by runner `fake:SCRIPT`. The script's grammar is
`core.fake_script`; here is what each step does. Which call it is comes from `LAYOVER_RUN_NUMBER`, whose calls from
`LAYOVER_AGENT`. With `LAYOVER_PROTOCOL=jsonl` it stays, and each call is a turn. Standard library only; a script that
cannot be followed ends with code 64 and one sentence.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

if __name__ == "__main__":
    # With -I and -S nothing but the standard library can be imported; the grammar lies beside this package.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from tower.core.fake_script import Call, Script, ScriptError, parse

EX_USAGE: Final = 64
"""Exit code of a script that cannot be followed (as sysexits.h numbers a wrong use)."""

MIB: Final = 1 << 20
_STREAMS: Final = {"stdout": 1, "stderr": 2}
_POLL_SECONDS: Final = 0.02
_TOOL_SECONDS: Final = 60.0
"""Patience with one call; the first one to a tower waits until the tower has loaded its tools."""
_AWAY_SECONDS: Final = 30.0
"""How long a tower may be away before a send fails: runs outlive it, and what they hand on must as well."""


class StepError(Exception):
    """A step that cannot be carried out, in words, and `where` it stands once that is known."""

    def __init__(self, words: str, where: str = "") -> None:
        super().__init__(f"{where}: {words}" if where else words)
        self.where = where


@dataclass(slots=True)
class Turn:
    """What a resident collects while it works on one request."""

    number: int
    payload: bytes
    answer: bytearray = field(default_factory=bytearray)
    used: dict[str, Any] = field(default_factory=dict)


_turns: Final[list[Turn]] = []
"""The one under way; empty for a program that is told once."""

_heard: Final[list[bytes]] = []
"""What was read of standard input, which can be read once."""


def main(argv: list[str]) -> int:
    """Carry out this call's steps; the exit code is the script's to choose, 0 where it chooses none."""
    if len(argv) < 2:
        return _refuse("cannot start: no script was named")
    path = argv[1]
    try:
        script = parse(Path(path).read_bytes().decode())
        if os.environ.get("LAYOVER_PROTOCOL") == "jsonl":
            return _stay(script)
        agent, number = os.environ.get("LAYOVER_AGENT", ""), _number()
        steps = script.call(agent, number)
    except (OSError, UnicodeDecodeError) as error:
        return _refuse(f"cannot read the script {path}: {error}")
    except ScriptError as error:
        return _refuse(f"cannot follow the script {path}: {error}")
    try:
        perform(steps, _call_name(script, agent, number))
    except StepError as error:
        return _refuse(f"cannot go on with the script {path}: {error}")
    return 0


def _stay(script: Script) -> int:
    """Take one turn after another until the input ends. What a script says is collected: it is the turn's answer."""
    agent = os.environ.get("LAYOVER_AGENT", "")
    for line in sys.stdin.buffer:
        told = json.loads(line)
        _turns[:] = [turn := Turn(told["number"], told["payload"].encode())]
        result = {"type": "result", "turn": told["turn"], "ok": True}
        try:
            perform(script.call(agent, turn.number), _call_name(script, agent, turn.number))
        except (StepError, ScriptError) as error:
            result |= {"ok": False, "error": str(error)}
        result |= {"answer": turn.answer.decode(errors="replace"), **turn.used}
        _turns.clear()
        _put(1, json.dumps(result, default=str) + "\n")
    return 0


def perform(steps: Call, where: str) -> None:
    """Carry out steps in their order. Raises `StepError` that names the call (`where`) and the step."""
    for number, step in enumerate(steps, 1):
        try:
            DO[step.verb](step.value)
        except StepError as error:
            # What TERM interrupted is not what failed: the steps of `on_term` have said which one it was.
            raise error if error.where else StepError(str(error), f"{where}, step {number} ({step.verb})") from error
        except OSError as error:
            raise StepError(str(error), f"{where}, step {number} ({step.verb})") from error


def _call_name(script: Script, agent: str, number: int) -> str:
    """The call that a run follows, as the checks of a script name it."""
    own = script.agents.get(agent)
    calls = script.calls if own is None else own
    name = "call" if own is None else f"agents.{agent}.call"
    return f"{name} {min(max(number, 1), len(calls))}"


def _number() -> int:
    if _turns:
        return _turns[0].number
    text = os.environ.get("LAYOVER_RUN_NUMBER", "1")
    if not text.isdecimal():
        raise ScriptError([f"LAYOVER_RUN_NUMBER is {text!r} and no number"])
    return int(text)


def _refuse(sentence: str) -> int:
    # Whoever closed the stream will not hear of it.
    with suppress(OSError):
        _put(2, sentence + "\n")
    return EX_USAGE


def _put(stream: int, text: str | bytes) -> None:
    """Write all of it at once and unbuffered, so that what was said before a crash was said."""
    left = memoryview(text.encode(errors="surrogateescape") if isinstance(text, str) else text)
    while left:
        left = left[os.write(stream, left) :]


def _say(text: str) -> None:
    _tell(text + "\n")


def _tell(text: str | bytes) -> None:
    """To standard output, or into a turn's answer."""
    if not _turns:
        _put(1, text)
    else:
        _turns[0].answer += text.encode(errors="replace") if isinstance(text, str) else text


def _raw(text: str) -> None:
    _put(1, text + "\n")


def _err(text: str) -> None:
    _put(2, text + "\n")


def _read(path: str) -> None:
    with Path(path).open("rb") as file:
        _copy(file.fileno())


def _echo(what: str) -> None:
    match what:
        case "stdin" if _turns:
            _tell(_turns[0].payload)
        case "stdin" if _heard:
            _tell(_payload())
        case "stdin":
            _copy(0)
        case "env":
            _tell(b"".join(name + b"=" + value + b"\n" for name, value in sorted(_given().items())))
        case "cwd":
            _say(str(Path.cwd()))
        case "call":
            _say(str(_number()))
        case "args":
            _tell("".join(f"{arg}\n" for arg in sys.argv[2:]))


def _payload() -> bytes:
    """All that this call was told."""
    if _turns:
        return _turns[0].payload
    if not _heard:
        _heard.append(b"".join(iter(lambda: os.read(0, MIB), b"")))
    return _heard[0]


def _when(condition: Mapping[str, Any]) -> None:
    if condition["told"] is not None:
        holds = condition["told"].encode() in _payload()
    else:
        path = Path(condition["path"])
        holds = path.exists() and path.read_bytes().count(b"\n") >= condition["lines"]
    branch = "then" if holds else "otherwise"
    try:
        perform(condition[branch], branch)
    except StepError as error:
        raise StepError(str(error)) from error


def _given() -> dict[bytes, bytes]:
    """The environment as it was handed over: Python adds a locale of its own to what `os.environ` shows."""
    entries = (entry.partition(b"=") for entry in Path("/proc/self/environ").read_bytes().split(b"\0") if entry)
    return {name: value for name, _, value in entries}


def _copy(source: int) -> None:
    while chunk := os.read(source, MIB):
        _tell(chunk)


def _binary(_: bool) -> None:
    """Every byte there is, and a word in Latin-1."""
    _put(1, bytes(range(256)) + "\nTäglich größer\n".encode("latin-1"))


def _flood(flood: Mapping[str, Any]) -> None:
    left = int(flood["mb"] * MIB)
    block = b"x" * MIB if flood["line"] else (b"x" * 127 + b"\n") * (MIB // 128)
    while left > 0:
        _put(_STREAMS[flood["to"]], block[:left])
        left -= len(block)
    if flood["line"]:
        _put(_STREAMS[flood["to"]], "\n")


def _close(stream: str) -> None:
    os.close(_STREAMS[stream])


def _write(file: Mapping[str, str]) -> None:
    _store(file["path"], file["text"], os.O_TRUNC)


def _append(file: Mapping[str, str]) -> None:
    _store(file["path"], file["text"], os.O_APPEND)


def _store(path: str, text: str, how: int) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o666)
    try:
        _put(file, text)
    finally:
        os.close(file)


def _report(report: Mapping[str, Any] | str) -> None:
    if _turns:
        _turns[0].used |= report if isinstance(report, Mapping) else {}
        return
    path = os.environ.get("LAYOVER_REPORT")
    if not path:
        raise StepError("LAYOVER_REPORT names no file for the report")
    _store(path, report if isinstance(report, str) else json.dumps(report, default=str), os.O_TRUNC)


def _run(command: str) -> None:
    """A shell command on the same streams. One that fails ends the call with its code."""
    child = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", command], _given())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(code if code > 0 else 128 - code)


def _send(flight: Mapping[str, Any]) -> None:
    """Send as this run. A refusal is an answer: it is printed, and the call goes on."""
    given = {key: value for key, value in flight.items() if value is not None}
    if "LAYOVER_RUN_TOKEN" in os.environ:
        # Asked again after an answer that broke off, it is the same flight.
        given.setdefault("key", os.urandom(16).hex())
    status, answer = _while_away(lambda: _post("/flights", given))
    if status < 300:
        _say(f"sent to {flight['to']}: {answer.get('flight', {}).get('id')}")
    else:
        _say(f"not sent to {flight['to']}: {answer.get('detail') or answer.get('title') or status}")


def _while_away(ask: Callable[[], tuple[int, dict[str, Any]]]) -> tuple[int, dict[str, Any]]:
    """Ask again for a while when nobody is there: a run goes on while its tower is started again."""
    end = time.monotonic() + (_AWAY_SECONDS if "LAYOVER_RUN_TOKEN" in os.environ else 0)
    is_said = False
    while True:
        try:
            return ask()
        except (ConnectionError, FileNotFoundError):
            if time.monotonic() >= end:
                raise
        if not is_said:
            _put(2, "the tower is away, asking again until it is back\n")
            is_said = True
        time.sleep(_POLL_SECONDS)


def _post(path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Speak to the tower over its socket, with this run's token. Gives the status and the JSON of the answer."""
    import http.client
    import socket

    named = os.environ.get("LAYOVER_SOCKET")
    if not named:
        raise StepError("LAYOVER_SOCKET names no socket to send to")
    address = Path(named)
    connection = http.client.HTTPConnection("localhost")
    # Through its folder's descriptor, so that no path is too long for a socket address.
    folder = os.open(address.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(f"/proc/self/fd/{folder}/{address.name}")
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get('LAYOVER_RUN_TOKEN', '')}",
        }
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (ConnectionError, http.client.IncompleteRead) as error:
        raise ConnectionResetError(f"the tower's answer broke off: {error!r}") from error
    except (http.client.HTTPException, ValueError) as error:
        raise StepError(f"the tower's answer cannot be read: {error!r}") from error
    finally:
        os.close(folder)
        connection.close()


def _tool(call: Mapping[str, Any]) -> None:
    """Call one of the tower's tools as this run. A refusal is an answer: it is printed, and the call goes on."""

    async def ask(client: Any) -> str:
        answer = await client.call_tool(call["name"], call["arguments"])
        words = "\n".join(part.text for part in answer.content if part.type == "text")
        return f"{call['name']} was refused: {words}" if answer.is_error else words

    _say(_over_mcp(ask))


def _tools(_: bool) -> None:
    async def ask(client: Any) -> str:
        return "\n".join(tool.name for tool in (await client.list_tools()).tools)

    _say(_over_mcp(ask))


def _over_mcp(ask: Callable[[Any], Any]) -> str:
    """What `ask` finds out with the official client, which is imported here: it takes longer than all the rest."""
    url, token = os.environ.get("LAYOVER_MCP_URL"), os.environ.get("LAYOVER_RUN_TOKEN", "")
    if not url:
        raise StepError("LAYOVER_MCP_URL names no tower whose tools could be called")
    import site

    site.main()  # -I and -S left the packages out
    import anyio
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError

    async def talk() -> str:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=_TOOL_SECONDS) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return str(await ask(client))

    try:
        return anyio.run(talk)
    except (MCPError, OSError) as error:
        raise StepError(f"the tower's tools cannot be called: {error}") from error
    except ExceptionGroup as group:
        raise StepError(f"the tower's tools cannot be called: {_first(group)}") from group


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _wait_for(wait: Mapping[str, Any]) -> None:
    end = time.monotonic() + wait["timeout"]
    while not Path(wait["path"]).exists():
        if time.monotonic() > end:
            raise StepError(f"{wait['path']} did not appear within {wait['timeout']:g} s")
        time.sleep(_POLL_SECONDS)


def _hang(_: bool) -> None:
    while True:
        signal.pause()


def _ignore(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def _on_term(steps: Call) -> None:
    """From now on a TERM carries out these steps and ends the call; a second one changes nothing."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        perform(steps, "on_term")
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)


def _fork(fork: Mapping[str, Any]) -> None:
    """Start children that outlive this program, and go on when all of them are as the script wants them."""
    ready, tell = os.pipe()
    for _ in range(fork["count"]):
        child = os.fork()
        if child == 0:
            os.close(ready)
            _be_a_child(fork, tell)
        if fork["double"]:
            os.waitpid(child, 0)
    os.close(tell)
    told = 0
    while told < fork["count"] and (news := os.read(ready, fork["count"])):
        told += len(news)
    os.close(ready)


def _be_a_child(fork: Mapping[str, Any], tell: int) -> NoReturn:
    try:
        if fork["setsid"]:
            os.setsid()
        if fork["double"] and os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if fork["ignore_term"] else signal.SIG_DFL)
        if not fork["hold_output"]:
            _leave_the_streams()
        if fork["pids"]:
            _append({"path": fork["pids"], "text": f"{os.getpid()}\n"})
        os.write(tell, b"+")
        os.close(tell)
        time.sleep(fork["seconds"])
    finally:
        os._exit(0)


def _leave_the_streams() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _kill(number: int) -> None:
    os.kill(os.getpid(), number)


DO: Final[Mapping[str, Callable[[Any], object]]] = {
    "say": _say,
    "raw": _raw,
    "err": _err,
    "read": _read,
    "echo": _echo,
    "binary": _binary,
    "flood": _flood,
    "close": _close,
    "write": _write,
    "append": _append,
    "report": _report,
    "run": _run,
    "send": _send,
    "tool": _tool,
    "tools": _tools,
    "sleep": time.sleep,
    "wait_for": _wait_for,
    "hang": _hang,
    "ignore": _ignore,
    "on_term": _on_term,
    "fork": _fork,
    "when": _when,
    "kill": _kill,
    "exit": sys.exit,
}
"""What each step of the grammar does."""


if __name__ == "__main__":
    sys.exit(main(sys.argv))
