"""How soon a capture of a running job is there, and whether 500 pollers get their answer in time.

The capture is of a real 4-rank torchrun job (gloo, on the CPU) at Kineto's default polling of five
seconds: the time counts from the request to the folder with all traces in it, checked. The pollers
are sockets that speak Kineto's protocol as its client does (ten tries to send, 90 ms for the
answer), all of them at the same moment, against a real agent.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bars import Bar, at_least, at_most, report

POLLERS, POLLING_PROCESSES, ROUNDS = 500, 10, 5
ANSWER_MS = 90.0
CAPTURE_S = 15.0
RANKS = 4

TRAIN = """
import time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    with torch.profiler.record_function(f"user {step}"):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).sum().backward()
        time.sleep(0.02)
        optimizer.step()
    if step == 20 and dist.get_rank() == 0:
        print("ready", flush=True)
"""


@contextmanager
def own_world() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pl-", ignore_cleanup_errors=True) as folder:
        os.environ["PILOTLIGHT_RUNTIME_DIR"] = f"{folder}/run"
        os.environ["PILOTLIGHT_DATA_DIR"] = f"{folder}/data"
        yield Path(folder)


def capture_bars(repeats: int) -> list[Bar]:
    """The slowest of some captures, each at another moment of the polling; and their steps."""
    what = f"capture of 3 steps on {RANKS} ranks: request to folder, s"
    equal = f"captures with equal step numbers on {RANKS} ranks, of {repeats}"
    if find_spec("torch") is None:
        return [at_most(what, None, CAPTURE_S), at_least(equal, None, repeats)]
    with own_world() as folder:
        program = folder / "train.py"
        program.write_text(TRAIN)
        run = [sys.executable, "-m", "pilotlight", "run", "--name", "bench", "--"]
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        job = subprocess.Popen(
            [*run, *launch, str(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            assert job.stdout is not None
            if "ready\n" not in iter(job.stdout.readline, ""):
                raise RuntimeError("the job did not start")
            taken = [_capture(folder / f"capture{number}") for number in range(repeats)]
        finally:
            os.killpg(job.pid, signal.SIGTERM)
            job.communicate()
    for seconds, result in taken:
        print(f"{seconds:.1f} s, steps from {result['first_step']}", file=sys.stderr)
    return [
        at_most(what, max(seconds for seconds, _ in taken), CAPTURE_S),
        at_least(equal, sum(_is_equal(result) for _, result in taken), repeats),
    ]


def _capture(folder: Path) -> tuple[float, dict[str, object]]:
    start = time.monotonic()
    verb = [sys.executable, "-m", "pilotlight", "capture", "bench", "--steps", "3", "--json"]
    done = subprocess.run([*verb, "-o", str(folder)], stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise RuntimeError(f"the capture failed: {done.stdout}")
    result: dict[str, object] = json.loads(done.stdout)
    result["traces"] = [str(path) for path in sorted(folder.glob("rank*.json.gz"))]
    result["user_steps"] = [_user_steps(path) for path in sorted(folder.glob("rank*.json.gz"))]
    return seconds, result


def _user_steps(path: Path) -> tuple[int, ...]:
    """What the program itself called the steps in this trace; the last of them is only begun."""
    from pilotlight.trace.trace_file import read_file

    names = read_file(path).traces[0].names
    numbers = sorted(int(name.split()[1]) for name in names if name.startswith("user "))
    return tuple(numbers[:3])


def _is_equal(result: dict[str, object]) -> bool:
    steps = result["user_steps"]
    assert isinstance(steps, list)
    first = result["first_step"]
    assert isinstance(first, int)
    wanted = (first, first + 1, first + 2)
    return len(steps) == RANKS and all(one == wanted for one in steps)


def polling_bar() -> Bar:
    with own_world() as folder:
        agent = subprocess.Popen(
            [sys.executable, "-m", "pilotlight", "agent", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert agent.stdout is not None
            agent.stdout.readline()
            slowest = [_round(folder / "run" / "kineto") for _ in range(ROUNDS)]
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.communicate()
    print(f"slowest answer of each round, ms: {[round(ms, 1) for ms in slowest]}", file=sys.stderr)
    what = f"slowest answer to {POLLERS} processes that poll at once, ms"
    return at_most(what, sorted(slowest)[ROUNDS // 2], ANSWER_MS)


def _round(folder: Path) -> float:
    """All send at the same time; the longest wait for an answer in ms."""
    start_ns = time.monotonic_ns() + 700_000_000
    each = POLLERS // POLLING_PROCESSES
    words = [sys.executable, __file__, "--poll", str(folder), str(each), str(start_ns)]
    polling = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(POLLING_PROCESSES)
    ]
    return max(float(process.communicate()[0]) for process in polling)


def poll(folder: str, count: int, start_ns: int) -> float:
    """As libkineto's client does it: the wait counts from the send that was taken."""
    payload = struct.pack("<iiqi", 3, 1, 0, os.getpid())
    datagram = struct.pack("<Q32s", len(payload), b"req") + payload
    waiting: dict[int, socket.socket] = {}
    sent_ns: dict[int, int] = {}
    due: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        one.bind(f"{folder}/dynoconfigclient{uuid.uuid4()}")
        waiting[one.fileno()] = one
        due[one.fileno()] = (start_ns, 10_000_000)
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    slowest_ns = 0
    while waiting:
        now_ns = time.monotonic_ns()
        for number in [number for number, (when_ns, _) in due.items() if when_ns <= now_ns]:
            _, pause_ns = due.pop(number)
            try:
                waiting[number].sendto(datagram, f"{folder}/dynolog")
                sent_ns[number] = time.monotonic_ns()
            except BlockingIOError:
                due[number] = (now_ns + pause_ns, 2 * pause_ns)
        ready, _, _ = select.select([*sent_ns], [], [], 0.001)
        for number in ready:
            reply = waiting.pop(number).recv(4096)
            assert len(reply) == 40, reply
            slowest_ns = max(slowest_ns, time.monotonic_ns() - sent_ns.pop(number))
    return slowest_ns / 1e6


def bars(repeats: int) -> list[Bar]:
    return [*capture_bars(repeats), polling_bar()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--poll", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.poll:
        print(poll(args.poll[0], int(args.poll[1]), int(args.poll[2])))
        return 0
    return report("capture", bars(args.repeats), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
