"""The page on top of a collector: its routes, and the traces that captures left there."""

from __future__ import annotations

from starlette.routing import BaseRoute

from pilotlight.web.captured import captured_library, captured_names
from pilotlight.web.description import description_route
from pilotlight.web.live import live_route
from pilotlight.web.questions import question_routes
from pilotlight.web.site import about_route, page_routes
from pilotlight.web.traces import trace_routes


def mounted_routes() -> list[BaseRoute]:
    return [
        *page_routes("collector"),
        about_route("collector"),
        *trace_routes(captured_library, captured_names),
        *question_routes(),
        live_route(),
        description_route(),
    ]
