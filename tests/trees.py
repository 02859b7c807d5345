"""Live trees for tests, made by a user's own git, and ways to see all that is in one."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
import subprocess
from pathlib import Path

POINTER = "printf 'version https://example.org/pointer\\nsize %s\\n' $(wc -c)"
"""A clean filter like that of LFS: what is recorded is a pointer to the content."""


class User:
    """Somebody with a home, a configuration and a git of their own."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        config = '[user]\nname=u\nemail=u@example.org\n[init]\ndefaultBranch=main\n[protocol "file"]\nallow=always\n'
        (home / ".gitconfig").write_text(config)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}

    def git(self, tree: Path, *args: str | bytes, check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=tree, env=self.env, capture_output=True, check=False)
        if check and done.returncode:
            raise AssertionError(f"git {args}: {done.stderr.decode()}")
        return os.fsdecode(done.stdout).rstrip("\n")

    def status(self, tree: Path) -> list[str]:
        return sorted(self.git(tree, "status", "-z", "--porcelain", "-uall", "--no-renames").split("\0"))

    def repository(self, tree: Path, files: dict[str, str] | None = None, *options: str) -> Path:
        """A new repository with one commit."""
        tree.mkdir(parents=True)
        self.git(tree, "init", "-q", *options)
        write(tree, files if files is not None else {"a.txt": "one\n", "sub/b.txt": "two\n"})
        self.commit(tree, "first")
        return tree

    def commit(self, tree: Path, message: str) -> str:
        self.git(tree, "add", "-A")
        self.git(tree, "commit", "-q", "--allow-empty", "-m", message)
        return self.git(tree, "rev-parse", "HEAD")


def write(tree: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def contents(tree: Path) -> dict[bytes, tuple[str, bytes]]:
    """Every file and link that is no part of a git directory: form (with the execute bit), and bytes or target."""
    found: dict[bytes, tuple[str, bytes]] = {}
    top = os.fsencode(tree)
    for folder, folders, files in os.walk(top):
        for name in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[os.path.relpath(path, top)] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode) and name != b".git":
                found[os.path.relpath(path, top)] = (
                    "program" if mode & 0o100 else "file",
                    Path(os.fsdecode(path)).read_bytes(),
                )
        folders[:] = [name for name in folders if name != b".git"]
    return found


def everything(tree: Path) -> dict[bytes, tuple[object, ...]]:
    """Every entry below, git directories included: mode, size, time of change, and what it holds."""
    found: dict[bytes, tuple[object, ...]] = {}
    top = os.fsencode(tree)
    for folder, folders, files in os.walk(top):
        for name in [b".", *folders, *files]:
            path = os.path.join(folder, name)
            seen = os.lstat(path)
            inside: object = None
            if stat.S_ISLNK(seen.st_mode):
                inside = os.readlink(path)
            elif stat.S_ISREG(seen.st_mode):
                inside = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
            found[path] = (seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_nlink, inside)
    return found


def nasty(user: User, tree: Path) -> Path:
    """A repository with everything that ways of copying one are known to lose."""
    git = user.git
    library = user.repository(tree.parent / "library", {"lib.txt": "lib\n", "gone.txt": "x\n", "deep/l.txt": "l\n"})
    user.repository(
        tree,
        {
            ".gitattributes": "*.bat text eol=crlf\n*.u16 working-tree-encoding=UTF-16LE\n*.id ident\n"
            "*.big filter=pointer\n*.rot filter=upper\nsecret.txt export-ignore\nver.txt export-subst\n",
            ".gitignore": "*.log\n/build/\n.env\n",
            "secret.txt": "s\n",
            "ver.txt": "$Format:%H$\n",
            "run.sh": "#!/bin/sh\n",
            "plain.txt": "plain\n",
            "both.txt": "0\n",
            "staged.txt": "0\n",
            "deleted.txt": "0\n",
            "unstaged-deleted.txt": "0\n",
            "to-folder": "0\n",
            "to-file/inner.txt": "0\n",
            "to-link/inner.txt": "0\n",
            "to-pipe.txt": "0\n",
            "becomes-link.txt": "0\n",
            "mode.sh": "#!/bin/sh\n",
            "space é and ünï.txt": "u\n",
            "-dash.txt": "d\n",
            "star*.txt": "*\n",
            'quote".txt': "q\n",
        },
    )
    (tree / "run.sh").chmod(0o755)
    (tree / "empty.txt").touch()
    (tree / "binary.dat").write_bytes(bytes(range(256)) * 20)
    (tree / "link").symlink_to("plain.txt")
    (tree / "dangling").symlink_to("nowhere/at all")
    (tree / "absolute").symlink_to("/etc/hostname")
    (tree / "to-a-folder").symlink_to("to-link")
    (tree / "line\nbreak.txt").write_text("n\n")
    Path(os.fsdecode(os.fsencode(tree) + b"/caf\xe9.txt")).write_text("latin-1\n")
    # What stands on disk is not what is recorded: by filters, line endings, an encoding, autocrlf.
    git(tree, "config", "filter.pointer.clean", POINTER)
    git(tree, "config", "filter.upper.clean", "tr a-z A-Z")
    git(tree, "config", "core.autocrlf", "input")
    (tree / "film.big").write_bytes(b"\x00real content" * 50)
    (tree / "same-size.rot").write_text("lower case\n")
    (tree / "dos.bat").write_bytes(b"echo 1\r\necho 2\r\n")
    (tree / "wide.u16").write_bytes("wïde\n".encode("utf-16-le"))
    (tree / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (tree / "name.id").write_text("$Id$\n")
    for name in ("film.big", "same-size.rot", "crlf.txt"):
        # As if made before the index was written: in the same second git would compare their contents.
        os.utime(tree / name, (1_000_000_000, 1_000_000_000))
    git(tree, "submodule", "-q", "add", str(library), "sub/module")
    git(tree, "submodule", "-q", "add", str(library), "sub/unfilled")
    git(tree, "submodule", "-q", "add", str(library), "sub/plain")
    user.commit(tree, "second")
    (tree / "name.id").unlink()
    git(tree, "checkout", "--", "name.id")
    git(tree, "submodule", "-q", "deinit", "-f", "sub/unfilled")
    _disturb(user, tree)
    return tree


def _disturb(user: User, tree: Path) -> None:
    """All kinds of uncommitted work, a merge under way among them."""
    git = user.git
    git(tree, "checkout", "-q", "-b", "other")
    write(tree, {"plain.txt": "theirs\n"})
    git(tree, "commit", "-qam", "theirs")
    git(tree, "checkout", "-q", "main")
    write(tree, {"plain.txt": "ours\n"})
    git(tree, "commit", "-qam", "ours")
    git(tree, "merge", "-q", "other", check=False)
    write(tree, {"staged.txt": "1\n", "both.txt": "1\n", "added.txt": "1\n", "added-then-edited.txt": "1\n"})
    git(tree, "add", "staged.txt", "both.txt", "added.txt", "added-then-edited.txt")
    git(tree, "rm", "-q", "deleted.txt")
    write(
        tree, {"both.txt": "2\n", "added-then-edited.txt": "22\n", "untracked/deep/u.txt": "u\n", "intended.txt": "i\n"}
    )
    git(tree, "add", "-N", "intended.txt")
    write(tree, {"noise.log": "ignored\n", "build/out.o": "ignored\n", ".env": "KEY=secret\n"})
    write(tree, {"git~1": "a name that git takes for something else on other systems\n"})
    (tree / "build/link").symlink_to("out.o")
    (tree / "unstaged-deleted.txt").unlink()
    (tree / "mode.sh").chmod(0o755)
    (tree / "to-folder").unlink()
    write(tree, {"to-folder/now.txt": "folder\n"})
    shutil.rmtree(tree / "to-file")
    write(tree, {"to-file": "file\n"})
    (tree / "to-link").rename(tree / "untracked/moved")
    (tree / "to-link").symlink_to("untracked/moved")
    (tree / "becomes-link.txt").unlink()
    (tree / "becomes-link.txt").symlink_to("plain.txt")
    (tree / "hollow/empty").mkdir(parents=True)
    module = tree / "sub/module"
    write(module, {"lib.txt": "edited in the submodule\n", "new.txt": "untracked in the submodule\n"})
    (module / "gone.txt").unlink()
    (tree / "sub/plain/.git").unlink()
    nested = user.repository(tree / "nested/repo", {"n.txt": "n\n", ".gitignore": "*.tmp\n"})
    write(nested, {"n.txt": "edited\n", "x.tmp": "ignored\n"})
    (tree / "nested/unborn").mkdir()
    git(tree / "nested/unborn", "init", "-q")
    write(tree / "nested/unborn", {"only.txt": "o\n"})
    (tree / ".git/index.lock").touch()


def add_special(tree: Path) -> None:
    """A pipe in the place of a tracked file, another one, and a socket."""
    (tree / "to-pipe.txt").unlink()
    os.mkfifo(tree / "to-pipe.txt")
    os.mkfifo(tree / "pipe")
    before = Path.cwd()
    os.chdir(tree)  # a socket's path has 107 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind("door")
    finally:
        os.chdir(before)


MARKER = "EXECUTED"


def make_hostile(tree: Path) -> Path:
    """Let everything in a repository's configuration that git would execute leave a mark; returns where."""
    marker = tree.parent / MARKER
    script = tree.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{marker}'\ncat\n")
    script.chmod(0o755)
    lines = [f"[core]\nfsmonitor = {script}\nsshCommand = {script}\npager = {script}\neditor = {script}\n"]
    lines.append(f"askPass = {script}\ngitProxy = {script}\nalternateRefsCommand = {script}\n")
    lines += [
        f'[filter "{name}"]\nclean = {script}\nsmudge = {script}\nprocess = {script}\nrequired = true\n'
        for name in ("pointer", "upper", "evil")
    ]
    lines.append(f'[diff]\nexternal = {script}\n[diff "evil"]\ntextconv = {script}\ncommand = {script}\n')
    lines.append(f"[gpg]\nprogram = {script}\n[log]\nshowSignature = true\n[commit]\ngpgSign = true\n")
    lines += [f"[alias]\n{verb} = !{script}\n" for verb in ("status", "ls-files", "update-index", "write-tree")]
    lines.append(f"[credential]\nhelper = {script}\n[include]\npath = {tree.parent}/more.conf\n")
    (tree.parent / "more.conf").write_text(f"[core]\nfsmonitor = {script}\nworktree = {tree.parent}\n")
    for git_dir in tree.rglob("config"):
        if (git_dir.parent / "HEAD").exists():
            git_dir.write_text(git_dir.read_text() + "".join(lines))
            for hook in (
                "post-index-change",
                "post-checkout",
                "pre-commit",
                "reference-transaction",
                "fsmonitor-watchman",
            ):
                (git_dir.parent / "hooks").mkdir(exist_ok=True)
                (git_dir.parent / "hooks" / hook).write_text(script.read_text())
                (git_dir.parent / "hooks" / hook).chmod(0o755)
    with (tree / ".git/info/attributes").open("a") as file:
        file.write("* filter=evil diff=evil\n")
    return marker
