"""Every way in which an editor, a person or a cluster changes a file must be seen, whatever the system grants."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from tower.system import watch
from tower.system.watch import changes, folders_around

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "QUIET_MS", 10)
    monkeypatch.setattr(watch, "LOOK_MS", 50)
    monkeypatch.setattr(watch, "POLL_SEC", 0.03)


class Seen:
    """What a watcher in the background has seen so far."""

    def __init__(self) -> None:
        self.count = 0
        self.reports: list[str | None] = []
        self._news = anyio.Event()

    def add(self) -> None:
        self.count += 1
        self._news.set()

    async def after(self, change: Callable[[], object]) -> None:
        """Make a change and wait until something was seen after it."""
        await self.quiet()
        before = self.count
        change()
        await self.more_than(before)

    async def more_than(self, count: int) -> None:
        with anyio.fail_after(2):
            while self.count <= count:
                self._news = anyio.Event()
                await self._news.wait()

    async def quiet(self) -> None:
        """Wait until what was done before has been told."""
        while True:
            before = self.count
            await anyio.sleep(0.1)
            if self.count == before:
                return


@asynccontextmanager
async def watching(*folders: Path) -> AsyncIterator[Seen]:
    async with watching_what(lambda: frozenset(folders)) as seen:
        yield seen


@asynccontextmanager
async def watching_what(folders: Callable[[], frozenset[Path]]) -> AsyncIterator[Seen]:
    seen = Seen()

    async def follow() -> None:
        async with aclosing(changes(folders, report=seen.reports.append)) as news:
            async for _ in news:
                seen.add()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await seen.more_than(0)
        yield seen
        tasks.cancel_scope.cancel()


def by_rename(path: Path, text: str) -> None:
    scratch = path.with_suffix(".tmp")
    scratch.write_text(text)
    scratch.rename(path)


def by_backup(path: Path, text: str) -> None:
    """As vim does: the old file is moved away, a new one is written."""
    path.rename(path.with_name(path.name + "~"))
    path.write_text(text)


def in_place(path: Path, text: str) -> None:
    with path.open("r+") as file:
        file.write(text)
        file.truncate()


def by_sed(path: Path, text: str) -> None:
    subprocess.run(["sed", "-i", f"1s/.*/{text}/", path], check=True)


@pytest.mark.parametrize("save", [by_rename, by_backup, in_place, by_sed])
async def test_every_save_of_an_editor_is_seen(tmp_path: Path, save: Callable[[Path, str], None]) -> None:
    """B059."""
    path = tmp_path / "layover.toml"
    path.write_text("one\n")
    async with watching(tmp_path) as seen:
        for number in range(4):
            await seen.after(lambda number=number: save(path, f"number {number}"))
    assert seen.reports == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_it_works_on_the_other_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watching(tmp_path) as seen:
        await seen.after(lambda: (tmp_path / "layover.toml").write_text("x"))
    monkeypatch.setattr(watch, "watch", _refuse)
    async with watching(tmp_path) as seen:
        await seen.after(lambda: (tmp_path / "layover.toml").write_text("xx"))


async def test_what_changed_before_the_watch_stood_is_looked_at(tmp_path: Path) -> None:
    async with watching(tmp_path) as seen:
        assert seen.count == 1


async def test_a_burst_is_one_change(tmp_path: Path) -> None:
    async with watching(tmp_path) as seen:
        await seen.quiet()
        before = seen.count
        for number in range(50):
            (tmp_path / "layover.toml").write_text(str(number))
        await seen.more_than(before)
        await seen.quiet()
        assert seen.count - before <= 3


async def test_nothing_below_the_folder_matters(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    async with watching(tmp_path) as seen:
        await seen.quiet()
        before = seen.count
        (tmp_path / "below" / "noise").write_text("x")
        await seen.quiet()
        assert seen.count == before


async def test_a_folder_that_vanishes_and_returns(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    async with watching(folder, tmp_path / "never") as seen:
        await seen.after(lambda: shutil.rmtree(folder))
        await seen.after(folder.mkdir)
        await seen.after(lambda: (folder / "layover.toml").write_text("new"))


async def test_a_folder_that_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()

    def replace() -> None:
        folder.rename(tmp_path / "old")
        folder.mkdir()

    async with watching(folder) as seen:
        await seen.after(replace)
        await seen.after(lambda: (folder / "layover.toml").write_text("new"))


def config_map(root: Path) -> Path:
    """As a cluster mounts one: the file is a link into `..data`, which is a link to the present version."""
    for version in ("1", "2"):
        (root / f"..{version}").mkdir()
        (root / f"..{version}" / "layover.toml").write_text(version)
    (root / "..data").symlink_to("..1")
    (root / "layover.toml").symlink_to("..data/layover.toml")
    return root / "layover.toml"


def swap(link: Path, target: str) -> None:
    fresh = link.with_name(link.name + "_tmp")
    fresh.symlink_to(target)
    fresh.rename(link)


async def test_a_config_map_that_is_swapped(tmp_path: Path) -> None:
    path = config_map(tmp_path)
    async with watching(*folders_around([path])) as seen:
        await seen.after(lambda: swap(tmp_path / "..data", "..2"))
        assert path.read_text() == "2"


async def test_folders_may_be_added_while_it_watches(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    folders = {tmp_path}
    async with watching_what(lambda: frozenset(folders)) as seen:
        await seen.after(lambda: folders.add(prompts))
        await seen.after(lambda: (prompts / "coder.md").write_text("x"))


async def test_it_ends_at_once_when_it_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    folders = {tmp_path / "a"}
    async with watching_what(lambda: frozenset(folders)) as seen:
        monkeypatch.setattr(watch, "LOOK_MS", 20_000)
        await seen.after(lambda: folders.add(tmp_path / "b"))
        await anyio.sleep(0.1)  # armed anew, for the longer look
        began = anyio.current_time()
    assert anyio.current_time() - began < 1


@pytest.fixture
def _no_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "watch", _refuse)


def _refuse(*_: object, **__: object) -> None:
    raise OSError("OS file watch limit reached.")


@pytest.mark.usefixtures("_no_inotify")
@pytest.mark.parametrize("save", [by_rename, by_backup, in_place])
async def test_without_watches_the_folders_are_listed(tmp_path: Path, save: Callable[[Path, str], None]) -> None:
    """B066: as where the limit of inotify is used up."""
    path = tmp_path / "layover.toml"
    path.write_text("one\n")
    async with watching(tmp_path) as seen:
        for number in range(3):
            await seen.after(lambda number=number: save(path, f"number {number}"))
    (told,) = seen.reports
    assert told is not None
    assert told.startswith("cannot watch the configuration by inotify (OS file watch limit reached.)")


@pytest.mark.usefixtures("_no_inotify")
async def test_listing_sees_links_that_swap_and_folders_that_go(tmp_path: Path) -> None:
    path = config_map(tmp_path)
    async with watching(*folders_around([path]), tmp_path / "late") as seen:
        await seen.after(lambda: swap(tmp_path / "..data", "..2"))
        await seen.after((tmp_path / "late").mkdir)
        await seen.after(lambda: (tmp_path / "late" / "x").touch())
        await seen.after(lambda: (tmp_path / "dangling").symlink_to("nowhere"))


@pytest.mark.usefixtures("_no_inotify")
async def test_a_folder_that_never_settles_is_looked_at_nevertheless(tmp_path: Path) -> None:
    async with watching(tmp_path) as seen:
        await seen.quiet()
        before = seen.count
        with anyio.fail_after(5):
            number = 0
            while seen.count < before + 2:
                number += 1
                (tmp_path / "noise").write_text("x" * number)
                await anyio.sleep(0.01)


async def test_watches_are_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = watch.watch
    monkeypatch.setattr(watch, "RETRY_POLLS", 2)
    refusals = iter([True, True])

    def reluctant(*paths: Path, **options: object) -> object:
        if next(refusals, False):
            raise RuntimeError("Error creating recommended watcher: Too many open files (os error 24)")
        return real(*paths, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(watch, "watch", reluctant)
    async with watching(tmp_path) as seen:
        with anyio.fail_after(5):
            while None not in seen.reports:
                await seen.more_than(seen.count)
        assert len(seen.reports) == 2
        await seen.after(lambda: (tmp_path / "layover.toml").write_text("x"))


WATCH_ONCE = """
import sys
from pathlib import Path
import anyio
from tower.system import watch
watch.POLL_SEC = 0.05
async def main():
    folder = Path(sys.argv[1])
    seen = 0
    with anyio.fail_after(10):
        async for _ in watch.changes(lambda: frozenset({folder}), report=print):
            seen += 1
            if seen == 1:
                (folder / "layover.toml").write_text("x")
            else:
                break
    print("seen")
anyio.run(main)
"""


def may_make_namespaces() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not may_make_namespaces(), reason="limits of its own need a user namespace")
@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_the_real_limits(tmp_path: Path, limit: str) -> None:
    """B066."""
    script = f'echo 0 > /proc/sys/user/{limit} && exec "$@"'
    argv = ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-c", WATCH_ONCE, str(tmp_path)]
    shown = subprocess.run(argv, capture_output=True, text=True)
    told, end = shown.stdout.splitlines()
    assert told.startswith("cannot watch the configuration by inotify"), shown.stderr
    assert end == "seen"


def test_folders_around_plain_files(tmp_path: Path) -> None:
    found = folders_around([tmp_path / "layover.toml", tmp_path / "prompts" / "missing.md"])
    assert found == {tmp_path, tmp_path / "prompts"}


def test_folders_around_links(tmp_path: Path) -> None:
    root = tmp_path / "etc"
    root.mkdir()
    path = config_map(root)
    assert folders_around([path]) == {root, root / "..1"}
    (tmp_path / "current").symlink_to("etc")
    assert folders_around([tmp_path / "current" / "layover.toml"]) == {tmp_path, root, root / "..1"}
    away = tmp_path / "opt"
    away.mkdir()
    (away / "shared.toml").touch()
    (root / "link.toml").symlink_to("../opt/../opt/shared.toml")
    assert folders_around([root / "link.toml"]) == {root, away}


def test_folders_around_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert folders_around([Path("layover.toml"), Path("a/b.md")]) == {tmp_path, tmp_path / "a"}


def test_a_link_that_leads_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert tmp_path in folders_around([tmp_path / "a", tmp_path / "b" / "layover.toml"])


def test_one_watch_is_enough_for_a_folder_full_of_folders(tmp_path: Path) -> None:
    """Counted by the kernel: each watch is a line of its descriptor's info."""
    for number in range(50):
        (tmp_path / f"sub{number}").mkdir()
    code = """
import os, sys
from pathlib import Path
import anyio
from tower.system.watch import changes
async def main():
    async for _ in changes(lambda: frozenset({Path(sys.argv[1])})):
        infos = [Path("/proc/self/fdinfo", entry) for entry in os.listdir("/proc/self/fdinfo")]
        print(sum(info.read_text().count("inotify wd") for info in infos if info.exists()))
        break
anyio.run(main)
"""
    shown = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert shown.stdout == "1\n", shown.stderr
