"""The tower's own log: structlog's set-up, what is struck out of it, and a pipe's end that nobody reads.

Owns how a line looks and that it can be written without harm. What is worth a line, and the masks that stand for
secrets, belong to others (every module; `core.masking`).
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tower.core.masking import MASK, Masker, patterns
from tower.system.outlet import Outlet

STRUCK: Final = MASK.decode()

SECRET_KEY: Final = re.compile(
    r"(?:^|[_.-])(?:token|secret|password|passwd|passphrase|authorization|cookie|credentials?|api_?key|private_?key)$",
    re.IGNORECASE,
)
"""Keys whose values are struck out whatever they are. `tokens_in` is a number and none of these."""

PRIORITIES: Final = {"critical": 2, "fatal": 2, "error": 3, "exception": 3, "warning": 4, "warn": 4, "debug": 7}
"""Level -> syslog priority, as journald reads it from `<N>`; any other is 6, information."""


LIBRARIES: Final = {"watchfiles": logging.WARNING, "mcp": logging.WARNING, "uvicorn": logging.ERROR}
"""Least levels of the chatty ones: what they say below is said better by our own events, or by any caller's will."""


class Form(Enum):
    """How a line looks."""

    JSON = "json"
    JOURNAL = "journal"
    """JSON with the priority in front."""
    CONSOLE = "console"


class Redaction:
    """The secret values that are alive now: each forwarded one, each run's token. Safe to use from every thread."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._forms: dict[str, tuple[bytes, ...]] = {}
        """Value -> all its forms; worked out once, since every run of a burst adds the same few and one of its own."""
        self._masker: Masker | None = None
        """Of the present forms; made when it is next needed."""
        self._guard = threading.Lock()

    def add(self, values: Iterable[str]) -> None:
        """Strike these out from now on. A value that several runs were given is counted."""
        self._change(values, 1)

    def remove(self, values: Iterable[str]) -> None:
        """Take back one `add` of each value."""
        self._change(values, -1)

    def apply(self, text: str) -> str:
        """`text` without any living secret, however it is escaped."""
        if not self._forms:
            return text
        data = text.encode("utf-8", "surrogatepass")
        with self._guard:
            # Looking is cheap, and nearly always all there is to do; only a find is worth the making of a masker.
            if not any(form in data for forms in self._forms.values() for form in forms):
                return text
            if self._masker is None:
                self._masker = Masker(tuple(dict.fromkeys(form for forms in self._forms.values() for form in forms)))
            return (self._masker.feed(data) + self._masker.flush()).decode("utf-8", "surrogatepass")

    def _change(self, values: Iterable[str], by: int) -> None:
        with self._guard:
            for value in values:
                self._counts[value] += by
            self._counts = +self._counts
            forms = {value: self._forms.get(value) or patterns(_spoken(value)) for value in self._counts}
            if forms.keys() != self._forms.keys():
                self._forms = forms
                self._masker = None


def _spoken(value: str) -> tuple[str, ...]:
    """A value as it stands in text, and as Python shows it within an object."""
    return value, repr(value)[1:-1], repr(value.encode("utf-8", "surrogateescape"))[2:-1]


def choose_form(stream: TextIO, environ: Mapping[str, str]) -> Form:
    """The form that suits the stream: a terminal, the journal (`JOURNAL_STREAM` names this very stream), or neither."""
    try:
        descriptor = stream.fileno()
        found = os.fstat(descriptor)
    except (OSError, ValueError):
        return Form.JSON
    if environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}":
        return Form.JOURNAL
    return Form.CONSOLE if os.isatty(descriptor) else Form.JSON


def configure(
    stream: TextIO, form: Form, redaction: Redaction, *, level: int = logging.INFO, colours: bool = True
) -> Outlet:
    """Send the log of structlog and of the standard library to `stream`; returns the way out.

    `drain` that before the process ends. `level` is the standard library's number; `colours` are for terminals alone.
    """
    outlet = Outlet(stream.fileno())
    rendering = _rendering(form, redaction, colours=colours)
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # Text, not a structure: structures show local variables, and these hold what was decrypted a moment ago.
        structlog.processors.format_exc_info,
        _tame_traceback,
    ]
    structlog.configure(
        processors=[*common, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, outlet)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(outlet)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *common, _name_source],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)
    for library, least in LIBRARIES.items():
        logging.getLogger(library).setLevel(max(level, least))
    return outlet


def _rendering(form: Form, redaction: Redaction, *, colours: bool) -> list[Processor]:
    """From an event to its line.

    Secrets are struck out of the values first, and then, last of all, out of the line: objects that are only turned
    into text on the way have theirs there.
    """

    def strike_line(_: WrappedLogger, __: str, line: Any) -> str:
        return redaction.apply(line)

    def prefix(_: WrappedLogger, method: str, line: Any) -> str:
        return f"<{PRIORITIES.get(method, 6)}>{line}"

    strike = _strike_inside(redaction)
    if form is Form.CONSOLE:
        # repr: what an agent wrote must not move the cursor.
        console = structlog.dev.ConsoleRenderer(
            colors=colours, repr_native_str=True, exception_formatter=structlog.dev.plain_traceback
        )
        return [strike, console, strike_line]
    json = structlog.processors.JSONRenderer(default=repr)
    return [strike, json, prefix, strike_line] if form is Form.JOURNAL else [strike, json, strike_line]


def _tame_traceback(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The message of an exception may hold what an agent wrote: it must not reach a terminal as it is."""
    trace = event.get("exception")
    if isinstance(trace, str):
        event["exception"] = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in trace)
    return event


def _strike_inside(redaction: Redaction) -> Processor:
    """Strike out living secrets, and what stands under a telling key, at any depth; time, level and event go first."""

    def inside(value: Any) -> Any:
        if isinstance(value, str):
            return redaction.apply(value)
        if isinstance(value, Mapping):
            return {key: STRUCK if _tells(key, one) else inside(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [inside(one) for one in value]
        return value

    def strike(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        first = {key: event[key] for key in ("timestamp", "level", "event") if key in event}
        struck: EventDict = inside(first | dict(event))
        return struck

    return strike


def _tells(key: Any, value: Any) -> bool:
    return isinstance(key, str) and value is not None and SECRET_KEY.search(key) is not None


def _name_source(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A foreign line says where it comes from and keeps its words out of the event's name."""
    record = event.get("_record")
    source = record.name if isinstance(record, logging.LogRecord) else "unknown"
    event["words"] = event.get("event", "")
    event["event"] = f"library.{source}"
    return event
