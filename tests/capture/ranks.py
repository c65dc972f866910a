"""Ranks without torch: processes that speak the real protocols, well or badly.

Run as a program: ranks.py KINETO_FOLDER ERRAND_SOCKET WORLD_SIZE [RANK=FAULT ...]
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time
import uuid
from pathlib import Path

STEP_S = 0.01
POLL_S = 1.0
JOB = 77


def trace(first_ns: int, steps: int) -> str:
    """As Kineto writes it: it begins where an optimizer step ended."""
    events = []
    for number in range(steps):
        start_us = first_ns / 1e3 + number * STEP_S * 1e6
        op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1}
        end = {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD.step"}
        events.append({**op, "ts": start_us, "dur": 5000})
        events.append({**end, "pid": 1, "tid": 1, "ts": start_us + 9000, "dur": 1000})
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


class Rank:
    def __init__(self, folder: str, errands: str, rank: int, world_size: int, fault: str) -> None:
        self.folder, self.rank, self.world_size, self.fault = folder, rank, world_size, fault
        self.began = float(os.environ["BEGAN"])
        self.polling = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.polling.bind(f"{folder}/dynoconfigclient{uuid.uuid4()}")
        self.polling.settimeout(0.09)
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.link.connect(errands)
        self.config: dict[str, str] = {}

    @property
    def steps(self) -> int:
        if self.fault == "hang":
            return 100
        return int((time.time() - self.began) / STEP_S)

    def run(self) -> None:
        due = time.monotonic() + POLL_S * self.rank / self.world_size
        while True:
            wait_s = max(0.0, due - time.monotonic())
            if self.config:
                wait_s = min(wait_s, STEP_S)
            if select.select([self.link], [], [], wait_s)[0]:
                self.answer()
            if time.monotonic() >= due:
                due += POLL_S
                self.poll()
            self.work()

    def poll(self) -> None:
        if self.fault == "silent" and self.steps > 150:
            return
        wanted = 0 if self.fault == "busy" or self.config else 2
        pids = (os.getpid(), os.getppid())
        payload = struct.pack("<iiq2i", wanted, 2, JOB, *pids)
        self.polling.sendto(
            struct.pack("<Q32s", len(payload), b"req") + payload, self.folder + "/dynolog"
        )
        try:
            text = self.polling.recv(1 << 16)[40:].decode()
        except TimeoutError:
            # Like the real client: it may come as the answer to the next poll.
            print(f"rank {self.rank} got no answer in time", file=sys.stderr, flush=True)
            return
        if text:
            self.config = dict(line.split("=") for line in text.splitlines())

    def answer(self) -> None:
        received = self.link.recv(1 << 16)
        if not received:
            sys.exit(0)
        for line in received.splitlines():
            asked = json.loads(line)
            if self.fault == "mute":
                continue
            facts = {"rank": self.rank, "world_size": self.world_size, "steps": self.steps}
            said = {
                "id": asked["id"],
                "torch": "0",
                "is_profiled": self.fault == "profiled",
                **facts,
            }
            self.link.sendall(json.dumps(said).encode() + b"\n")

    def work(self) -> None:
        if not self.config:
            return
        if self.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        # Kineto counts from 0, and begins at the end of the step with this number.
        first = int(self.config["PROFILE_START_ITERATION"]) + 1
        count = int(self.config["ACTIVITIES_ITERATIONS"])
        if self.steps < first + count:
            return
        named = Path(self.config["ACTIVITIES_LOG_FILE"])
        file = named.with_name(f"{named.stem}_{os.getpid()}.json")
        text = trace(int((self.began + first * STEP_S) * 1e9), count)
        if self.fault == "cut":
            text = text[: len(text) // 2]
        if self.fault == "link":
            file.symlink_to("/etc/hostname")
        else:
            file.with_suffix(".tmp").write_text(text)
            file.with_suffix(".tmp").rename(file)
        self.config = {}


def main() -> None:
    folder, errands, world_size, *faults = sys.argv[1:]
    by_rank = dict(fault.split("=") for fault in faults)
    os.environ["BEGAN"] = str(time.time())
    for rank in range(int(world_size)):
        if os.fork() == 0:
            Rank(folder, errands, rank, int(world_size), by_rank.get(str(rank), "")).run()
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
