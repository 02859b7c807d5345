"""The agent of the crash tests: it does things in the world outside, where no restart can take them back.

usage: agent.py WORLD [RECEIVER...]. With LAYOVER_PROTOCOL=jsonl it stays, and does so in each turn. Its diary in the
folder WORLD is what the tests believe: each line one fact, appended by one write. If there is a RECEIVER it leaves a
child in a session of its own behind, and sends until it is answered, as a careful program does. It reports what it
cost, and ends when the file WORLD/gate is there. Standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

COST_USD = 0.01
PATIENCE = 25.0
"""Seconds that it asks for an answer, and waits at the gate."""


REPORT = {"model": "crash-1", "tokens_in": 10, "tokens_out": 1, "cost_usd": COST_USD}


def main(world: str, *receivers: str) -> int:
    if os.environ.get("LAYOVER_PROTOCOL") == "jsonl":
        return stay(world, receivers)
    work(world, receivers, os.environ["LAYOVER_RUN_ID"], os.environ["LAYOVER_ITINERARY"])
    print("all done", flush=True)
    return 0


def stay(world: str, receivers: tuple[str, ...]) -> int:
    for line in sys.stdin:
        told = json.loads(line)
        work(world, receivers, told["run"], told["itinerary"])
        print(json.dumps({"type": "result", "turn": told["turn"], "answer": "all done", **REPORT}), flush=True)
    return 0


def work(world: str, receivers: tuple[str, ...], run: str, itinerary: str) -> None:
    chain = itinerary + "/" + os.environ["LAYOVER_AGENT"]
    for other, pid, ticks in before_me(world, chain):
        if pid != os.getpid() and is_alive(pid, ticks):
            note(world, "overlap", run, other)
    note(world, "began", run, chain, os.getpid(), ticks_of(os.getpid()), os.environ["LAYOVER_RUN_TOKEN"])
    if receivers:
        child = subprocess.Popen(
            ["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        note(world, "child", run, child.pid, ticks_of(child.pid))
    for receiver in receivers:
        note(world, "sent", run, send(receiver, key=run))
    with open(os.environ["LAYOVER_REPORT"], "w") as report:
        json.dump(REPORT, report)
    give_up = time.monotonic() + PATIENCE
    while not os.path.exists(world + "/gate") and time.monotonic() < give_up:
        time.sleep(0.01)
    note(world, "ended", run)


def note(world: str, *words: object) -> None:
    diary = os.open(world + "/diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(diary, (" ".join(map(str, words)) + "\n").encode())
    os.close(diary)


def before_me(world: str, chain: str) -> list[tuple[str, int, int]]:
    """Run, pid and start ticks of whoever began the same work."""
    try:
        with open(world + "/diary") as diary:
            lines = [line.split() for line in diary]
    except FileNotFoundError:
        return []
    return [(line[1], int(line[3]), int(line[4])) for line in lines if line[0] == "began" and line[2] == chain]


def ticks_of(pid: int) -> int:
    """Start time by the kernel's clock; 0 when there is no such living process."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def is_alive(pid: int, ticks: int) -> bool:
    return ticks != 0 and ticks_of(pid) == ticks


def send(receiver: str, key: str) -> str:
    """The id of the flight, once the tower has answered. The key makes asking twice harmless."""
    words = f"carry on, says {os.environ['LAYOVER_AGENT']}"
    body = json.dumps({"to": receiver, "body": words, "key": key}).encode()
    head = (
        f"POST /flights HTTP/1.1\r\nHost: tower\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {os.environ['LAYOVER_RUN_TOKEN']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(10)
                link.connect(os.environ["LAYOVER_SOCKET"])
                link.sendall(head.encode() + body)
                answer = b"".join(iter(lambda: link.recv(65536), b""))
            if answer.startswith(b"HTTP/1.1 202"):
                return str(json.loads(answer.partition(b"\r\n\r\n")[2])["flight"]["id"])
            if answer.startswith(b"HTTP/1.1 4"):
                sys.exit(answer.decode())
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    sys.exit("nobody answered")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
