"""What an agent is told by the operator: prompt, persona, role and skills, as texts that were read.

Where files are looked for belongs to `texts`, what their front matter means to `forms`, `@include` to `composition`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from tower.config.composition import Composed, Composition, Tested
from tower.config.files import real
from tower.config.forms import Role, SkillCard, names_file, persona_text, role_of, skill_of
from tower.config.inherit import Inherited, Origin
from tower.config.known import nearest
from tower.config.positions import KeyPath
from tower.config.problems import Findings, key_text
from tower.config.schema import AgentTable
from tower.config.tables import Checked, Tables
from tower.config.texts import Fault, Library, Text
from tower.core.factory import Position, Skill
from tower.core.prompts import Prompt, pieces

ROLES: Final = Path(__file__).with_name("roles")
"""Roles that come with the tower, one file each."""

BUILT_IN_ROLES: Final = tuple(sorted(path.stem for path in ROLES.glob("*.md")))
"""What may be written as a role instead of prose or a file."""

MAX_FLAGS_TRIED: Final = 8
"""So many flags have 256 settings; more than that in one prompt are not all tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The part of an agent that is text."""

    instructions: Prompt
    persona: str | None
    role: str | None
    """As it is told; None when it is the instructions and has no name."""
    description: str | None
    position: Position | None
    """What the role's file says of these two; None: nothing."""
    skills: tuple[Skill, ...]
    tested: tuple[Tested, ...]
    """Where the instructions test flags."""


class InstructionReader:
    """Reads what the agents of one factory are told; problems go to `findings`."""

    def __init__(self, tables: Tables, library: Library, findings: Findings) -> None:
        self._tables = tables
        self._library = library
        self._findings = findings
        self._composition = Composition(library)

    def read(self, name: str, checked: Checked[AgentTable], inherited: Inherited) -> Told | None:
        """What the agent `name` is told; None after a problem that leaves it without instructions."""
        persona = self._persona(name, inherited)
        role = self._role(name, checked.value.role)
        skills = self._skills(name, checked, inherited)
        composed = self._instructions(name, checked, role)
        if composed is None:
            return None
        file = role if isinstance(role, Role) else None
        return Told(
            instructions=composed.prompt,
            persona=persona,
            role=self._role_words(name, checked.value, role),
            description=file.description if file else None,
            position=file.position if file else None,
            skills=skills,
            tested=composed.tested,
        )

    def _instructions(self, name: str, checked: Checked[AgentTable], role: Role | str | None) -> Composed | None:
        table, path = checked.value, ("agents", name)
        if table.prompt is not None and table.prompt_file is not None:
            self._findings.error((*path, "prompt_file"), f"agent {name} has prompt as well", "keep one of the two")
            return None
        if table.prompt_file is not None:
            return self._prompt_file(table.prompt_file, (*path, "prompt_file"))
        if table.prompt is not None:
            if not table.prompt.strip():
                self._findings.error((*path, "prompt"), "says nothing", "write the agent's standing instructions")
                return None
            return self._composed((*path, "prompt"), self._composition.text(table.prompt))
        if isinstance(role, Role):
            source = Text(path=role.path, text=role.body)
            return self._composed((*path, "role"), self._composition.file(source))
        is_refused = table.role is not None and role is None
        if not is_refused and checked.unsound.isdisjoint({"prompt", "prompt_file", "role"}):
            self._findings.error(
                path, "has neither prompt nor prompt_file", "write one of the two, or a role that is a file or built in"
            )
        return None

    def _prompt_file(self, file: str, path: KeyPath) -> Composed | None:
        source = self._library.read(file)
        if isinstance(source, Fault):
            self._fault(path, source)
            return None
        if not source.text.strip():
            self._findings.error(path, f"names {file}, which says nothing", "write instructions into it")
            return None
        return self._composed(path, self._composition.file(source))

    def _composed(self, path: KeyPath, composed: Composed | tuple[Fault, ...]) -> Composed | None:
        if not isinstance(composed, Composed):
            for fault in composed:
                self._fault(path, fault)
            return None
        silent = _silent(composed.prompt)
        if silent is not None:
            when = f" when {silent}" if silent else ""
            self._findings.error(path, f"says nothing{when}", "write something that holds in every chain")
        return composed

    def _persona(self, name: str, inherited: Inherited) -> str | None:
        """A persona: the prose itself, or what its file comes to."""
        value: str | None = inherited.values["persona"]
        is_shared = inherited.origins["persona"] == Origin.DEFAULTS
        path: KeyPath = ("defaults", "persona") if is_shared else ("agents", name, "persona")
        if value is None or not names_file(value):
            return self._without_directives(path, value, None)
        source = self._library.read(value)
        if isinstance(source, Fault):
            self._fault(path, source)
            return None
        text = persona_text(source.text)
        if not text:
            self._findings.error(path, f"names {value}, which says nothing", "write something into it")
        self._without_directives(path, source.text, source.path)
        return text

    def _role(self, name: str, value: str | None) -> Role | str | None:
        """What a role names or says; None when it was refused, or is not there."""
        path: KeyPath = ("agents", name, "role")
        if value is None:
            return None
        if value not in BUILT_IN_ROLES and not names_file(value):
            hint = "" if " " in value.strip() else nearest(value, BUILT_IN_ROLES, "")
            if hint:
                self._findings.warning(path, f"{value!r} is taken as prose, since no built-in role has this name", hint)
            return value
        built_in = value in BUILT_IN_ROLES
        source = (
            self._library.built_in(ROLES / f"{value}.md") if built_in else self._library.read(value, built_in=ROLES)
        )
        role = source if isinstance(source, Fault) else role_of(source)
        if isinstance(role, Fault):
            self._fault(path, role)
            return None
        if not role.body:
            self._findings.error(path, f"names {value}, which says nothing", "write something into it")
            return None
        return role

    def _role_words(self, name: str, table: AgentTable, role: Role | str | None) -> str | None:
        """What is told as the role: prose, and of a file its name and, unless that is the instructions, its body."""
        path: KeyPath = ("agents", name, "role")
        if not isinstance(role, Role):
            return self._without_directives(path, role, None)
        if table.prompt is None and table.prompt_file is None:
            return role.name
        self._without_directives(path, role.body, role.path)
        return "\n\n".join(part for part in (role.name, role.body.strip()) if part)

    def _without_directives(self, path: KeyPath, text: str | None, file: Path | None) -> str | None:
        """The text; an `@include` in it is refused, since it would be told as it stands."""
        for piece in pieces(text or ""):
            if not isinstance(piece, str):
                hint = "write the text itself here, or move it into the prompt"
                self._fault(
                    path, Fault(sentence="@include is for prompts alone", hint=hint, path=file, line=piece.line)
                )
        return text

    def _skills(self, name: str, checked: Checked[AgentTable], inherited: Inherited) -> tuple[Skill, ...]:
        """The skills that are offered, those of `[defaults]` first."""
        skills: dict[str, Skill] = {}
        for folder, path in self._skill_folders(name, checked, inherited):
            source = self._library.read(f"{folder.rstrip('/')}/SKILL.md")
            card = source if isinstance(source, Fault) else skill_of(source)
            if isinstance(card, Fault):
                self._fault(path, card)
                continue
            self._check_tools(name, card, inherited, path)
            skill = Skill(name=card.name, description=card.description, path=str(card.path))
            other = skills.setdefault(skill.name, skill)
            if real(Path(other.path)) != real(card.path):
                self._findings.error(path, f"agent {name} has another skill {skill.name}, {other.path}", "rename one")
        return tuple(skills.values())

    def _check_tools(self, name: str, card: SkillCard, inherited: Inherited, path: KeyPath) -> None:
        tools = inherited.values["tools"]
        for tool in card.requires_tools:
            if tools is not None and tool not in tools:
                self._findings.error(
                    path,
                    f"skill {card.name} needs the tool {tool}, which the tools of agent {name} leave out",
                    f"add {tool} to its tools, or leave the skill out",
                )

    def _skill_folders(
        self, name: str, checked: Checked[AgentTable], inherited: Inherited
    ) -> Iterator[tuple[str, KeyPath]]:
        """Each folder with the place where it is written."""
        own, shared = checked.value.skills, self._tables.defaults.value.skills
        for folder in inherited.skills:
            path: KeyPath = (
                ("agents", name, "skills", own.index(folder))
                if folder in own
                else ("defaults", "skills", shared.index(folder))
            )
            yield folder, path

    def _fault(self, path: KeyPath, fault: Fault) -> None:
        if fault.path is not None:
            file = self._findings.shown(fault.path)
            line, column = (fault.line, fault.column) if fault.line else (0, 0)
            self._findings.add(file, line, column, key_text(path), fault.sentence, fault.hint, "error")
        elif fault.line:
            self._findings.inside(path, fault.line, "@include", fault.sentence, fault.hint)
        else:
            self._findings.error(path, fault.sentence, fault.hint)


def _silent(prompt: Prompt) -> str | None:
    """The flags, in words, with which a prompt says nothing ("" when it never does any); None when it always does."""
    if not prompt.flags:
        return None if prompt.text({}).strip() else ""
    flags = sorted(prompt.flags)[:MAX_FLAGS_TRIED]
    settings = [dict(zip(flags, values, strict=True)) for values in product((False, True), repeat=len(flags))]
    silent = [setting for setting in settings if not prompt.text(setting).strip()]
    if not silent:
        return None
    if len(silent) == len(settings):
        return ""
    return " and ".join(f"{flag} is {'on' if on else 'off'}" for flag, on in silent[0].items())
