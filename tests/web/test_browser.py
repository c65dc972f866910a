from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from starlette.types import ASGIApp

from pilotlight.cli.main import main
from pilotlight.web.library import Library
from pilotlight.web.opened import OpenTrace
from pilotlight.web.traced import trace_page
from pilotlight.web.viewer import viewer_app

Journey = Callable[..., None]
Serve = Callable[[ASGIApp], AbstractContextManager[str]]


def test_from_the_answer_to_the_evidence(job: OpenTrace, journey: Journey, serve: Serve) -> None:
    library = Library()
    library.keep(job)
    library.keep(OpenTrace("1", "yesterday", job.analysis))
    with serve(viewer_app(library)) as address:
        journey("trace", address)


def test_a_link_into_a_trace_shows_what_its_sender_saw(
    job: OpenTrace, journey: Journey, serve: Serve
) -> None:
    library = Library()
    library.keep(job)
    with serve(viewer_app(library)) as address:
        journey("trace_links", address)


def test_a_trace_under_fingers_and_on_paper(job: OpenTrace, journey: Journey, serve: Serve) -> None:
    library = Library()
    library.keep(job)
    with serve(viewer_app(library)) as address:
        journey("hands", address)
        journey("paper", address, "#/trace/0/timeline timeline", "#/trace/0/flame flame")


def test_hostile_names_are_only_names(evil_job: OpenTrace, journey: Journey, serve: Serve) -> None:
    library = Library()
    library.keep(evil_job)
    with serve(viewer_app(library)) as address:
        journey("hostile", address)


def test_a_trace_in_one_file(job: OpenTrace, tmp_path: Path, journey: Journey) -> None:
    file = tmp_path / "trace.html"
    file.write_text(trace_page(job))
    journey("file", file.as_uri(), "trace")


def test_hostile_names_in_one_file(evil_job: OpenTrace, tmp_path: Path, journey: Journey) -> None:
    file = tmp_path / "trace.html"
    file.write_text(trace_page(evil_job))
    journey("hostile", file.as_uri())


def test_a_roofline_in_one_file(tmp_path: Path, journey: Journey, shared_data: Path) -> None:
    file = tmp_path / "roofline.html"
    trace = shared_data / "kineto" / "qwen_h100.json.gz"
    assert main(["roofline", str(trace), "--html", str(file), "--json"]) == 0
    journey("file", file.as_uri(), "roofline")
