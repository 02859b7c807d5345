"""What a run was given is masked from its start to its end, by the tower that started it and by each later one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tower.core.records import Process
from tower.core.residence import remembered
from tower.engine import secrecy
from tower.engine.tower import Resident

from .scripted import Scene, agent

pytestmark = pytest.mark.anyio

NEEDS = agent("coder", env_from={"API_KEY": "agents.coder.env_from"})


async def test_a_run_found_alive_is_masked_by_what_the_tower_has_itself(scene: Scene) -> None:
    async with scene.tower(NEEDS, environ={"API_KEY": "hush-4711-hush"}) as tower:
        flight = await scene.send("coder")
        assert tower.redaction.apply("hush-4711-hush") == "[masked]"
    async with scene.tower(NEEDS, environ={"API_KEY": "hush-4711-hush"}) as tower:
        assert tower.redaction.apply("hush-4711-hush") == "[masked]"
        await (await scene.keeper(flight)).exits(0)
        assert tower.redaction.apply("hush-4711-hush") == "hush-4711-hush"


async def test_two_runs_with_one_secret_end_one_after_the_other(scene: Scene) -> None:
    async with scene.tower(NEEDS, environ={"API_KEY": "hush-4711-hush"}) as tower:
        one, two = await scene.send("coder"), await scene.send("coder")
        await (await scene.keeper(one)).exits(0)
        assert tower.redaction.apply("hush-4711-hush") == "[masked]"
        await (await scene.keeper(two)).exits(0)
        assert tower.redaction.apply("hush-4711-hush") == "hush-4711-hush"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process below this one, which stands for a keeper, with the environment of a run of an earlier tower."""
    given = {
        "LAYOVER_RUN_ID": "run_1",
        "LAYOVER_RUN_TOKEN": "token-of-the-run",
        "OLD_KEY": "old-0815-old",
        "OPEN": "seen",
    }
    with subprocess.Popen(["sleep", "60"], env=given | {"PATH": os.environ["PATH"]}) as process:
        yield process
        process.kill()


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(
    ("written", "masked"),
    [
        ('{"forwarded": ["OLD_KEY", "PATH", 7]}', True),
        ("{}", False),
        ('{"forwarded": 7}', False),
        ("[" * 100_000, False),
        ("no JSON", False),
        (None, False),
    ],
)
async def test_what_its_processes_have_is_masked_by_the_names_in_its_folder(
    scene: Scene, tmp_path: Path, written: str | None, masked: bool
) -> None:
    if written is not None:
        (tmp_path / secrecy.ARGV).write_text(written)
    process = Process(id="run_1", agent="gone", folder=str(tmp_path), created_at=0.0)
    async with scene.tower(agent("coder")) as tower:
        resident = Resident(name="gone", residence=remembered([], 0.0, quarantined=None))
        await secrecy.keep_found(tower, resident, None, None, process, os.getpid())
        assert (tower.redaction.apply("old-0815-old") == "[masked]") is masked
        assert tower.redaction.apply("token-of-the-run") == "[masked]"
        assert tower.redaction.apply(f"seen {os.environ['PATH']}") == f"seen {os.environ['PATH']}"
