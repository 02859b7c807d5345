"""What is promised of `tower.service`, checked from within a booted Debian in which it is installed.

Run as root by systemd_boot.sh, once in each of three boots: the first asks for everything that happens while a machine
is up, and ends in order with work alive; the second looks at what became of that, and cuts the power; the third looks
at what became of that.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

from table import CheckFailedError, Checks, holds, run, same, took, until

UNIT = "tower.service"
CONFIGURATION = Path("/etc/tower/layover.toml")
GOOD = CONFIGURATION.read_text()
WORK = Path("/srv/work")
GRACE_SEC = 4
"""`grace_sec` of the factory."""

up = Checks()
after_poweroff = Checks()
after_power_cut = Checks()


# What is asked of systemd, of the tower, and of the kernel.


def shown(name: str, unit: str = UNIT) -> str:
    return run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()


def main_pid() -> int:
    return int(shown("MainPID"))


def in_cgroup(unit: str = UNIT) -> list[int]:
    """Every process in the unit's control group and below."""
    group = Path("/sys/fs/cgroup" + shown("ControlGroup", unit))
    files = group.rglob("cgroup.procs") if shown("ControlGroup", unit) else ()
    return sorted(int(pid) for file in files for pid in file.read_text().split())


def of_user(name: str) -> list[str]:
    """Command lines of every living process of a user."""
    return run("ps", "-u", name, "-o", "pid=,stat=,args=", code=None).stdout.splitlines()


def told(*words: str) -> dict[str, Any]:
    """What a reading verb prints, as JSON."""
    return json.loads(run("tower", *words, "--json", code=None).stdout)


def alive() -> list[dict[str, Any]]:
    return told("ps")["runs"]


def send(agent: str, key: str) -> str:
    return run("tower", "send", "--quiet", agent, key).stdout.strip()


def pids(key: str) -> list[int]:
    """One process for each time that work on `key` was started."""
    file = WORK / f"pid.{key}"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def begin(agent: str, *keys: str) -> dict[str, int]:
    """Send work and wait until its programs run; their processes."""
    for key in keys:
        send(agent, key)
    return {key: until(f"{key} runs", lambda key=key: pids(key))[0] for key in keys}


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def let_go(*keys: str) -> None:
    for key in keys:
        (WORK / f"go.{key}").touch()
    until("no run is alive", lambda: not alive())


def ended(key: str) -> dict[str, Any]:
    """The flight of a body, with its runs."""
    for flight in told("queue")["flights"]:
        if flight["body"] == key:
            return told("show", flight["id"])
    for listed in told("ps", "--all")["runs"]:
        flight = told("show", listed["flights"][0])
        if flight["body"] == key:
            return flight
    raise CheckFailedError(f"no flight has the body {key}")


def done_once(*keys: str) -> None:
    """The work was started once, and its outcome is right."""
    for key in keys:
        flight = ended(key)
        same(f"starts of {key}", len(pids(key)), 1)
        same(f"runs of {key}", [(one["outcome"], one["attempt"]) for one in flight["runs"]], [("succeeded", 1)])
        answer = run("tower", "show", "--answer", flight["id"]).stdout
        same(f"answer of {key}", answer.strip(), f"done {key}")


def drop_in(name: str, text: str | None) -> None:
    """Write a drop-in of the unit as `systemctl edit` would; None takes it away."""
    file = Path(f"/etc/systemd/system/{UNIT}.d/{name}.conf")
    file.parent.mkdir(exist_ok=True)
    if text is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(f"[Service]\n{text}\n")
    run("systemctl", "daemon-reload")


def edit(text: str) -> None:
    """Replace the configuration in one step, as editors do."""
    new = CONFIGURATION.with_suffix(".new")
    new.write_text(text)
    new.rename(CONFIGURATION)


def in_order() -> None:
    """The unit runs, with the good file and nothing else, and may be started as often as a check likes."""
    run("systemctl", "reset-failed", UNIT, code=None)
    if CONFIGURATION.read_text() != GOOD:
        edit(GOOD)
    # Reload, so that no check is surprised by the watch for edits when that comes to the same.
    run("systemctl", "reload" if shown("ActiveState") == "active" else "start", UNIT)
    for left in alive():
        run("tower", "cancel", left["id"])
    until("no run of an earlier check is alive", lambda: not alive())


def journal(lines: int = 15) -> str:
    return run("journalctl", "--unit", UNIT, "--lines", str(lines), "--no-pager", "--output", "cat", code=None).stdout


# While the machine is up.


@up("start returns once the tower serves")
def _() -> str:
    run("systemctl", "stop", UNIT)
    began = time.monotonic()
    run("systemctl", "start", UNIT)
    seconds = took(began)
    same("state", (shown("ActiveState"), shown("SubState")), ("active", "running"))
    status = told("status")
    same("process", status["pid"], main_pid())
    same("tower status", run("tower", "status", code=None).returncode, 0)
    return f"READY after {seconds:.2f} s"


@up("it is not root, and its processes are in its own group")
def _() -> str:
    lines = Path(f"/proc/{main_pid()}/status").read_text().splitlines()
    (uids,) = [line.split()[1:] for line in lines if line.startswith("Uid:")]
    same("user", set(uids), {str(pwd.getpwnam("tower").pw_uid)})
    peeked = run("runuser", "-u", "tower", "--", "cat", f"/proc/{main_pid()}/environ", code=None)
    holds("its environment is closed to its runs", is_so=peeked.returncode != 0 and not peeked.stdout)
    below = run("ps", "--ppid", str(main_pid()), "-o", "pid=").stdout.split()
    same("processes", in_cgroup(), sorted([main_pid(), *map(int, below)]))
    (capabilities,) = [line.split()[1] for line in lines if line.startswith("CapBnd:")]
    same("capabilities", int(capabilities, 16), 0)
    return f"uid {uids[0]}, no capabilities"


@up("state, cache and runtime folders are private")
def _() -> str:
    modes = {}
    for path in (
        "/var/lib/tower",
        "/var/cache/tower",
        "/run/tower",
        "/run/tower/tower.sock",
        "/var/lib/tower/tower.db",
    ):
        found = Path(path).stat()
        same(f"owner of {path}", pwd.getpwuid(found.st_uid).pw_name, "tower")
        modes[path] = f"{stat.S_IMODE(found.st_mode):o}"
    same("modes", list(modes.values()), ["700", "700", "700", "600", "600"])
    return "700, the socket 600"


@up("root and its own user may ask, another user may not")
def _() -> str:
    run("runuser", "-u", "tower", "--", "tower", "status")
    refused = run("runuser", "-u", "somebody", "--", "tower", "status", code=None)
    same("exit code for another user", refused.returncode, 77)
    return refused.stderr.strip().splitlines()[0]


@up("systemctl status shows one line of truth")
def _() -> str:
    begin("worker", "truth")
    line = until(
        "the line tells of the run", lambda: "1 running" in shown("StatusText") and shown("StatusText"), within=3
    )
    holds("systemctl status shows it", is_so=f'Status: "{line}"' in run("systemctl", "status", UNIT).stdout)
    let_go("truth")
    return line


@up("a credential reaches the agent that declares it")
def _() -> str:
    secret = "check-7f3a-of-the-credentials"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    file = Path("/etc/tower/secrets/check")
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(secret)
    drop_in("secret", f"LoadCredential=CHECK_SECRET:{file}")
    run("systemctl", "restart", UNIT)
    answer = run("tower", "send", "--wait", "--quiet", "secret", "tell").stdout
    holds(f"the value arrived: {answer}", is_so=digest in answer)
    holds("it is masked in the answer", is_so="in clear: [masked]" in answer and secret not in answer)
    holds("the folder of credentials is not handed on", is_so=answer.rstrip().endswith("\n0"))
    anywhere = run("grep", "-rlF", secret, "/var/lib/tower", "/var/cache/tower", "/run/tower", code=None).stdout
    same("files that hold it", anywhere, "")
    holds("it is not in the journal", is_so=secret not in run("journalctl", "--unit", UNIT, "--no-pager").stdout)
    return "whole, masked in what is kept"


@up("agents can work below the hardening")
def _() -> str:
    answer = run("tower", "send", "--wait", "--quiet", "tools", "all").stdout
    lines = answer.splitlines()
    broken = [line for line in lines if line.startswith("BROKEN")]
    holds("\n".join(["some tools do not work", *broken]), is_so=not broken and len(lines) > 10)
    absent = [line.partition(": ")[2] for line in lines if line.startswith("absent")]
    works = [line.partition(": ")[2] for line in lines if line.startswith("works")]
    return ", ".join(works) + (f"; not installed: {', '.join(absent)}" if absent else "")


@up("reload returns when a good edit is live")
def _() -> str:
    pid, before = main_pid(), told("status")["generation"]["number"]
    edit(GOOD.replace("Works until it is let go", "Works on"))
    run("systemctl", "reload", UNIT)
    status = told("status")
    described = {agent["name"]: agent["description"] for agent in status["agents"]}
    same("description", described["worker"], "Works on")
    same("process", main_pid(), pid)
    return f"generation {before} to {status['generation']['number']}"


@up("reload fails on a bad edit, and the tower goes on")
def _() -> str:
    pid, before = main_pid(), told("status")["generation"]["number"]
    edit(GOOD.replace("[agents.worker]", "[agents.worker]\nno_such_key = 1"))
    run("systemctl", "reload", UNIT, code=1)
    same("state", shown("ActiveState"), "active")
    same("process", main_pid(), pid)
    same("generation", told("status")["generation"]["number"], before)
    line = until("the line says so", lambda: "(1 problem)" in shown("StatusText") and shown("StatusText"), within=3)
    holds("the journal names the mistake", is_so="no_such_key" in journal())
    edit(GOOD)
    run("systemctl", "reload", UNIT)
    until("the line forgets it", lambda: "problem" not in shown("StatusText"), within=3)
    return line


@up("SIGHUP reloads as well, and is over again")
def _() -> str:
    edit(GOOD.replace("Works until it is let go", "Works on SIGHUP"))
    run("systemctl", "kill", "--signal", "HUP", "--kill-who=main", UNIT)
    until(
        "the edit is live",
        lambda: "Works on SIGHUP" in [agent["description"] for agent in told("status")["agents"]],
    )
    until("it is not reloading any more", lambda: shown("ActiveState") == "active")
    return "live"


@up("restart leaves three runs alive, and they are adopted")
def _() -> str:
    keys = ("re1", "re2", "re3")
    before, old = begin("worker", *keys), main_pid()
    began = time.monotonic()
    run("systemctl", "restart", UNIT)
    seconds = took(began)
    holds("the tower is another process", is_so=main_pid() != old)
    holds("the programs are the same", is_so=all(exists(pid) for pid in before.values()))
    same("runs alive", sorted(one["pid"] for one in alive()), sorted(before.values()))
    holds("they are in the unit's group", is_so=set(before.values()) <= set(in_cgroup()))
    let_go(*keys)
    done_once(*keys)
    return f"{seconds:.2f} s; pids unchanged, each done once"


def groups() -> list[Path]:
    """Control groups of runs below the unit's own."""
    return sorted(Path("/sys/fs/cgroup" + shown("ControlGroup")).glob("tower-*"))


@up("each run is in a control group of its own, and nothing outlives it there")
def _() -> str:
    before = begin("worker", "cg1")
    (listed,) = alive()
    group = Path(told("show", listed["id"])["cgroup"])
    same("groups", groups(), [group])
    members = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    holds("the program is in it", is_so=before["cg1"] in members)
    holds("the tower is not", is_so=main_pid() not in members)
    run("systemctl", "restart", UNIT)
    same("groups after a restart", groups(), [group])
    let_go("cg1")
    done_once("cg1")
    until("its group is gone", lambda: not groups())
    # Tower and keepers are killed at once; what the run has started shows neither its environment nor its session.
    begin("fugitive", "cg2")
    (group,) = groups()
    fled = until("they have fled", lambda: len(found := (group / "cgroup.procs").read_text().split()) >= 3 and found)
    drop_in("still", "Restart=no")
    try:
        ours = [pid for pid in in_cgroup() if str(pid) not in fled]
        for pid in ours:
            os.kill(pid, signal.SIGSTOP)
        for pid in ours:
            os.kill(pid, signal.SIGKILL)
        until("the tower is gone", lambda: shown("ActiveState") == "failed")
        holds("they live on", is_so=all(exists(int(pid)) for pid in fled))
    finally:
        drop_in("still", None)
    run("systemctl", "reset-failed", UNIT)
    run("systemctl", "start", UNIT)
    until("the run is settled", lambda: not alive())
    holds("they are gone", is_so=not any(exists(int(pid)) for pid in fled))
    same("groups at the end", groups(), [])
    same("what became of it", ended("cg2")["runs"][0]["outcome"], "interrupted")
    return f"{len(fled)} processes that had shed everything were found by it"


@up("so does try-restart, twice in a row, without waiting")
def _() -> str:
    before = begin("worker", "tr1", "tr2")
    run("systemctl", "--no-block", "try-restart", UNIT)
    run("systemctl", "reload-or-restart", UNIT)
    run("systemctl", "try-restart", UNIT)
    until("the unit is up", lambda: shown("ActiveState") == "active")
    same("runs alive", sorted(one["pid"] for one in alive()), sorted(before.values()))
    let_go("tr1", "tr2")
    done_once("tr1", "tr2")
    return "pids unchanged"


@up("what ends while no tower lives is settled as it ended")
def _() -> str:
    begin("worker", "away")
    drop_in("later", "ExecStartPre=/bin/sh -c 'touch /srv/work/go.away; sleep 1'")
    try:
        run("systemctl", "restart", UNIT)
    finally:
        drop_in("later", None)
    until("no run is alive", lambda: not alive())
    done_once("away")
    return "succeeded, once"


@up("kill -9 of the tower: systemd starts it, runs are adopted")
def _() -> str:
    before, old = begin("worker", "k1", "k2"), main_pid()
    restarts = int(shown("NRestarts"))
    os.kill(old, signal.SIGKILL)
    until("another tower serves", lambda: shown("ActiveState") == "active" and main_pid() not in (0, old))
    same("restarts by systemd", int(shown("NRestarts")), restarts + 1)
    same("runs alive", sorted(one["pid"] for one in alive()), sorted(before.values()))
    let_go("k1", "k2")
    done_once("k1", "k2")
    return "Restart=on-failure, pids unchanged"


@up("a tower that hangs is ended by the watchdog; runs survive")
def _() -> str:
    drop_in("watchdog", "WatchdogSec=3")
    run("systemctl", "restart", UNIT)
    before, old = begin("worker", "w1"), main_pid()
    until("signs of life keep it up", lambda: shown("WatchdogTimestamp"))
    time.sleep(7)  # twice the watchdog's time: it must not end a tower that is well
    same("process after two periods", main_pid(), old)
    began = time.monotonic()
    os.kill(old, signal.SIGSTOP)
    until("another tower serves", lambda: shown("ActiveState") == "active" and main_pid() not in (0, old), within=30)
    seconds = took(began)
    holds("it was the watchdog", is_so="Watchdog timeout" in journal(100))
    same("runs alive", [one["pid"] for one in alive()], list(before.values()))
    let_go("w1")
    done_once("w1")
    drop_in("watchdog", None)
    return f"back after {seconds:.1f} s, WatchdogSec=3"


@up("stop ends all runs in time and leaves no process")
def _() -> str:
    begin("worker", "st1")
    begin("deaf", "st2")
    until("its children run", lambda: len(in_cgroup()) > 10)
    count = len(in_cgroup())
    began = time.monotonic()
    run("systemctl", "stop", UNIT)
    seconds = took(began)
    same("state", (shown("ActiveState"), shown("Result")), ("inactive", "success"))
    same("processes of its user", of_user("tower"), [])
    same("processes in its group", in_cgroup(), [])
    holds(f"it took {seconds:.1f} s", is_so=GRACE_SEC <= seconds < GRACE_SEC + 10)
    run("systemctl", "start", UNIT)
    first = ended("st1")["runs"]
    same("what became of it", [one["outcome"] for one in first][:1], ["interrupted"])
    until("the automatic one is started again", lambda: len(pids("st1")) == 2)
    same("attempts", [one["attempt"] for one in ended("st1")["runs"]], [1, 2])
    same("starts of the manual one", len(pids("st2")), 1)
    let_go("st1")
    return f"{count} processes gone after {seconds:.1f} s, grace {GRACE_SEC} s"


@up("stop without dbus still ends all runs")
def _() -> str:
    begin("worker", "nobus")
    run("systemctl", "stop", "dbus.socket", "dbus.service")
    try:
        run("systemctl", "stop", UNIT)
        same("processes of its user", of_user("tower"), [])
    finally:
        run("systemctl", "start", "dbus.socket")
        # It does not look for a new bus by itself.
        run("systemctl", "restart", "systemd-logind.service")
    run("systemctl", "start", UNIT)
    until("it is started again", lambda: len(pids("nobus")) == 2)
    let_go("nobus")
    return "not guessed to be a restart"


@up("the documented variant ends work with a restart too")
def _() -> str:
    drop_in("variant", "Environment=TOWER_LAYOVER__ON_STOP=stop\nKillMode=mixed")
    run("systemctl", "restart", UNIT)
    before = begin("worker", "va1")
    run("systemctl", "restart", UNIT)
    holds("the program is gone", is_so=not exists(before["va1"]))
    until("it is started again", lambda: len(pids("va1")) == 2)
    let_go("va1")
    drop_in("variant", None)
    run("systemctl", "restart", UNIT)
    return "ended, and recovered by the next tower"


@up("a bad file at the start is not tried again (78)")
def _() -> str:
    run("systemctl", "stop", UNIT)
    edit("[layover]\nno_such_key = 1\n")
    run("systemctl", "start", UNIT, code=1)
    same("exit status", shown("ExecMainStatus"), "78")
    time.sleep(3)  # RestartSec=2 would have passed
    same("state", (shown("ActiveState"), shown("NRestarts")), ("failed", "0"))
    holds("the journal names the mistake", is_so="no_such_key" in journal())
    return "failed, NRestarts=0"


@up("a second tower on the same state is refused (75)")
def _() -> str:
    argv = ("runuser", "-u", "tower", "--", "env", "TOWER_LAYOVER__STATE_DIR=/var/lib/tower")
    argv += ("TOWER_LAYOVER__SOCKET=/var/lib/tower/other.sock", "tower", "serve", "--config", "/etc/tower")
    refused = run(*argv, code=75)
    holds("it says who holds it", is_so=str(main_pid()) in refused.stderr)
    return refused.stderr.strip().splitlines()[-1][:100]


@up("a unit for one user: tower@somebody")
def _() -> str:
    run("systemctl", "start", "tower@somebody")
    try:
        ask = ("runuser", "-u", "somebody", "--", "env", "TOWER_CONFIG=/home/somebody/.config/tower", "tower")
        answer = run(*ask, "send", "--wait", "--quiet", "echo", "hello").stdout
        holds(f"its agents run as that user: {answer!r}", is_so="somebody: hello" in answer)
        run(*ask, "send", "--quiet", "slow", "x")
        flag = Path("/home/somebody/work/pid")
        pid = until("a run is alive", lambda: flag.exists() and flag.read_text().strip())
        old = shown("MainPID", "tower@somebody")
        run("systemctl", "restart", "tower@somebody")
        holds("another process", is_so=shown("MainPID", "tower@somebody") != old)
        listed = json.loads(run(*ask, "ps", "--json").stdout)["runs"]
        same("runs alive", [str(one["pid"]) for one in listed], [pid])
        run("systemctl", "reload", "tower@somebody")
    finally:
        run("systemctl", "stop", "tower@somebody")
    same("processes in its group", in_cgroup("tower@somebody"), [])
    same("the tower of the machine is another", shown("ActiveState"), "active")
    return "served, restarted with a run alive, reloaded, stopped"


@up("below a user's own manager: systemctl --user")
def _() -> str:
    uid = pwd.getpwnam("somebody").pw_uid
    run("loginctl", "enable-linger", "somebody")
    until("the user's manager is up", lambda: shown("ActiveState", f"user@{uid}.service") == "active")
    ask = ("runuser", "-u", "somebody", "--", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}")
    flag = Path("/home/somebody/work/pid")
    flag.unlink(missing_ok=True)
    try:
        run(*ask, "systemctl", "--user", "start", "tower")
        run(*ask, "tower", "send", "--quiet", "slow", "x")
        pid = until("a run is alive", lambda: flag.exists() and flag.read_text().strip())
        run(*ask, "systemctl", "--user", "restart", "tower")
        listed = json.loads(run(*ask, "tower", "ps", "--json").stdout)["runs"]
        same("runs alive", [str(one["pid"]) for one in listed], [pid])
        run(*ask, "systemctl", "--user", "reload", "tower")
        run(*ask, "systemctl", "--user", "stop", "tower")
        holds("the program is gone", is_so=not exists(int(pid)))
        group = shown("ControlGroup", f"user@{uid}.service")
        left = run("systemctl", "status", "--no-pager", "--full", f"user@{uid}.service", code=None).stdout
        holds(f"nothing is left in {group}: {left}", is_so="tower serve" not in left and "sleep 600" not in left)
    finally:
        run("loginctl", "disable-linger", "somebody")
    return "restarted with a run alive, reloaded, stopped"


@up("powering off asks for the end of what runs")
def _() -> str:
    begin("worker", "off")
    return "left alive for the next boot to tell"


# In the next boots.


def became_of(key: str) -> str:
    """The automatic work was started again, once, and its end counts; why it was cut off."""
    until("it is started again", lambda: len(pids(key)) == 2)
    first, second = ended(key)["runs"]
    same("what became of the first", (first["outcome"], second["attempt"]), ("interrupted", 2))
    let_go(key)
    same("what became of the second", ended(key)["runs"][1]["outcome"], "succeeded")
    return str(first["reason"])


@after_poweroff("powering off ended the run in order")
def _() -> str:
    reason = became_of("off")
    same("reason", reason, "the tower was stopped")
    return f"interrupted ({reason}), started again"


@after_poweroff("the power is cut")
def _() -> str:
    begin("worker", "cut")
    run("sync")
    return "left alive for the next boot to tell"


@after_power_cut("the boot after a power cut settles what was lost")
def _() -> str:
    return f"interrupted ({became_of('cut')}), started again"


def main() -> None:
    """Carry out the checks of this boot; the table says what failed."""
    boot, table = sys.argv[1], Path(sys.argv[2])
    checks = {"1": up, "2": after_poweroff, "3": after_power_cut}[boot]
    with table.open("w") as out:
        # After a boot, what runs is what a check looks at: work that was started again.
        checks.carry_out(out, before=in_order if boot == "1" else lambda: None, on_failure=journal)
    os.sync()
    if boot == "2":
        run("systemctl", "poweroff", "-ff")


if __name__ == "__main__":
    main()
