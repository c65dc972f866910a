from __future__ import annotations

import io
import socket
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from pilotlight.cli.main import main
from pilotlight.trace.kineto_writer import write_kineto
from pilotlight.trace.trace import Trace
from pilotlight.web import viewer
from pilotlight.web.library import Library
from pilotlight.web.opened import OpenTrace
from pilotlight.web.viewer import viewer_app


@pytest.fixture
def client(job: OpenTrace) -> TestClient:
    library = Library()
    library.keep(job)
    return TestClient(viewer_app(library), base_url="http://127.0.0.1")


def test_the_slow_rank_is_named_and_can_be_shown(client: TestClient) -> None:
    answer = client.get("/api/traces/0").json()
    assert answer["headline"].startswith("Step ")
    finding = answer["findings"][0]
    assert finding["rank"] == 2
    for place in finding["places"]:
        assert 0 <= place["start_ns"] <= answer["length_ns"]


def test_a_tile_is_an_arrow_table_with_flows(client: TestClient) -> None:
    table = pa.ipc.open_stream(io.BytesIO(client.get("/api/traces/0/tiles/1/6/9").content))
    columns = table.read_all().to_pydict()
    linked = [row for row in columns["flow_row"] if row >= 0]
    assert linked
    assert all(duration >= 0 for duration in columns["duration"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/traces/0/tiles/9/0/0", 404),
        ("/api/traces/0/tiles/0/99/0", 400),
        ("/api/traces/0/tiles/0/3/8", 400),
        ("/api/traces/nowhere", 404),
        ("/api/traces/0/search", 400),
        ("/api/traces/0/search?q=" + "a" * 300, 400),
        ("/api/traces/0/totals?rank=x", 400),
        ("/api/traces/0/totals?from=99999999999999999999", 400),
        ("/api/traces/0/totals?rows=1,,b", 400),
        ("/api/traces/0/flame?rank=77", 404),
        ("/api/traces/0/roofline?gpu=nonsense", 400),
        ("/api/nothing", 404),
    ],
)
def test_a_wrong_question_gets_one_line(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    if path.startswith("/api/traces"):
        assert len(answer.json()["error"].splitlines()) == 1


def test_a_trace_without_shapes_has_no_roofline_and_says_why(client: TestClient) -> None:
    found = client.get("/api/traces/0/roofline")
    assert found.status_code == 200
    assert found.json()["rows"] == []
    assert "record_shapes=True" in found.json()["missing"]


def test_search_counts_all_and_lists_in_the_order_of_time(
    client: TestClient, traces: tuple[Trace, ...]
) -> None:
    found = client.get("/api/traces/0/search?q=FLASH_fwd").json()
    named = [t.name_mask(["flash_fwd" in name for name in t.names]) for t in traces]
    assert found["total"] == sum(int(mask.sum()) for mask in named) > 0
    starts = [hit["start_ns"] for hit in found["hits"]]
    assert starts == sorted(starts)
    assert len(starts) == found["total"]


def test_totals_of_the_summary_row_fill_the_selection(client: TestClient) -> None:
    rank = client.get("/api/traces/0").json()["ranks"][0]
    low, high = rank["first_ns"] + 1000, rank["last_ns"] - 1000
    found = client.get(f"/api/traces/0/totals?rank=0&from={low}&to={high}&rows=0").json()
    assert sum(row["total_ns"] for row in found["rows"]) == high - low


def test_every_answer_carries_the_policy_and_no_other_host_is_served(client: TestClient) -> None:
    for path in ("/", "/assets/page.js", "/assets/page.css", "/api/traces/0", "/nothing"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/traces", headers={"host": "evil.example"}).status_code == 400


def test_the_page_is_not_sent_twice(client: TestClient) -> None:
    tag = client.get("/assets/page.js").headers["etag"]
    assert client.get("/assets/page.js", headers={"if-none-match": tag}).status_code == 304


def test_a_trace_can_be_taken_to_perfetto(client: TestClient) -> None:
    answer = client.get("/api/traces/0/perfetto")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    assert b"flash_fwd_kernel" in answer.content


def test_two_runs_are_served_beside_each_other(
    traces: tuple[Trace, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, trace in (("today", traces[0]), ("yesterday", traces[1])):
        write_kineto(trace, tmp_path / f"{name}.json")
    shown: list[Library] = []

    def serve(library: Library, bound: socket.socket) -> None:
        bound.close()
        shown.append(library)

    monkeypatch.setattr(viewer, "serve_library", serve)
    words = ["analyze", str(tmp_path / "today.json"), "--against", str(tmp_path / "yesterday.json")]
    assert main(words) == 2
    assert main([*words, "--serve"]) == 0
    assert [each.title for each in shown[0].names()] == ["today.json", "yesterday.json"]
