"""A server's own Prometheus metrics: its queue, its batch, its cache, every five seconds.

Read from the loopback by a thread of the server's own process, from the port on its command line.
"""

from __future__ import annotations

import sys
import threading

from pilotlight import _probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pilotlight.probe.adapter import Adapter

METRICS = {
    "vllm:num_requests_running": "serving.running",
    "vllm:num_requests_waiting": "serving.waiting",
    "vllm:kv_cache_usage_perc": "serving.kv_ratio",
    "vllm:gpu_cache_usage_perc": "serving.kv_ratio",
    "sglang:num_running_reqs": "serving.running",
    "sglang:num_queue_reqs": "serving.waiting",
    "sglang:token_usage": "serving.kv_ratio",
}
DEFAULT_PORTS = {"vllm": 8000, "sglang": 30000}
_SERVERS = ("serve", "api_server", "launch_server")
_EVERY_S = 5.0
_TIMEOUT_S = 2.0
_MOST_BYTES = 4 << 20


def install(adapter: Adapter, package: Any) -> None:
    port = port_of(sys.argv, DEFAULT_PORTS[package.__name__])
    if port is None:
        return
    stop = threading.Event()
    adapter.when_removed(stop.set)
    look = adapter.guarded(lambda: tell(port))

    def loop() -> None:
        while not stop.wait(_EVERY_S):
            look()

    threading.Thread(target=loop, name="pilotlight-serving", daemon=True).start()


def port_of(arguments: Sequence[str], default: int) -> int | None:
    """The port on a server's command line; None if it is not a server's."""
    if not any(word in argument for argument in arguments[:3] for word in _SERVERS):
        return None
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--port":
            text = value if equals else next(iter(arguments[place + 1 :]), "")
            return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
    return default


def tell(port: int) -> None:
    text = _read(port)
    for name, value in values_of(text).items():
        _probe.counter(name, value)


def _read(port: int) -> str:
    """Nothing while the server does not answer: it may be starting or ending."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.read(_MOST_BYTES).decode(errors="replace") if answer.status == 200 else ""
    except (OSError, HTTPException):
        return ""
    finally:
        connection.close()


def values_of(text: str) -> dict[str, float]:
    """What we want of an exposition in Prometheus' text format; several engines are added up."""
    found: dict[str, float] = {}
    seen: dict[str, int] = {}
    for line in text.splitlines():
        name = METRICS.get(line.partition("{")[0].partition(" ")[0])
        if name is None:
            continue
        try:
            value = float(line.rpartition("}")[2].split()[0] if "}" in line else line.split()[1])
        except (ValueError, IndexError):
            continue
        if value != value or value in (float("inf"), float("-inf")):
            continue
        found[name] = found.get(name, 0.0) + value
        seen[name] = seen.get(name, 0) + 1
    if "serving.kv_ratio" in found:
        found["serving.kv_ratio"] /= seen["serving.kv_ratio"]
    return found
