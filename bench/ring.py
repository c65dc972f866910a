"""What one event costs the job, in C++ and in Python, beside its floor and its peers.

Everything of one comparison runs interleaved in one process; CPU time of the thread; medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import lttng
from bars import Bar, at_least, at_most, median_ratio, report
from programs import columns, extension, program

CALLS = 1500
REPEATS = 201
HELLO_BYTES = 24


def native_bars() -> list[Bar]:
    bench = program("ring_bench")
    assert bench is not None
    done = subprocess.run([bench], capture_output=True, text=True, check=True)
    ns = columns(done.stdout)
    show(floor=ns["floor"], ring=ns["ring"])
    ratio = median_ratio(ns["ring"], ns["floor"])
    return [at_most("C++ event / (clock + 32 B store)", ratio, 1.5)]


def lttng_bars() -> list[Bar]:
    what = "LTTng-UST event / C++ event"
    bench = program("ring_lttng_bench")
    with lttng.session("pilotlight_bench:event") as environment:
        if bench is None or environment is None:
            return [at_least(what, None, 8)]
        done = subprocess.run([bench], env=environment, capture_output=True, text=True, check=True)
    ns = columns(done.stdout)
    show(lttng=ns["lttng"], ring=ns["ring"])
    return [at_least(what, median_ratio(ns["lttng"], ns["ring"]), 8)]


def python_bars() -> list[Bar]:
    event, range_ = "Python event / empty C call", "annotate range / nvtx.annotate range"
    if importlib.util.find_spec("pilotlight._probe") is None:
        return [at_most(event, None, 2), at_most(range_, None, 0.5)]
    from pilotlight import _probe, annotate

    empty = extension("ring_call_bench", "ring_call_bench.cpp").empty
    nvtx = importlib.import_module("nvtx") if importlib.util.find_spec("nvtx") else None
    with probe() as drain:
        bodies: dict[str, Callable[[], int]] = {
            "loop": loop_ns,
            "empty": lambda: calls_ns(empty),
            "event": lambda: calls_ns(_probe.event),
            "annotate": lambda: ranges_ns(annotate),
        }
        if nvtx is not None:
            bodies["nvtx"] = lambda: ranges_ns(nvtx.annotate)
        ns: dict[str, list[float]] = {name: [] for name in bodies}
        for _ in range(REPEATS):
            for name, body in bodies.items():
                ns[name].append(body() / CALLS)
                drain()
    for name in ns.keys() - {"loop"}:
        ns[name] = [each - loop for each, loop in zip(ns[name], ns["loop"], strict=True)]
    show(**ns)
    ratio = None if nvtx is None else median_ratio(ns["annotate"], ns["nvtx"])
    return [
        at_most(event, median_ratio(ns["event"], ns["empty"]), 2),
        at_most(range_, ratio, 0.5),
    ]


@contextmanager
def probe() -> Iterator[Callable[[], None]]:
    """Runs the probe in this process; gives what empties its ring between measurements."""
    from pilotlight import _drain, _probe

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "probe.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen()
            refused = _probe.start(path, b"{}", 0, None)
            if refused is not None:
                raise SystemExit(f"the probe does not start: {refused}")
            link, _ = listener.accept()
        with link:
            _, descriptors, _, _ = socket.recv_fds(link, HELLO_BYTES, 1)
            reader = _drain.Reader(descriptors[0], 0, 1)
            lost = reader.losses()["dropped"]

            drained = 0

            def drain() -> None:
                nonlocal drained
                drained += reader.read()
                reader.take()
                reader.commit()
                if reader.losses()["dropped"] != lost:
                    raise SystemExit("the ring was full: drops would look cheap")

            _probe.event(0, 0)
            drain()
            yield drain
            if drained < CALLS * REPEATS:
                raise SystemExit("the events did not arrive: nothing was measured")
            _probe.stop(None)


def loop_ns() -> int:
    start_ns = time.thread_time_ns()
    for _ in repeat(None, CALLS):
        pass
    return time.thread_time_ns() - start_ns


def calls_ns(call: Callable[[int, int], object]) -> int:
    start_ns = time.thread_time_ns()
    for _ in repeat(None, CALLS):
        call(1, 2)
    return time.thread_time_ns() - start_ns


def ranges_ns(annotate: Callable[[str], Any]) -> int:
    start_ns = time.thread_time_ns()
    for _ in repeat(None, CALLS):
        with annotate("forward"):
            pass
    return time.thread_time_ns() - start_ns


def show(**measured: list[float]) -> None:
    parts = (f"{name} {statistics.median(each):.1f} ns" for name, each in measured.items())
    print("  ".join(parts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    arguments = parser.parse_args()
    bars = [*native_bars(), *lttng_bars(), *python_bars()]
    return report("ring", bars, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
