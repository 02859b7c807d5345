"""Factories written from templates: for `init`, which keeps one, and for `demo`, which throws it away."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tower.core.errors import ConflictError, TowerError
from tower.system.git import git

TEMPLATES: Final = Path(__file__).with_name("templates")

_AUTHOR: Final = ("-c", "user.name=tower", "-c", "user.email=tower@localhost")
"""Of a first commit; whose repository it is, is for its owner to say."""


def files(template: str) -> list[str]:
    """Names of a template's files, relative to its folder, sorted."""
    root = TEMPLATES / template
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def write(template: str, names: list[str], folder: Path, values: Mapping[str, str]) -> None:
    """Write files of a template into `folder`, each `@NAME@` replaced.

    Raises `ConflictError` before anything is written when one of them is there, and `TowerError` when the folder
    cannot be written to.
    """
    taken = [name for name in names if (folder / name).exists() or (folder / name).is_symlink()]
    if taken:
        raise ConflictError(
            "exists", f"cannot write into {folder}: it has {', '.join(taken)} already", "give another folder or name"
        )
    try:
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(_filled((TEMPLATES / template / name).read_text(encoding="utf-8"), values))
            if name.endswith(".sh"):
                path.chmod(0o755)
    except OSError as error:
        raise TowerError("unwritable", f"cannot write into {folder}: {error.strerror}") from error


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub("@([A-Z_]+)@", lambda found: values.get(found[1], found[0]), text)


def toml_text(text: str | Path) -> str:
    """A TOML string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def make_repository(folder: Path, message: str) -> None:
    """A git repository in `folder` with everything in it committed. Raises `TowerError` when git cannot."""
    git_dir, work_tree = str(folder / ".git"), str(folder)
    for args in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*_AUTHOR, "commit", "--quiet", "--no-gpg-sign", f"--message={message}"],
    ):
        git(args, git_dir=git_dir, work_tree=work_tree)
