"""The one way in: a path, and the factory that stands there or everything that is wrong with it.

Owns the order of the steps. Nothing that a person can write into the file or do to it makes `load` raise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tower.config import money
from tower.config.agents import AgentReader
from tower.config.asked import check_choices
from tower.config.chains import check_flags, check_orchestrators
from tower.config.checks import check_git, check_slots, check_ways_in
from tower.config.document import parse, refuse_depth
from tower.config.files import MAX_CONFIG_BYTES, Unreadable, is_folder, read_text, real, watch_folders
from tower.config.includes import include
from tower.config.layout import resolve_settings
from tower.config.naming import check_named_tools
from tower.config.overrides import overridden
from tower.config.places import WorkTrees
from tower.config.positions import KeyPath
from tower.config.problems import Findings, Problem
from tower.config.reaching import check_reach
from tower.config.routes import read_pipelines, read_routes
from tower.config.runners import Runners
from tower.config.sources import Source, Sources
from tower.config.tables import read_layover, read_tables
from tower.config.texts import Library
from tower.config.variables import check_variables
from tower.config.writers import check_writers
from tower.core.costs import parse as micros
from tower.core.factory import Factory

FILE_NAME: Final = "layover.toml"
"""Looked for when a folder is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What came of one look at a configuration."""

    factory: Factory | None
    """None when any problem is an error."""
    problems: tuple[Problem, ...]
    """By position; without an error they are warnings about the factory."""
    watched: frozenset[Path]
    """Existing folders in which a change may change the outcome: of the file, and of every text it names."""


def load(path: Path, *, environ: Mapping[str, str]) -> Loaded:
    """Read, resolve and check a configuration file, or the `layover.toml` in a folder.

    `environ` is the tower's environment: overrides, systemd's folders, and whether declared variables are set.
    Raises nothing.
    """
    named = path / FILE_NAME if is_folder(path) else path
    try:
        file = _absolute(named)
        watched = watch_folders(file)
    except (OSError, ValueError) as error:
        return _unreadable(
            str(named), Unreadable(sentence=f"cannot be found: {error}", hint="name it by its whole path")
        )
    text = read_text(file, MAX_CONFIG_BYTES)
    if isinstance(text, Unreadable):
        return _unreadable(str(named), text, watched)
    variables: dict[KeyPath, str] = {("layover", key): variable for key, variable in overridden(environ).items()}
    main = Source(file=str(named), text=text)
    findings = Findings(Sources(main), file.parent, variables)
    document = parse(main, findings)
    if document is None:
        return Loaded(factory=None, problems=findings.sorted(), watched=watched)
    factory, others = _read(document, file, environ, findings)
    if findings.has_errors:
        for source in findings.sources.all:
            refuse_depth(source, findings)
    return Loaded(
        factory=None if findings.has_errors else factory,
        problems=findings.sorted(),
        watched=watched | others,
    )


def _read(
    document: dict[str, Any], file: Path, environ: Mapping[str, str], findings: Findings
) -> tuple[Factory | None, frozenset[Path]]:
    """The factory as far as it can be made, and the folders of its texts and included files."""
    folder = file.parent
    layover = read_layover(document, environ, findings)
    included = include(layover.value.include, document, folder, file, findings)
    tables = read_tables(document, layover, findings)
    if not included.complete:
        return None, frozenset(included.watched)
    settings = resolve_settings(tables.layover, tables.defaults, folder, environ, findings)
    library = Library(folder=folder, prompt_dir=Path(settings.prompt_dir))
    runners = Runners(tables, folder, findings)
    reader = AgentReader(
        tables=tables,
        runners=runners,
        library=library,
        work_trees=WorkTrees(tables, settings, folder, findings),
        findings=findings,
    )
    agents = reader.read()
    check_variables(tables, environ, findings)
    check_git(tables, environ, findings)
    routes = read_routes(tables, findings)
    pipelines = read_pipelines(tables, findings)
    check_ways_in(tables, findings)
    factory = Factory(
        path=str(file),
        digest=_digest(
            *(source.text for source in findings.sources.all),
            *(source.text for source in library.texts),
        ),
        settings=settings,
        agents=agents,
        runners=runners.found,
        routes=routes,
        pipelines=pipelines,
        reserve=money.reserve(tables),
        rates=money.rates(tables),
        per_credit=micros(tables.copilot.value.usd_per_credit),
    )
    if agents.keys() == tables.agent_names:
        check_flags(factory, reader.tested, findings)
        check_orchestrators(factory, findings)
        check_named_tools(factory, tables, library, findings)
    if not findings.has_errors:
        check_reach(factory, tables, findings)
        check_choices(factory, findings)
        check_writers(factory, tables, findings)
        money.check_money(factory, tables, findings)
        check_slots(agents, settings.max_concurrent_runs, findings)
    return factory, frozenset(included.watched | library.watched)


def _absolute(path: Path) -> Path:
    """The path from the root. Its `..` are followed as the system would; a symlink as the file itself is kept."""
    absolute = path.absolute()
    return real(absolute.parent) / absolute.name if ".." in absolute.parts else absolute


def _unreadable(file: str, why: Unreadable, watched: frozenset[Path] = frozenset()) -> Loaded:
    hint = why.hint
    if why.sentence == "does not exist":
        hint = "`tower init` writes one that runs at once; --config or TOWER_CONFIG names another"
    problem = Problem(file=file, line=why.line, column=why.column, key="", sentence=why.sentence, hint=hint)
    return Loaded(factory=None, problems=(problem,), watched=watched)


def _digest(*texts: str) -> str:
    """SHA-256 over the texts, each with its length, so that no two lists of texts look alike."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()
