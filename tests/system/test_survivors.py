"""What a killed keeper leaves alive, and how it is ended."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from typing import Any

import pytest
from stage import Stage, is_running, is_stopped, until

from tower.system import keeping, procfs
from tower.system.survivors import end_survivors, survivors

pytestmark = pytest.mark.anyio

ESCAPES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for environment in (dict(os.environ), {}):
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "61"], environment)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
print("ready", flush=True)
time.sleep(60)
"""

# A tower whose keeper is killed, and the run left behind has shed its environment and its session.
SUBREAPER = """
import os, pickle, signal, subprocess, sys, anyio
from tower.system import prctl, procfs
from tower.system.keeping import start_keeper
from tower.system.survivors import end_survivors, reap_orphans, survivors

async def main():
    prctl.become_subreaper()
    prctl.make_undumpable()
    helper = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
    link = await start_keeper(pickle.load(sys.stdin.buffer))
    while len(procfs.descendants(link.pid)) < 3:
        await anyio.sleep(0.01)
    run = procfs.descendants(link.pid)
    os.kill(link.pid, signal.SIGKILL)
    async for word in link.words():
        pass
    await link.aclose()
    assert set(run) <= set(procfs.descendants(os.getpid())), "the run came to us"
    assert await end_survivors("run_nobody_knows") == ()
    assert not [pid for pid in run if procfs.start_ticks(pid)], "ended and reaped"
    assert helper.poll() is None, "a helper of our own is left alone"
    helper.kill()
    while not procfs.is_zombie(helper.pid):
        await anyio.sleep(0.01)
    reap_orphans()
    assert helper.wait() == -9, "and its status is left for whom it concerns"
    print("ok")

anyio.run(main)
"""


def sleeper(**how: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], **how)


async def test_everything_of_a_run_whose_keeper_was_killed_is_ended(stage: Stage) -> None:
    plan = stage.python(ESCAPES)
    link = await stage.start(plan)
    await stage.printed(plan.run, b"ready")
    await until(lambda: any(map(is_stopped, procfs.descendants(link.pid))))
    bystander = sleeper(env={"LAYOVER_RUN_ID": plan.run + "0"})
    tree = [pid for pid in procfs.descendants(link.pid) if is_running(pid)]
    os.kill(link.pid, signal.SIGKILL)
    await until(lambda: not link.is_alive)
    session = (link.agent_pid, link.agent_ticks)
    assert len(tree) == 4
    assert set(survivors(plan.run, session)) == set(tree)
    assert await end_survivors(plan.run, session) == ()
    assert not [pid for pid in tree if is_running(pid)]
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    await stage.words(link)


async def test_a_session_whose_number_another_program_has_is_left_alone(stage: Stage) -> None:
    link = await stage.start(stage.plan("sleep", "60", env={}))
    assert set(survivors("run_x", (link.agent_pid, link.agent_ticks))) == {link.agent_pid}
    assert survivors("run_x", (link.agent_pid, link.agent_ticks - 1)) == {}
    assert survivors("run_x", (link.agent_pid, link.agent_ticks + 1)) == {}
    assert survivors("run_x") == {}
    await link.stop("cancelled", 0)
    await stage.end(link)


async def test_a_process_that_may_gain_rights_was_never_below_a_keeper() -> None:
    """A number that came to be used again by a leader that has ended since: what it left is no run's."""
    other = sleeper(start_new_session=True)
    assert survivors("run_x", (other.pid, procfs.start_ticks(other.pid) or 0)) == {}
    other.kill()
    other.wait()


def test_the_tower_itself_and_its_ancestors_are_never_ended() -> None:
    code = "from tower.system.survivors import survivors; print(survivors('run_mine'))"
    shown = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "{code}"; true'],
        env={"LAYOVER_RUN_ID": "run_mine", "PATH": os.defpath},
        cwd=keeping.ROOT,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "{}\n", shown.stderr


def test_what_comes_to_the_tower_is_ended_whatever_it_has_shed(stage: Stage) -> None:
    plan = stage.sh("env -i setsid sh -c 'sleep 60 & sleep 60' & wait", env={"PATH": os.defpath})
    tower = [sys.executable, "-c", SUBREAPER]
    shown = subprocess.run(tower, input=pickle.dumps(plan), capture_output=True, cwd=keeping.ROOT, timeout=20)
    assert shown.stdout == b"ok\n", shown.stderr.decode()
