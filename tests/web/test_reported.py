from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from example import Process, write_example, write_head

from pilotlight.recording.recording import Recording
from pilotlight.report.coverage import coverage_of
from pilotlight.report.flame import flame_of
from pilotlight.report.report import report_of
from pilotlight.web import reported
from pilotlight.web.reported import pruned, report_page

MS = 1_000_000
Journey = Callable[..., None]
EVIL = "</script><img src=x onerror=document.title='broken'>&amp;\u2028<!--"


def made(folder: Path) -> str:
    return report_page(report_of(Recording.open(folder)), "0.1.0")


def evil(folder: Path) -> Path:
    process = Process(0)
    process.add("threads", 200, process.name(EVIL))
    process.add("samples", 200, process.stack("wait"), 2, 0, 5_000, MS)
    for number in range(12):
        process.add("steps", 100, number, (number + 1) * 100 * MS, 50 * MS)
        process.add("samples", 100, process.stack(EVIL), 1, 0, (number + 1) * 100 * MS, MS)
    process.add("spans", 100, process.name(EVIL), 1, 0, 5_000, MS)
    process.add("tracks", 8, process.name("GPU 0 stream 7"), 1, 0, 7)
    for mark, (name, value) in enumerate((("gpu/window", 1), (f"gpu/missing: {EVIL}", 0))):
        process.add("marks", 300, process.name(name), 1, 2_000 + mark, value)
    for start_ns in range(10_000, 90_000, 10_000):
        process.add(
            *("activities", 300, process.name(EVIL), 8, 1, 0, start_ns, 4_000, 1, 0, 0, 0, 0)
        )
    return write_example(folder, process)


class Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_names_are_only_data(tmp_path: Path) -> None:
    text = made(evil(tmp_path))
    outline = Outline()
    outline.feed(text)
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 2
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert data is not None
    report = json.loads(data[1])["answers"]["report"]
    assert EVIL in [name for name, _ in report["flame"]["functions"]]
    assert [work["name"] for work in report["gpu"]["work"]] == [EVIL]


def test_the_page_asks_nobody_for_anything(tmp_path: Path) -> None:
    text = made(evil(tmp_path))
    outline = Outline()
    outline.feed(text)
    assert outline.addresses == []
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert "@import" not in text and "url(" not in markup
    assert "default-src 'none'" in text


def test_an_empty_recording_gives_a_page(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    assert made(tmp_path).endswith("</html>\n")


def test_pruning_keeps_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(0)
    for number in range(60):
        deep = [f"f{number % 7}", f"g{number % 11}", f"h{number}"][: 1 + number % 3]
        process.add("samples", 7, process.stack(*deep), 1, 0, number * MS, (number + 1) * MS)
    recording = Recording.open(write_example(tmp_path, process))
    flame = flame_of(recording, coverage_of(recording))
    monkeypatch.setattr(reported, "NODES_LIMIT", 10)
    small, left_out = pruned(flame)
    assert left_out == flame.parents.size - 10
    assert small.parents.size < flame.parents.size
    assert int(small.entry_ns.sum()) == int(flame.entry_ns.sum())
    assert int(small.entry_samples.sum()) == 60
    assert all(small.parents[1:] < np.arange(1, small.parents.size))
    names = [small.functions[number].name for number in small.function_of.tolist()]
    assert "(small)" in names
    for node, parent in enumerate(small.parents.tolist()):
        assert not (node and names[node] == names[parent] == "(small)")


def test_a_very_long_run_draws_every_outlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(0)
    for number in range(200):
        length = 500 * MS if number in (33, 77) else 10 * MS
        process.add("steps", 7, number, number * 1000 * MS, length)
    monkeypatch.setattr(reported, "STEPS_LIMIT", 20)
    report = report_of(Recording.open(write_example(tmp_path, process)))
    (rows,), left_out = reported.thinned(report)
    assert {33, 77} <= set(rows["step"])
    assert len(rows["step"]) + left_out == 200
    assert len(rows["step"]) <= 25


def test_a_browser_shows_the_report(tmp_path: Path, journey: Journey) -> None:
    file = tmp_path / "page.html"
    file.write_text(made(evil(tmp_path / "recording")))
    journey("file", file.as_uri(), "report")
    journey("hostile", file.as_uri(), "report")
