"""Plays a schedule on the simulated GPU, as one rank or as many.

    python play.py SCHEDULE [--ranks 8] [--speed 1] [--steps 50]

Real work for the profiler, no work for the device: nothing here computes anything. A schedule has a
line for each thing that a step does, in order; `#` begins a comment:

    copy h2d 8MB                     from the host, 25 GB/s
    kernel NAME 120us [x 24]         [stream 1]
    graph NAME 40us x 32             captured once, then launched as one graph
    host 2ms                         the CPU is busy
    sync
    slow rank 3 1.5                  that rank's kernels take longer

--speed divides every time: 1000 is about as fast as it can.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_MOST_NS = 4_000_000_000


@dataclass(frozen=True)
class Action:
    what: str
    name: str = ""
    ns: int = 0
    size: int = 0
    times: int = 1
    stream: int = 0


@dataclass(frozen=True)
class Schedule:
    actions: tuple[Action, ...]
    slow: dict[int, float]


class Gpu:
    """The simulated driver's functions, one device and its streams."""

    def __init__(self, device: int = 0) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self.context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self._call("cuCtxSetCurrent", self.context)
        self._module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self._module), None)
        self._functions: dict[str, ctypes.c_void_p] = {}
        self._streams: dict[int, ctypes.c_void_p] = {0: ctypes.c_void_p(None)}

    def _call(self, name: str, *arguments: object) -> None:
        error = getattr(self.library, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} failed with {error}")

    def stream(self, number: int) -> ctypes.c_void_p:
        if number not in self._streams:
            made = ctypes.c_void_p()
            self._call("cuStreamCreate", ctypes.byref(made), 0)
            self._streams[number] = made
        return self._streams[number]

    def function(self, name: str) -> ctypes.c_void_p:
        if name not in self._functions:
            made = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(made), self._module, name.encode())
            self._functions[name] = made
        return self._functions[name]

    def kernel(self, name: str, ns: int, stream: int = 0) -> None:
        function = self.function(name)
        # grid x block nanoseconds
        grid = max(1, min(ns, _MOST_NS))
        self._call("cuLaunchKernel", function, grid, 1, 1, 1, 1, 1, 0, self.stream(stream), 0, 0)

    def runtime_kernel(self, name: str, ns: int, stream: int = 0) -> None:
        """As a program of the CUDA runtime launches it."""
        self._call("gpu_sim_runtime_launch", self.function(name), ns, 1, self.stream(stream))

    def copy(self, way: str, size: int, stream: int = 0) -> None:
        names = {"h2d": "cuMemcpyHtoDAsync_v2", "d2h": "cuMemcpyDtoHAsync_v2"}
        nowhere, bytes_ = ctypes.c_uint64(0), ctypes.c_size_t(size)
        self._call(names[way], nowhere, nowhere, bytes_, self.stream(stream))

    def fill(self, size: int, stream: int = 0) -> None:
        self._call(
            "cuMemsetD8Async", ctypes.c_uint64(0), 0, ctypes.c_size_t(size), self.stream(stream)
        )

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def begin_capture(self, stream: int) -> None:
        self._call("cuStreamBeginCapture_v2", self.stream(stream), 0)

    def end_capture(self, stream: int) -> ctypes.c_void_p:
        """The graph that was captured, ready to be launched."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamEndCapture", self.stream(stream), ctypes.byref(graph))
        self._call(
            "cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0)
        )
        return executable

    def launch(self, graph: ctypes.c_void_p, stream: int = 0) -> None:
        self._call("cuGraphLaunch", graph, self.stream(stream))

    def sync(self, stream: int = 0) -> None:
        self._call("cuStreamSynchronize", self.stream(stream))

    def stats(self) -> dict[str, int]:
        """The truth: kernels, their time, API calls, time spent in profiling."""
        words = (ctypes.c_uint64 * 4)()
        self.library.gpu_sim_stats(words)
        return dict(zip(("launches", "kernel_ns", "calls", "profiler_ns"), words, strict=True))


def read_schedule(text: str) -> Schedule:
    actions: list[Action] = []
    slow: dict[int, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            if words[0] == "slow":
                slow[int(words[2])] = float(words[3])
            else:
                actions.append(_action(words))
        except (IndexError, KeyError, ValueError):
            raise SystemExit(f"play.py: line {number}: cannot be read: {line.strip()}") from None
    return Schedule(tuple(actions), slow)


def _action(words: list[str]) -> Action:
    what = words[0]
    options = dict(zip(words[3:-1:2], words[4::2], strict=True)) if len(words) > 3 else {}
    times, stream = int(options.get("x", 1)), int(options.get("stream", 0))
    if what == "sync":
        return Action(what)
    if what == "host":
        return Action(what, ns=_time(words[1]))
    if what == "copy":
        return Action(what, words[1], size=_size(words[2]), times=times, stream=stream)
    if what in ("kernel", "graph"):
        return Action(what, words[1], ns=_time(words[2]), times=times, stream=stream)
    raise ValueError(what)


def _time(word: str) -> int:
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", word).groups()  # type: ignore[union-attr]
    return int(float(number) * _UNITS[unit])


def _size(word: str) -> int:
    number, unit = re.fullmatch(r"([\d.]+)(\w+)", word).groups()  # type: ignore[union-attr]
    return int(float(number) * _BYTES[unit])


def play(schedule: Schedule, rank: int, device: int, steps: int, speed: float) -> dict[str, int]:
    import pilotlight

    os.environ["PILOTLIGHT_SIM_SPEED"] = str(speed)
    gpu = Gpu(device)
    factor = schedule.slow.get(rank, 1.0)
    graphs: dict[str, ctypes.c_void_p] = {}
    for action in schedule.actions:
        if action.what == "graph":
            graphs[action.name] = _capture(gpu, action)
    for step in range(steps):
        pilotlight.step(step)
        for action in schedule.actions:
            _do(gpu, action, graphs, factor, speed)
    gpu.sync()
    return gpu.stats()


def _capture(gpu: Gpu, action: Action) -> ctypes.c_void_p:
    gpu.begin_capture(9)
    for number in range(action.times):
        gpu.kernel(f"{action.name}_{number % 4}", action.ns, 9)
    return gpu.end_capture(9)


def _do(
    gpu: Gpu, action: Action, graphs: dict[str, ctypes.c_void_p], factor: float, speed: float
) -> None:
    if action.what == "sync":
        gpu.sync()
    elif action.what == "host":
        end = time.perf_counter_ns() + action.ns / speed
        while time.perf_counter_ns() < end:
            pass
    elif action.what == "graph":
        gpu.launch(graphs[action.name], action.stream)
    elif action.what == "copy":
        for _ in range(action.times):
            gpu.copy(action.name, action.size, action.stream)
    else:
        for _ in range(action.times):
            gpu.kernel(action.name, int(action.ns * factor), action.stream)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schedule", type=Path)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--speed", type=float, default=1)
    args = parser.parse_args()
    schedule = read_schedule(args.schedule.read_text())
    if "RANK" in os.environ or args.ranks == 1:
        rank = int(os.environ.get("RANK", "0"))
        stats = play(schedule, rank, int(os.environ.get("LOCAL_RANK", "0")), args.steps, args.speed)
        print(f"rank {rank}: {stats}")
        return 0
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:]],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(args.ranks),
                "PILOTLIGHT_SIM_DEVICES": str(args.ranks),
            },
        )
        for rank in range(args.ranks)
    ]
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main())
