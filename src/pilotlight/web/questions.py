"""The part of the API that is made for the page, on top of the collector's store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pilotlight.collector.answer import reader_of, span_of, text
from pilotlight.errors import UsageError
from pilotlight.store.queries import Reader, Span
from pilotlight.web import answers
from pilotlight.web.compare import compare
from pilotlight.web.fleet import fleet
from pilotlight.web.heat import heat
from pilotlight.web.jobs import job_page
from pilotlight.web.kept import Kept
from pilotlight.web.progress import capture_detail
from pilotlight.web.reply import number, optional_number, protected
from pilotlight.web.running_roof import job_roofline
from pilotlight.web.table import MEDIA_TYPE

_KEPT = Kept()
DAY_NS = 86_400_000_000_000
AHEAD_NS = 60_000_000_000


@dataclass(frozen=True)
class Question:
    """`result` is None where the answer is an Arrow stream. `is_kept`: it changes only when
    batches come in, so that one answer does for all who ask meanwhile."""

    path: str
    what: str
    parameters: tuple[str, ...]
    result: Any
    ask: Callable[[Reader, Request], Any]
    is_kept: bool = True

    @property
    def route(self) -> Route:
        def handler(request: Request) -> Response:
            reader = reader_of(request)

            def make() -> bytes:
                found = self.ask(reader, request)
                return found if isinstance(found, bytes) else msgspec.json.encode(found)

            kind = MEDIA_TYPE if self.result is None else "application/json"
            if not self.is_kept:
                return Response(make(), media_type=kind)
            collector = request.app.state.collector
            key = f"{id(collector)} {reader.tenant} {request.url.path}?{request.url.query}"
            data, age_s = _KEPT.get(key, collector.writer.taken.inserted_batches, make)
            return Response(data, media_type=kind, headers={"age": f"{age_s:.0f}"})

        def endpoint(request: Request) -> Response:
            return protected(handler, request)

        return Route(self.path, endpoint, methods=["GET"])


QUESTIONS = (
    Question(
        "/api/fleet",
        "every job with its trend, where its time goes and what is wrong; nodes and GPUs",
        ("since", "from_ns", "to_ns"),
        answers.Fleet,
        lambda reader, r: fleet(reader, _span(r)),
    ),
    Question(
        "/api/job",
        "one job: the sentence about it, ranks, findings, events",
        ("job",),
        answers.Job,
        lambda reader, r: job_page(reader, text(r, "job")),
    ),
    Question(
        "/api/heat",
        "ranks and steps as a map of times",
        ("job", "value", "first", "last", "columns"),
        None,
        lambda reader, r: heat(
            reader,
            text(r, "job"),
            text(r, "value", "time"),
            number(r, "first", 0),
            number(r, "last", 1),
            number(r, "columns", 500),
        ),
    ),
    Question(
        "/api/roofline",
        "a running job under the roof of its GPUs, from counters and the names of kernels",
        ("job", "gpu", "since", "from_ns", "to_ns"),
        answers.JobRoofline,
        lambda reader, r: job_roofline(reader, text(r, "job"), _span(r), text(r, "gpu", "")),
    ),
    Question(
        "/api/capture",
        "one capture: how far it has come, node by node",
        ("id",),
        answers.CaptureDetail,
        lambda reader, r: capture_detail(reader, r.app.state.collector.desk, text(r, "id")),
        is_kept=False,
    ),
    Question(
        "/api/compare",
        "two jobs or stretches of time: what differs, and whether it is noise",
        ("before", "before_from", "before_to", "after", "after_from", "after_to"),
        answers.Comparison,
        lambda reader, r: compare(
            reader,
            text(r, "before"),
            _side(r, "before"),
            text(r, "after"),
            _side(r, "after"),
        ),
    ),
)


def question_routes() -> list[Route]:
    return [question.route for question in QUESTIONS]


def _span(request: Request) -> Span:
    if not {"since", "from_ns", "to_ns"} & set(request.query_params):
        now_ns = time.time_ns()
        return Span(now_ns - DAY_NS, now_ns + AHEAD_NS)
    return span_of(request)


def _side(request: Request, side: str) -> Span:
    span = Span(
        optional_number(request, f"{side}_from") or 0,
        optional_number(request, f"{side}_to") or 1 << 62,
    )
    if span.length_ns <= 0:
        raise UsageError(f"{side}_to is not after {side}_from")
    return span
