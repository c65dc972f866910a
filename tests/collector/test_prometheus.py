"""A real Prometheus that scrapes a real collector, and what Grafana would ask it."""

from __future__ import annotations

import json
import shutil
import time
import urllib.parse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from tests.collector.conftest import RunningCollector, free_port, get, program, until

from pilotlight.simulate.fleet import WINDOW_NS, FleetFault, FleetJob, SimulatedAgent

BOARD = json.loads((Path(__file__).parents[2] / "deploy/grafana/pilotlight.json").read_text())
WINDOWS = 6


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, question: str, **words: str) -> Any:
        found = get(f"{self.url}/api/v1/{question}?{urllib.parse.urlencode(words)}")
        return found and found["data"]

    def series(self, expression: str) -> Any:
        found = self.ask("query", query=expression)
        return found and found["result"]


@pytest.fixture
def prometheus(running: RunningCollector, tmp_path: Path) -> Iterator[Prometheus]:
    if not shutil.which("prometheus"):
        pytest.skip("needs Debian's prometheus")
    address = f"127.0.0.1:{free_port()}"
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "scrape_configs: [{job_name: pilotlight, scrape_interval: 1s, scrape_timeout: 1s,"
        f" static_configs: [{{targets: ['{running.url.removeprefix('http://')}']}}]}}]\n"
    )
    with program(
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address={address}",
    ):  # fmt: skip
        yield Prometheus(f"http://{address}")


@pytest.fixture
def job(running: RunningCollector) -> str:
    """Of four ranks, one of them slow."""
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    slow = FleetFault("straggler", 1, now_ns - WINDOWS * WINDOW_NS, factor=2.0)
    agent = SimulatedAgent(FleetJob("nightly", ranks_per_node=4, faults=[slow]), 0, now_ns)
    for number in range(WINDOWS, 0, -1):
        from_ns = now_ns - number * WINDOW_NS
        running.ask("POST", "/v1/batches", agent.batch(from_ns, from_ns + WINDOW_NS))
    until(lambda: running.get("/v1/jobs")["data"], 60)
    return agent.job.name


def test_it_scrapes_the_ranks_of_a_job(prometheus: Prometheus, job: str) -> None:
    found = until(lambda: prometheus.series("pilotlight_step_duration_seconds"), 60)
    assert {one["metric"]["rank"] for one in found} == {"0", "1", "2", "3"}


def test_it_answers_each_panel_of_the_dashboard(prometheus: Prometheus, job: str) -> None:
    until(lambda: prometheus.series("pilotlight_findings_open"), 60)
    unanswered = {
        target["expr"].replace("$job", ".*").replace("$__rate_interval", "1m")
        for panel in BOARD["panels"]
        for target in panel["targets"]
    }
    assert len(unanswered) > 15
    for expression in unanswered:
        until(partial(prometheus.series, expression))
    (variable,) = (one for one in BOARD["templating"]["list"] if one["type"] == "query")
    metric, label = variable["query"]["query"].removeprefix("label_values(")[:-1].split(", ")
    assert prometheus.ask(f"label/{label}/values", **{"match[]": metric}) == [job]


def test_no_panel_of_the_dashboard_lies_on_another() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
