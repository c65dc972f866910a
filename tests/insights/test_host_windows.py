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


def ddp(folder: Path, slow: str, steps: int) -> Any:
    """Four ranks that reduce at the end of each step; rank 2 takes longer, in `slow` or outside."""
    for rank in range(4):
        events, now = [], 1000.0
        for step in range(steps):
            own = {"aten::mm": 2000.0} | ({slow: 12000.0} if rank == 2 and slow else {})
            begin = now
            for name, us in own.items():
                if name != "nothing":
                    events.append(_event(name, now, us) | {"cat": "cpu_op"})
                now += us + 30 * ((rank + step) % 3)
            events.append(_event("c10d::allreduce_", now, begin + 16000 - now) | {"cat": "cpu_op"})
            now = begin + 16000
            events.append(_event(f"ProfilerStep#{step}", begin, now - begin))
        document = {"distributedInfo": {"rank": rank, "world_size": 4}, "traceEvents": events}
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    return analyze(folder).diagnosis


def test_a_few_traced_steps_are_enough_where_one_rank_holds_up_all_in_each(tmp_path: Path) -> None:
    (finding,) = ddp(tmp_path, "nothing", 5).findings
    assert (finding.cause, finding.rank, finding.place) == ("straggler", 2, "rank 2")
    assert any("in no operator" in text for text in finding.evidence)


def test_a_straggler_is_told_with_the_operator_that_takes_longer_there(tmp_path: Path) -> None:
    (finding,) = ddp(tmp_path, "aten::sort", 5).findings
    assert (finding.rank, finding.place) == (2, "aten::sort")
    assert "75.0 % of its time in aten::sort; the others 0.0 %" in finding.evidence
    assert "aten::sort" in finding.fix


def test_fewer_steps_than_chance_explains_name_no_rank(tmp_path: Path) -> None:
    few = ddp(tmp_path, "nothing", 4)
    assert not few.findings
    assert {row.rule: row.missing for row in few.not_checked}["A26"].startswith("needs 5 steps")


def test_what_is_compiled_in_the_first_step_does_not_come_again(tmp_path: Path) -> None:
    def once(step: int) -> float:
        return 5000.0 if step == 0 else 0.0

    write(tmp_path, 0, {"compile": once, "forward": 300.0}, steps=6)
    assert not analyze(tmp_path).diagnosis.findings
    write(tmp_path, 0, {"forward": 300.0, "compile": lambda step: once(step - 3)}, steps=6)
    (finding,) = analyze(tmp_path).diagnosis.findings
    assert (finding.rule, finding.evidence[1][:14]) == ("A06", "in 1 of 5 step")


def test_equal_ranks_raise_no_alarm(tmp_path: Path) -> None:
    assert job(tmp_path, {}) == {}


def test_traces_without_steps_say_only_what_is_missing(tmp_path: Path) -> None:
    document = {"traceEvents": [_event("forward", 1.0, 5.0)]}
    (tmp_path / "rank0.json").write_text(json.dumps(document))
    assert analyze(tmp_path).diagnosis.findings == ()
