"""The end of a resident's process: what counts against it, and what is left in its folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tower.core.ids import PROCESS
from tower.core.launch import KEEPER_PROTOCOL
from tower.core.records import RESIDENT_PROCESS, Process
from tower.core.residence import Residence, ResidentState
from tower.engine.resident_end import write_end
from tower.engine.tower import Resident, Tower
from tower.store import runs
from tower.system.keeper.records import create_start, encode, exit_fields
from tower.system.procfs import boot_id

from .scripted import NOBODY, Scene, agent, idle, later, opened

pytestmark = pytest.mark.anyio

STAYS = agent("stays")
STARTING = Residence(state=ResidentState.STARTING)


async def resident_of(tower: Tower, residence: Residence = STARTING) -> Resident:
    """A resident whose process has its record and its folder."""
    identity = tower.new_id(PROCESS)
    folder = tower.state.run_folder("stays", identity)
    (folder / "tmp").mkdir(parents=True)
    process = Process(id=identity, agent="stays", folder=str(folder), created_at=tower.clock(), kind=RESIDENT_PROCESS)
    await tower.store.write(partial(runs.insert_process, process=process))
    return Resident(name="stays", residence=residence, process=process)


def makes_start(folder: Path) -> None:
    with opened(folder) as descriptor:
        create_start(descriptor, void=False, pid=NOBODY, ticks=1, boot_id=boot_id(), protocol=KEEPER_PROTOCOL)


@pytest.mark.parametrize(
    ("is_made", "start_error", "residence", "counts"),
    [
        (False, "exec: EAGAIN no room", STARTING, False),
        (True, "exec: EAGAIN no room", STARTING, False),
        (True, "exec: EACCES not allowed", STARTING, True),
        (True, None, STARTING, True),
        (True, None, Residence(state=ResidentState.READY), True),
    ],
    ids=["no keeper", "no room", "not allowed", "vanished at once", "vanished"],
)
async def test_a_start_for_which_there_is_no_room_is_no_failure(
    scene: Scene, is_made: bool, start_error: str | None, residence: Residence, counts: bool
) -> None:
    async with scene.tower(STAYS, is_dispatching=False) as tower:
        resident = await resident_of(tower, residence)
        assert resident.process is not None
        process, folder = resident.process, Path(resident.process.folder)
        if is_made:
            makes_start(folder)
            if start_error is not None:
                record = exit_fields(ended_at=tower.clock()) | {"start_error": start_error}
                (folder / "exit.json").write_bytes(encode(record))
        resident.start_error = start_error
        await write_end(tower, resident)
        await idle()
        assert resident.process is None
        assert resident.residence.state is ResidentState.BACKOFF
        assert len(resident.residence.exits) == counts
        assert (await scene.read(runs.process, process.id)).exited is counts
        assert not (folder / "tmp").exists()


async def test_a_full_disk_delays_the_end(scene: Scene) -> None:
    async with scene.tower(STAYS, is_dispatching=False) as tower:
        resident = await resident_of(tower)
        assert resident.process is not None
        with scene.full_disk():
            tower.tasks.start_soon(write_end, tower, resident)
            await later(2)
            assert resident.process is not None
            assert tower.ballast.is_thrown_off
        await later(5)
        assert resident.process is None
