"""The part of the API that tells about traces."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pilotlight.errors import UsageError
from pilotlight.trace.perfetto_writer import write_perfetto
from pilotlight.web import answers
from pilotlight.web.library import Library
from pilotlight.web.reply import arrow, json, number, optional_number, protected

LONGEST_QUERY = 200
PERFETTO_SPANS = 5_000_000

Handler = Callable[[Request], Response]


def trace_routes(
    library_of: Callable[[Request], Library],
    names_of: Callable[[Request], list[answers.TraceName]],
) -> list[Route]:
    """Below /api; `library_of` says which traces the one who asks may see."""

    def names(request: Request) -> Response:
        return json(names_of(request))

    def trace(request: Request) -> Response:
        return json(library_of(request).open(request.path_params["id"]).answer)

    def tile(request: Request) -> Response:
        place = request.path_params
        opened = library_of(request).open(place["id"])
        return arrow(opened.tile(place["rank"], place["level"], place["index"]))

    def flame(request: Request) -> Response:
        opened = library_of(request).open(request.path_params["id"])
        to_ns = optional_number(request, "to")
        found = opened.icicle(
            number(request, "rank", opened.first_rank),
            number(request, "from", 0),
            opened.extent.length_ns if to_ns is None else to_ns,
        )
        return arrow(found.to_stream())

    def search(request: Request) -> Response:
        text = request.query_params.get("q", "").strip()
        if not text or len(text) > LONGEST_QUERY:
            raise UsageError(f"q: 1 to {LONGEST_QUERY} characters to look for")
        opened = library_of(request).open(request.path_params["id"])
        return json(opened.search(text, optional_number(request, "rank")))

    def totals(request: Request) -> Response:
        opened = library_of(request).open(request.path_params["id"])
        rows = [part for part in request.query_params.get("rows", "").split(",") if part]
        if not all(part.isdecimal() and len(part) < 7 for part in rows):
            raise UsageError("rows: numbers with commas between them")
        to_ns = number(request, "to", opened.extent.length_ns)
        low, high = number(request, "from", 0), to_ns
        return json(opened.totals(number(request, "rank", 0), low, high, [int(r) for r in rows]))

    def roofline(request: Request) -> Response:
        opened = library_of(request).open(request.path_params["id"])
        gpu = request.query_params.get("gpu")
        return json(opened.roofline(optional_number(request, "rank"), gpu))

    def perfetto(request: Request) -> Response:
        opened = library_of(request).open(request.path_params["id"])
        traces = opened.analysis.job.traces
        if sum(len(trace.spans) for trace in traces) > PERFETTO_SPANS:
            raise UsageError("too large to convert here: use `pilotlight convert`")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace"
            write_perfetto(traces, file)
            data = file.read_bytes()
        name = {"content-disposition": 'attachment; filename="trace.perfetto-trace"'}
        return Response(data, media_type="application/octet-stream", headers=name)

    def route(path: str, handler: Handler) -> Route:
        # Not async: Starlette runs it on a thread of its own, and the loop stays free.
        def answer(request: Request) -> Response:
            return protected(handler, request)

        return Route(f"/api/traces{path}", answer, methods=["GET"])

    return [
        route("", names),
        route("/{id}", trace),
        route("/{id}/tiles/{rank:int}/{level:int}/{index:int}", tile),
        route("/{id}/flame", flame),
        route("/{id}/search", search),
        route("/{id}/totals", totals),
        route("/{id}/roofline", roofline),
        route("/{id}/perfetto", perfetto),
    ]
