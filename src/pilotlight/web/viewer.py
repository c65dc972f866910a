"""A small server on this machine that shows traces and nothing else."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from pilotlight.web.library import Library
from pilotlight.web.site import Guarded, about_route, page_routes
from pilotlight.web.traces import trace_routes

LOOPBACK = "127.0.0.1"


def viewer_app(library: Library) -> ASGIApp:
    """Answers to names of this machine only: no other site can point a name of its own here."""
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])
    traces = trace_routes(lambda request: library, lambda request: library.names())
    routes = [*page_routes("viewer"), about_route("viewer"), *traces]
    return Guarded(Starlette(routes=routes, middleware=[hosts]))


def bound_socket(port: int) -> socket.socket:
    """On loopback; 0 takes any free port. It listens already: who connects before the server's loop
    runs waits instead of being refused."""
    # Named TCP, else asyncio leaves Nagle's delay on and every small answer waits 40 ms.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((LOOPBACK, port))
    made.listen()
    return made


def serve_library(library: Library, bound: socket.socket) -> None:
    """Until it is interrupted."""
    config = uvicorn.Config(viewer_app(library), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[bound])
