"""What a program prints, on its way to disk: whole, masked, bounded, and never a reason to wait."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Stage, until

from tower.system.keeper.logs import LogShelf
from tower.system.keeperlink import Grew
from tower.system.runlog import bytes_cut, read_log
from tower.system.runrecords import read_exit

pytestmark = pytest.mark.anyio

SECRET = 'sk-ant/"api\\03"+Zäh&1'


async def test_a_line_of_five_megabytes(stage: Stage) -> None:
    line = '{"text":"' + "x" * (5 << 20) + '"}'
    plan = stage.python("import sys; sys.stdout.write('{\"text\":\"' + 'x' * (5 << 20) + '\"}\\n{\"cost\":1}\\n')")
    record = await stage.run(plan)
    assert record.out_bytes == len(line) + 1 + 11
    assert stage.log(plan.run).split(b"\n") == [line.encode(), b'{"cost":1}', b""]


async def test_all_byte_values(stage: Stage) -> None:
    """B020: what a program prints need not be text."""
    plan = stage.python("import os\nfor _ in range(999): os.write(1, bytes(range(256)))", secrets=(SECRET,))
    await stage.run(plan)
    assert stage.log(plan.run) == bytes(range(256)) * 999


async def test_a_character_cut_in_two(stage: Stage) -> None:
    """B019: at a chunk's edge, and 20 ms apart."""
    plan = stage.python(
        "import os, time\nos.write(1, b'x' * 65534 + b'\\xf0\\x9f'); time.sleep(0.02); os.write(1, b'\\x9b\\xab ok')"
    )
    await stage.run(plan)
    assert stage.log(plan.run).decode() == "x" * 65534 + "\U0001f6eb ok"


async def test_much_on_one_stream_before_anything_on_the_other(stage: Stage) -> None:
    """B022: a full pipe that nobody reads would stop it."""
    plan = stage.sh("head -c 10000000 /dev/zero >&2; echo done")
    record = await stage.run(plan)
    assert (record.out_bytes, record.err_bytes) == (5, 10_000_000)


async def test_secrets_are_masked_in_every_form_and_across_every_edge(stage: Stage) -> None:
    forms = [SECRET, json.dumps(SECRET), json.dumps(SECRET, ensure_ascii=False), quote(SECRET), quote(SECRET, safe="")]
    plan = stage.python(
        "import os, time\n"
        "text = os.environb[b'FORMS']\n"
        "for i in range(len(text)):\n os.write(1, text[i:i+1]); os.write(2, text[i:i+1])\n"
        "for i in range(1, 60):\n os.write(1, text[:i]); time.sleep(0.0005); os.write(1, text[i:])",
        secrets=(SECRET, "and-this-one-too"),
        env={"FORMS": "\n".join(forms)},
    )
    await stage.run(plan)
    for stream in ("stdout", "stderr"):
        log = stage.log(plan.run, stream).decode()
        assert not [form for form in forms if form in log]
        assert "api" not in log
        assert "[masked]" in log
    assert stage.log(plan.run).count(b"[masked]") == len(forms) * 60
    written = b"".join(path.read_bytes() for path in Path(plan.folder).iterdir())
    assert SECRET.encode() not in written


async def test_a_prompt_without_a_newline_is_seen_at_once(stage: Stage) -> None:
    plan = stage.sh("printf 'ready> '; sleep 60", secrets=(SECRET,))
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready> ")
    await link.stop("cancelled", 0)
    await stage.end(link)


async def test_a_flood_keeps_head_and_tail_within_its_bound(stage: Stage) -> None:
    """B032: what is kept is bounded, and the space of the rest is given back."""
    bound = 1 << 20
    plan = stage.python(
        "import sys\nfor i in range(600000): sys.stdout.write('%07d\\n' % i)\nsys.stderr.write('err\\n' * 100000)",
        max_log_bytes=bound,
    )
    record = await stage.run(plan)
    assert (record.out_bytes, record.err_bytes, record.log_errors) == (4_800_000, 400_000, 0)
    assert sum(path.stat().st_size for path in Path(plan.folder).glob("std*.log*")) <= bound
    kept = sum(path.stat().st_size for path in Path(plan.folder).glob("std*.log*"))
    assert bytes_cut(plan.folder) == 5_200_000 - kept
    head = read_log(plan.folder, "stdout", 0, 16)
    assert (head.data, head.offset) == (b"0000000\n0000001\n", 0)
    tail = read_log(plan.folder, "stdout", -400_000, 400_000)
    assert tail.data.splitlines()[-1] == b"0599999"
    assert tail.data[:8] == b"%07d\n" % (tail.offset // 8)
    gap = read_log(plan.folder, "stdout", 1_000_000, 8)
    assert gap.offset > 1_000_000
    assert gap.data == b"%07d\n" % (gap.offset // 8)
    assert stage.log(plan.run, "stderr") == b"err\n" * 100_000


async def test_growth_is_told_but_not_too_often(stage: Stage) -> None:
    plan = stage.sh("for i in $(seq 100); do echo $i; sleep 0.01; done")
    began = time.monotonic()
    words = [word for word in await stage.words(await stage.start(plan)) if isinstance(word, Grew)]
    assert 2 <= len(words) <= 5 * (time.monotonic() - began) + 1
    assert words == sorted(words, key=lambda word: word.out)


async def test_a_flood_costs_no_memory(stage: Stage) -> None:
    plan = stage.sh("head -c 200000000 /dev/zero; echo ready; sleep 60", max_log_bytes=1 << 20, secrets=(SECRET,))
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    status = Path(f"/proc/{link.pid}/status").read_text()
    assert int(status.partition("\nVmHWM:")[2].split()[0]) < 16_000  # kB; an idle one has some 9,000
    await link.stop("cancelled", 0)
    await stage.end(link)


async def test_what_goes_on_printing_does_not_keep_the_run_alive(stage: Stage) -> None:
    plan = stage.sh("trap '' TERM; (while :; do echo more; done) & exit 2", linger=0.2)
    with anyio.fail_after(5):
        record = await stage.run(plan)
    assert (record.code, record.swept) == (2, True)


async def test_a_log_in_whose_place_a_pipe_was_put(stage: Stage) -> None:
    """A program that can write to its folder may try to make the keeper wait, or write elsewhere."""
    plan = stage.python(
        "import os\n"
        "os.chdir(os.environ['RUN'])\n"
        "os.mkfifo('stdout.log.1'); os.symlink('/dev/full', 'stdout.log.2'); os.mkdir('stdout.log.3')\n"
        "print('x' * 100000)",
        max_log_bytes=1 << 15,
    )
    with anyio.fail_after(5):
        record = await stage.run(replace(plan, env={"RUN": plan.folder}))
    assert record.code == 0
    assert record.out_bytes == 3 * 4096  # the head and two segments; no file can be made in the place of a folder
    assert record.log_errors > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_loses_output_but_no_exit(stage: Stage, small_disk: Path) -> None:
    folder = small_disk / "run"
    folder.mkdir()
    (folder / "payload.md").touch()
    script = f"head -c 2000000 /dev/zero; dd if=/dev/zero of={small_disk}/rest bs=4k; exit 3"
    await stage.words(await stage.start(stage.sh(script, folder=str(folder))))
    record = read_exit(folder)
    assert record is not None
    assert (record.code, record.swept) == (3, True)
    assert record.log_errors > 0
    assert 0 < record.out_bytes < 400_000


@given(st.lists(st.binary(max_size=9000), max_size=30), st.integers(1, 1 << 16))
def test_segments_hold_the_end_of_the_stream(pieces: list[bytes], bound: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fd = os.open(folder, os.O_RDONLY)
        shelf = LogShelf(fd, bound)
        log = shelf.open("stdout")
        for piece in pieces:
            log.write(piece)
        whole = b"".join(pieces)
        assert log.size == len(whole)
        assert log.errors == 0
        assert sum(path.stat().st_size for path in Path(folder).iterdir()) <= max(bound, 8 * 4096)
        for offset in range(0, len(whole), 3001):
            page = read_log(folder, "stdout", offset, 5000)
            assert page.offset >= offset
            assert page.data
            assert whole[page.offset : page.offset + len(page.data)] == page.data
        assert read_log(folder, "stdout", -4096, 4096).data == whole[-4096:][-len(whole) :]
        os.close(log._fd)
        os.close(fd)


async def test_the_tower_is_not_needed_for_any_of_it(stage: Stage) -> None:
    plan = stage.python("import sys\nfor i in range(300000): print(i)\nsys.exit(4)")
    link = await stage.start(plan)
    await link.aclose()
    await until(lambda: not link.is_alive)
    assert stage.exit(link).code == 4
    assert stage.log(plan.run).endswith(b"\n299999\n")
