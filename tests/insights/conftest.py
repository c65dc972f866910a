from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.trace import Trace

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
V100 = "Tesla V100-SXM2-32GB"


@pytest.fixture
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the folder of real traces, ../shared/data, is absent")
    return SHARED


class Script:
    """Writes a trace as a story of one host thread and one stream, in microseconds."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank = rank
        self.world_size = world_size
        self.events: list[dict[str, Any]] = []
        self.host_us = 0.0
        self.device_us = 0.0
        self._correlation = 0
        self._steps = 0

    def span(self, category: str, name: str, start: float, duration: float, **args: Any) -> None:
        lane = (
            {"pid": 0, "tid": 7} if category in ("kernel", "gpu_memcpy") else {"pid": 9, "tid": 9}
        )
        event = {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration}
        self.events.append({**event, **lane, "args": args})

    def host(self, name: str, duration: float, category: str = "cpu_op") -> Script:
        self.span(category, name, self.host_us, duration)
        self.host_us += duration
        return self

    def launch(
        self, name: str, duration: float, cost: float = 5, category: str = "kernel"
    ) -> Script:
        self._correlation += 1
        call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
        self.span("cuda_runtime", call, self.host_us, cost, correlation=self._correlation)
        start = max(self.device_us, self.host_us + cost + 2)
        self.span(category, name, start, duration, correlation=self._correlation, bytes=1000)
        self.host_us += cost
        self.device_us = start + duration
        return self

    def synchronize(self, after: float = 0) -> Script:
        end = max(self.host_us, self.device_us) + 5
        self.span("cuda_runtime", "cudaStreamSynchronize", self.host_us, end - self.host_us)
        self.host_us = end + after
        return self

    def step(self, body: Callable[[], object]) -> Script:
        begin = self.host_us
        body()
        name = f"ProfilerStep#{self._steps}"
        self.span("user_annotation", name, begin, self.host_us - begin)
        self._steps += 1
        return self

    def trace(self, device: str = V100) -> Trace:
        document = {
            "deviceProperties": [{"name": device}],
            "distributedInfo": {"rank": self.rank, "world_size": self.world_size},
            "traceEvents": self.events,
        }
        return read_kineto(iter([json.dumps(document).encode()]), f"rank{self.rank}.json")


@pytest.fixture
def script() -> type[Script]:
    return Script
