"""The page: what the browser asks for, and the built page itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """The page and its part of the API, for the collector's application."""
    from pilotlight.web.mounted import mounted_routes

    return mounted_routes()
