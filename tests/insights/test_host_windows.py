"""Recordings of jobs without a GPU: steps and phases of the hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pilotlight.analysis import analyze


def write(folder: Path, rank: int, phases: dict[str, Any], steps: int = 30) -> None:
    """Steps whose phases take so many microseconds, by step."""
    now = 1000.0
    events = []
    for step in range(steps):
        begin = now
        for name, length in phases.items():
            us = float(length(step) if callable(length) else length)
            events.append(_event(name, now, us))
            now += us
        events.append(_event(f"ProfilerStep#{step}", begin, now - begin))
    document = {"distributedInfo": {"rank": rank, "world_size": 4}, "traceEvents": events}
    (folder / f"rank{rank}.json").write_text(json.dumps(document))


def _event(name: str, start: float, length: float) -> dict[str, Any]:
    where = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1}
    return {**where, "name": name, "ts": start, "dur": length}


def job(folder: Path, own: dict[str, Any], rank: int = 2) -> dict[str, int | None]:
    """Four ranks in step; one of them has other phases, the others wait for it."""
    random = np.random.default_rng(3)
    usual = {"data": 20.0, "forward": 300.0, "backward": 600.0, "optimizer": 80.0}
    mine = usual | own
    longest = sum(mine.values())
    for each in range(4):
        phases = dict(mine if each == rank else usual)
        noise = random.normal(0, 3, 30)
        waits = longest - sum(phases.values()) + 50
        phases["communication"] = lambda s, w=waits, n=noise: w + 10 + n[s]
        write(folder, each, phases)
    return {finding.cause: finding.rank for finding in analyze(folder).diagnosis.findings}


def test_a_rank_whose_loader_holds_up_the_others_is_found(tmp_path: Path) -> None:
    assert job(tmp_path, {"data": 400.0}) == {"loader": 2}


def test_a_rank_that_computes_longer_is_found(tmp_path: Path) -> None:
    assert job(tmp_path, {"backward": 900.0}) == {"slow_gpu": 2}


def test_equal_ranks_raise_no_alarm(tmp_path: Path) -> None:
    assert job(tmp_path, {}) == {}


def test_traces_without_steps_say_only_what_is_missing(tmp_path: Path) -> None:
    document = {"traceEvents": [_event("forward", 1.0, 5.0)]}
    (tmp_path / "rank0.json").write_text(json.dumps(document))
    assert analyze(tmp_path).diagnosis.findings == ()
