"""The page's part of the API described: OpenAPI, from the tables that make the routes."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pilotlight import __version__
from pilotlight.web import answers
from pilotlight.web.questions import QUESTIONS
from pilotlight.web.reply import json
from pilotlight.web.table import MEDIA_TYPE

# Path, what it tells, its parameters, and its answer (None: an Arrow stream).
TRACES: tuple[tuple[str, str, tuple[str, ...], Any], ...] = (
    ("/api/about", "what serves the page", (), answers.About),
    ("/api/traces", "the traces that can be opened", (), list[answers.TraceName]),
    ("/api/traces/{id}", "a trace: findings, breakdown, rows", (), answers.Trace),
    ("/api/traces/{id}/tiles/{rank}/{level}/{index}", "a tile of the timeline", (), None),
    ("/api/traces/{id}/flame", "the tree of calls and kernels", ("rank", "from", "to"), None),
    ("/api/traces/{id}/search", "spans by name", ("q", "rank"), answers.Hits),
    ("/api/traces/{id}/totals", "a selection", ("rank", "from", "to", "rows"), answers.Totals),
    ("/api/traces/{id}/roofline", "operators and peaks", ("rank", "gpu"), answers.Roofline),
)


def description() -> dict[str, Any]:
    rows = [*TRACES, *((q.path, q.what, q.parameters, q.result) for q in QUESTIONS)]
    results = [result for *_, result in rows if result is not None]
    schemas, components = msgspec.json.schema_components(
        results,
        ref_template="#/components/schemas/{name}",
        schema_hook=lambda kind: {"title": "anything"},
    )
    left = iter(schemas)
    paths = {
        path: {"get": _operation(path, what, names, None if result is None else next(left))}
        for path, what, names, result in rows
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "pilotlight page", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }


def description_route() -> Route:
    def answer(request: Request) -> Response:
        return json(description())

    return Route("/api/openapi.json", answer, methods=["GET"])


def _operation(path: str, what: str, names: tuple[str, ...], schema: Any) -> dict[str, Any]:
    inside = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [_parameter(name, "path") for name in inside]
    parameters += [_parameter(name, "query") for name in names]
    good = {MEDIA_TYPE: {}} if schema is None else {"application/json": {"schema": schema}}
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    return {
        "summary": what,
        "parameters": parameters,
        "responses": {
            "200": {"description": what, "content": good},
            "4XX": {
                "description": "what is wrong with the question",
                "content": {"application/json": {"schema": error}},
            },
        },
    }


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": {"type": "string", "maxLength": 500},
    }
