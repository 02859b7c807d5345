"""The forms of persona, role and skill files: which part of the text is used, and what its front matter says.

Pure, over texts that `texts` has read. Who is given what is left to `instructions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from tower.config.texts import Fault, Text
from tower.core.factory import Position

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_MAX_FRONT_MATTER: Final = 4096
"""Characters: a few short keys; a YAML reader is slow, and this one reads what anybody wrote."""

_PERSONA_SECTIONS: Final = ("persona", "background", "communication style")
_ROLE_KEYS: Final = frozenset({"name", "position", "description"})
_NO_YAML: Final = ("has front matter that is not YAML", 'write "key: value" lines')
_SKILL_EXAMPLE: Final = 'begin it with lines "---", "name: NAME", "description: WHEN TO USE IT", "---"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a role file says."""

    path: Path
    body: str
    """With as many lines before it as stand there in the file."""
    name: str | None = None
    description: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCard:
    """The front matter of a `SKILL.md`."""

    path: Path
    name: str
    description: str
    requires_tools: tuple[str, ...] = ()


def names_file(value: str) -> bool:
    """Whether a persona or role is the name of a file: one line that ends in `.md`. Anything else is prose."""
    return value.endswith(".md") and "\n" not in value


def persona_text(text: str) -> str:
    """The persona that a file describes: its sections Persona, Background and Communication Style, else all of it.

    A first line `# Persona: NAME` is kept. Sections without a word are left out.
    """
    head, *sections = re.split(r"^##[ \t]+(?=\S)", text, flags=re.MULTILINE)
    known = [part for part in sections if part.split("\n", 1)[0].strip().lower() in _PERSONA_SECTIONS]
    if not known:
        return text.strip()
    kept = [f"## {part.strip()}" for part in known if "".join(part.split("\n", 1)[1:]).strip()]
    title = head.split("\n", 1)[0].strip()
    if kept and re.match(r"# Persona:", title, re.IGNORECASE):
        kept.insert(0, title)
    return "\n\n".join(kept)


def role_of(source: Text) -> Role | Fault:
    """A role file: its body, and front matter that may say `name`, `description` and `position`."""
    found = _FRONT_MATTER.match(source.text)
    if found is None:
        return Role(path=source.path, body=source.text if source.text.strip() else "")
    front = _front_matter(found[1], source)
    if isinstance(front, Fault):
        return front
    unknown = next((key for key in front if key not in _ROLE_KEYS), None)
    if unknown is not None:
        return _fault(
            source, f"has unknown front matter, {unknown}", f"use only {', '.join(sorted(_ROLE_KEYS))}", unknown
        )
    position = front.get("position")
    if position is not None and position not in set(Position):
        return _fault(
            source, "has an unknown position", "write participant or orchestrator, or remove position", "position"
        )
    body = "\n" * found[0].count("\n") + source.text[found.end() :]
    return Role(
        path=source.path,
        body=body if body.strip() else "",
        name=front.get("name"),
        description=front.get("description"),
        position=Position(position) if position is not None else None,
    )


def skill_of(source: Text) -> SkillCard | Fault:
    """What a `SKILL.md` says of itself. Keys that other programs know are left to them."""
    found = _FRONT_MATTER.match(source.text)
    if found is None:
        return _fault(source, "has no front matter", _SKILL_EXAMPLE)
    front = _front_matter(found[1], source)
    if isinstance(front, Fault):
        return front
    name, description, tools = front.get("name"), front.get("description"), front.get("requires-tools") or ()
    folder = source.path.parent.name
    if name != folder:
        words = f"is the skill {name!r} in a folder {folder!r}" if name else f"has no name, in a folder {folder!r}"
        return _fault(source, words, f"write name: {folder}, or rename the folder", "name")
    if not description:
        return _fault(source, "has no description", _SKILL_EXAMPLE)
    if not isinstance(tools, list | tuple) or not all(isinstance(tool, str) for tool in tools):
        return _fault(
            source,
            "has requires-tools that are no list of names",
            "write requires-tools: [NAME, NAME]",
            "requires-tools",
        )
    return SkillCard(path=source.path, name=folder, description=description, requires_tools=tuple(tools))


def _front_matter(block: str, source: Text) -> dict[str, Any] | Fault:
    """The keys of a front matter, blank ones left out; those that hold text hold nothing else."""
    if len(block) > _MAX_FRONT_MATTER:
        return _fault(source, "has front matter that is too long", "move it below")
    try:
        front: Any = yaml.safe_load(block) or {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        return replace(_fault(source, *_NO_YAML), line=line)
    except (yaml.YAMLError, ValueError, RecursionError):
        return _fault(source, *_NO_YAML)
    if not isinstance(front, dict) or not all(isinstance(key, str) for key in front):
        return _fault(source, "has unknown front matter", 'write "key: value" lines')
    for key in _ROLE_KEYS & front.keys():
        if front[key] is not None and not isinstance(front[key], str):
            return _fault(source, f"has a {key} that is no text", f'write {key}: "TEXT"', key)
    return {key: value for key, value in front.items() if value not in (None, "")}


def _fault(source: Text, sentence: str, hint: str, key: str = "") -> Fault:
    """Something wrong with a file: at the line of a key of its front matter, else at its beginning."""
    lines = source.text.split("\n")
    line = next((number for number, line in enumerate(lines, 1) if key and line.startswith(f"{key}:")), 1)
    return Fault(sentence=sentence, hint=hint, path=source.path, line=line)
