import io
import json
import logging
import os
import pty
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tower.system.logs import STRUCK, Form, Redaction, choose_form, configure

SECRET = 'sk-live/4f"ä+secret-value'


@pytest.fixture
def redaction() -> Redaction:
    return Redaction()


Lines = Callable[[], list[str]]


@pytest.fixture
def logged(tmp_path: Path, redaction: Redaction) -> Iterator[Callable[[Form], Lines]]:
    """Set the log up in a form; what it returns reads the lines so far."""
    root = logging.getLogger()
    before = root.handlers, root.level
    path = tmp_path / "log"
    with path.open("w") as stream:

        def start(form: Form) -> Lines:
            configure(stream, form, redaction, colours=False)
            return lambda: path.read_text().splitlines()

        yield start
    logging.captureWarnings(False)
    root.handlers, root.level = before
    structlog.reset_defaults()


def test_one_event_is_one_json_object(logged: Callable[[Form], Lines]) -> None:
    lines = logged(Form.JSON)
    log = structlog.get_logger()
    log.debug("not.shown")
    log.info("run.started", run="run_1", agent="coder", argv=["a", "b\nc"])
    (line,) = lines()
    event = json.loads(line)
    assert list(event)[:3] == ["timestamp", "level", "event"]
    assert event["timestamp"].endswith("Z")
    del event["timestamp"]
    assert event == {
        "level": "info",
        "event": "run.started",
        "run": "run_1",
        "agent": "coder",
        "argv": ["a", "b\nc"],
    }


@pytest.mark.parametrize(
    ("method", "priority"),
    [("debug", None), ("info", 6), ("warning", 4), ("error", 3), ("exception", 3), ("critical", 2)],
)
def test_the_journal_gets_priorities(logged: Callable[[Form], Lines], method: str, priority: int | None) -> None:
    lines = logged(Form.JOURNAL)
    getattr(structlog.get_logger(), method)("x")
    getattr(logging.getLogger("some.library"), method)("y")
    shown = lines()
    if priority is None:
        assert shown == []
    else:
        ours, theirs = shown
        assert ours.startswith(f"<{priority}>{{")
        assert theirs.startswith(f"<{priority}>{{")
        assert json.loads(ours.partition(">")[2])["event"] == "x"


def test_libraries_speak_through_the_same_door(logged: Callable[[Form], Lines], redaction: Redaction) -> None:
    lines = logged(Form.JSON)
    redaction.add([SECRET])
    logging.getLogger("asyncio").error("task of %s failed", SECRET, extra={"token": "abc"})
    logging.getLogger("uvicorn.error").warning("somebody sent nonsense")
    (line,) = lines()
    event = json.loads(line)
    assert event["event"] == "library.asyncio"
    assert event["words"] == f"task of {STRUCK} failed"
    assert event["token"] == STRUCK
    assert event["level"] == "error"


def test_warnings_of_python_are_logged(logged: Callable[[Form], Lines]) -> None:
    lines = logged(Form.JSON)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)
    (line,) = lines()
    assert "old thing" in json.loads(line)["words"]


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        f"curl -H 'X: {SECRET}'",
        SECRET.encode(),
        {"deep": [{"deeper": SECRET}]},
        json.dumps({"key": SECRET}),
        Path("/tmp") / "x" / SECRET,
        ValueError(SECRET),
    ],
)
def test_no_living_secret_is_written(
    logged: Callable[[Form], Lines], redaction: Redaction, form: Form, value: Any
) -> None:
    lines = logged(form)
    redaction.add([SECRET, "another-secret-1234"])
    structlog.get_logger().warning("x", value=value, other="another-secret-1234")
    text = "\n".join(lines())
    assert "4f" not in text
    assert "secret-value" not in text
    assert text.count(STRUCK) == 2


def test_a_secret_is_struck_out_while_any_run_has_it(logged: Callable[[Form], Lines], redaction: Redaction) -> None:
    lines = logged(Form.JSON)
    log = structlog.get_logger()
    redaction.add([SECRET])
    redaction.add([SECRET])
    redaction.remove([SECRET])
    log.info("x", value=SECRET)
    redaction.remove([SECRET])
    log.info("x", value=SECRET)
    during, after = (json.loads(line)["value"] for line in lines())
    assert during == STRUCK
    assert after == SECRET


def test_removing_what_was_never_added_harms_nobody(redaction: Redaction) -> None:
    redaction.remove([SECRET])
    redaction.add([SECRET])
    assert redaction.apply(SECRET) == STRUCK


def test_threads_may_change_it_while_it_is_used(redaction: Redaction) -> None:
    redaction.add([SECRET])

    def come_and_go(name: str) -> None:
        for number in range(300):
            redaction.add([f"{name}-secret-{number}"])
            redaction.remove([f"{name}-secret-{number}"])

    threads = [threading.Thread(target=come_and_go, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert redaction.apply(f"x {SECRET}") == f"x {STRUCK}"
    assert redaction.apply("a-secret-7") == "a-secret-7"


@pytest.mark.parametrize(
    ("key", "struck"),
    [
        ("token", True),
        ("run_token", True),
        ("Authorization", True),
        ("OPENAI_API_KEY", True),
        ("aws_secret", True),
        ("set-cookie", True),
        ("tokens_in", False),
        ("estimate_tokens", False),
        ("token_sha256", False),
        ("key", False),
        ("monkey", False),
    ],
)
def test_keys_that_tell(logged: Callable[[Form], Lines], key: str, struck: bool) -> None:
    lines = logged(Form.JSON)
    structlog.get_logger().info("x", **{key: "value"}, env={key: "value"})
    event = json.loads(lines()[0])
    expected = STRUCK if struck else "value"
    assert (event[key], event["env"][key]) == (expected, expected)


@pytest.mark.parametrize("form", list(Form))
def test_a_traceback_shows_no_local_variable(logged: Callable[[Form], Lines], form: Form) -> None:
    lines = logged(form)

    def fails() -> None:
        hidden = "the value of a local variable"
        assert hidden
        raise RuntimeError("out of luck \x1b[2J\u202e")

    try:
        fails()
    except RuntimeError:
        structlog.get_logger().exception("x")
    text = "\n".join(lines())
    assert "out of luck" in text
    assert "in fails" in text
    assert "the value of" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_on_a_terminal_foreign_text_moves_no_cursor(logged: Callable[[Form], Lines]) -> None:
    lines = logged(Form.CONSOLE)
    structlog.get_logger().info("flight.queued", body="\x1b[2J\u202e\nforged line", agent="coder")
    (line,) = lines()
    assert "flight.queued" in line
    assert line.isprintable()


def test_a_value_that_json_does_not_know(logged: Callable[[Form], Lines]) -> None:
    lines = logged(Form.JSON)
    structlog.get_logger().info("x", value={1, 2}, text="half \ud800")
    assert json.loads(lines()[0])["value"] == "{1, 2}"


def test_the_form_follows_the_stream(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        found = os.fstat(file.fileno())
        there = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert choose_form(file, there) is Form.JOURNAL
        assert choose_form(file, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"}) is Form.JSON
        assert choose_form(file, {}) is Form.JSON
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        assert choose_form(terminal, there) is Form.CONSOLE
    os.close(leader)
    assert choose_form(io.StringIO(), {}) is Form.JSON
