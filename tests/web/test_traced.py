from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pilotlight.trace.trace import Trace
from pilotlight.web import traced
from pilotlight.web.opened import OpenTrace
from pilotlight.web.traced import trace_page


def _inlined(opened: OpenTrace) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', trace_page(opened), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_a_file_has_just_the_tiles_that_show_more_than_coarser_ones(job: OpenTrace) -> None:
    """Sixteen spans made a file of 5 MB."""
    data = _inlined(job)
    answer = data["answers"]["traces/0"]
    assert answer["merged_ns"] == 0, "each span is there by itself"
    tiles = {tuple(map(int, path.split("/")[3:])) for path in data["tables"] if "/tiles/" in path}
    assert {level for _, level, _ in tiles} == set(range(answer["levels"]))
    for rank, level, index in tiles:
        halves = {(rank, level + 1, 2 * index), (rank, level + 1, 2 * index + 1)}
        assert (halves <= tiles) == (index in job.merging(rank, level))
        assert level == 0 or index // 2 in job.merging(rank, level - 1)


def test_a_file_without_room_says_which_spans_are_merged(
    job: OpenTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traced, "TILES_LIMIT_BYTES", 1)
    answer = _inlined(job)["answers"]["traces/0"]
    assert answer["levels"] == 1
    assert answer["merged_ns"] == pytest.approx(job.extent.length_ns / 1024)


def test_the_flame_graph_that_the_first_finding_is_about_is_in_the_file(
    job: OpenTrace, traces: tuple[Trace, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traced, "FLAMES_LIMIT_BYTES", 1)
    tables = _inlined(job)["tables"]
    assert job.analysis.diagnosis.findings[0].rank == 2 != traces[0].rank
    assert [path for path in tables if "/flame?" in path] == [
        f"traces/0/flame?rank=2&from=0&to={job.extent.length_ns}"
    ]
