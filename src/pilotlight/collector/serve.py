"""Runs a collector until it is told to stop."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from pilotlight.collector import log
from pilotlight.collector.config import Config, Listen, check_address
from pilotlight.collector.tokens import read_tokens
from pilotlight.errors import CollectorError, UsageError
from pilotlight.store.place import StorePlace

if TYPE_CHECKING:
    from pilotlight.collector.collector import Collector

_MISSING = "`serve` needs the server parts: pip install 'pilotlight[server]'"
_SHUTDOWN_S = 10
_LOG = logging.getLogger("pilotlight.collector")


def serve(
    place: StorePlace,
    config: Config,
    announce: Callable[[str], None],
    beside: Callable[[Collector], AbstractContextManager[object]] = nullcontext,
) -> None:
    """`announce` gets the address when it listens; `beside` runs as long as the collector does.
    SIGTERM and SIGINT end it."""
    try:
        import uvicorn

        from pilotlight.collector.app import make_app
        from pilotlight.collector.collector import Collector
    except ImportError as error:
        raise CollectorError(f"{_MISSING} ({error.name} is not there)") from None
    log.begin(config.log.level)
    listen = config.listen
    check_address(listen, bool(read_tokens(place.tokens)))
    _check_papers(listen)
    listener = _listen(listen.address, listen.port)
    try:
        collector = Collector(place, config)
    except BaseException:
        listener.close()
        raise
    settings = uvicorn.Config(
        make_app(collector),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        limit_concurrency=20_000,
        h11_max_incomplete_event_size=64 << 10,
        ssl_certfile=listen.certificate or None,
        ssl_keyfile=listen.key or None,
        ssl_ca_certs=listen.client_ca or None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if listen.client_ca else ssl.CERT_NONE,
    )

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """Agents that wait for requests would hold it up, and pages that listen."""
            collector.doorbell.close()
            await super().shutdown(sockets)

    server = Server(settings)
    # uvicorn ends what is under way, then sends itself the signal again; one may also come before
    # it listens for any.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    scheme = "https" if listen.certificate else "http"
    port = listener.getsockname()[1]
    host = f"[{listen.address}]" if ":" in listen.address else listen.address
    url = f"{scheme}://{host}:{port}"
    announce(url)
    _LOG.info("listening on %s, store %s", url, place)
    try:
        with beside(collector):
            server.run(sockets=[listener])
    finally:
        collector.close()
        listener.close()
        _LOG.info("stopped; %d batches wait in the spool", collector.writer.waiting_batches)


def _check_papers(listen: Listen) -> None:
    """UsageError: certificate and key do not fit, or are none."""
    if not listen.certificate:
        return
    checked = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a terminal nobody can be asked for the password of a key.
        checked.load_cert_chain(listen.certificate, listen.key, password="")
    except (ssl.SSLError, OSError) as error:
        raise UsageError(
            f"{listen.certificate} and {listen.key}: {error}; a certificate and its key are "
            "wanted, in PEM and without a password"
        ) from None
    try:
        if listen.client_ca:
            checked.load_verify_locations(listen.client_ca)
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"{listen.client_ca}: {error}; certificates in PEM are wanted") from None


def _listen(address: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        # Named TCP, else asyncio leaves Nagle's delay on and every small answer waits 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(4096)
    except OSError as error:
        raise UsageError(
            f"{address}:{port}: {error.strerror}; choose another with --port"
        ) from None
    return listener
