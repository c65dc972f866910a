"""The collector's metrics pushed to an OpenTelemetry receiver, where the environment names one."""

from __future__ import annotations

import contextlib
import gzip
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from pilotlight import __version__
from pilotlight.collector.collector import Collector
from pilotlight.collector.metrics import Family, own_metrics, tenant_metrics
from pilotlight.errors import UsageError
from pilotlight.export.protobuf import double, fixed, integer, message, text

_CUMULATIVE = 2
_MOST_TENANTS = 100
_MOST_POINTS = 20_000
_ANSWER_BYTES = 4096
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}


@dataclass(frozen=True)
class Receiver:
    """Where to push to, and how often."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    every_s: float = 60.0
    timeout_s: float = 10.0
    is_packed: bool = False
    authority: str = ""


def receiver_of(env: Mapping[str, str]) -> Receiver | None:
    """By the OTEL_* variables of its specification; None: nothing is wanted. UsageError names the
    variable that makes no sense."""

    def of(name: str) -> str:
        return env.get(f"OTEL_EXPORTER_OTLP_METRICS_{name}") or env.get(
            f"OTEL_EXPORTER_OTLP_{name}", ""
        )

    url = env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
    if not url and env.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        url = env["OTEL_EXPORTER_OTLP_ENDPOINT"].rstrip("/") + "/v1/metrics"
    is_off = env.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not url or is_off or env.get("OTEL_METRICS_EXPORTER", "otlp") != "otlp":
        return None
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"OTEL_EXPORTER_OTLP_ENDPOINT={url[:100]}: not http:// or https://")
    if of("PROTOCOL") not in ("", "http/protobuf"):
        raise UsageError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={of('PROTOCOL')[:40]}: only http/protobuf is spoken; "
            "set it, or OTEL_METRICS_EXPORTER=none"
        )
    if of("COMPRESSION") not in ("", "none", "gzip"):
        raise UsageError(f"OTEL_EXPORTER_OTLP_COMPRESSION={of('COMPRESSION')[:40]}: only gzip")
    return Receiver(
        url=url,
        headers=_headers(of("HEADERS")),
        every_s=_seconds(env, "OTEL_METRIC_EXPORT_INTERVAL", 60.0),
        timeout_s=_seconds(env, "OTEL_EXPORTER_OTLP_TIMEOUT", 10.0),
        is_packed=of("COMPRESSION") == "gzip",
        authority=of("CERTIFICATE"),
    )


@contextlib.contextmanager
def pushing(receiver: Receiver | None, collector: Collector) -> Iterator[Counter[str]]:
    """Pushes from a thread of its own while the collector runs; a receiver that hangs or refuses
    delays nobody, and what could not be pushed is counted in /metrics."""
    counts = collector.pushed
    if receiver is None:
        yield counts
        return
    stopping = threading.Event()

    def run() -> None:
        # Not all collectors at the same moment.
        wait_s = random.uniform(0, min(receiver.every_s, 5.0))
        while not stopping.wait(wait_s):
            wait_s = receiver.every_s
            counts[_push(receiver, request(collector, time.time_ns()))] += 1

    thread = threading.Thread(target=run, name="otlp", daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        stopping.set()
        thread.join(receiver.timeout_s)


def request(collector: Collector, now_ns: int) -> bytes:
    """An ExportMetricsServiceRequest: a resource for the collector and one for each tenant."""
    tenants = sorted({job.tenant for job in collector.watcher.jobs()})[:_MOST_TENANTS]
    resources = [_resource("", own_metrics(collector), collector.started_ns, now_ns)]
    resources += [
        _resource(tenant, tenant_metrics(collector, tenant), collector.started_ns, now_ns)
        for tenant in tenants
    ]
    return b"".join(resources)


def _resource(tenant: str, families: Sequence[Family], started_ns: int, now_ns: int) -> bytes:
    attributes = {"service.name": "pilotlight", "service.version": __version__}
    if tenant:
        attributes["pilotlight.tenant"] = tenant
    room = _MOST_POINTS
    metrics = []
    for family in families:
        values = family.values[:room]
        room -= len(values)
        if values:
            metrics.append(message(2, *_metric(family, values, started_ns, now_ns)))
    scope = message(1, text(1, "pilotlight"), text(2, __version__))
    return message(1, message(1, *_attributes(1, attributes)), message(2, scope, *metrics))


def _metric(
    family: Family, values: Sequence[tuple[Mapping[str, str], float]], started_ns: int, now_ns: int
) -> Iterator[bytes]:
    points = [
        message(
            1,
            fixed(2, started_ns),
            fixed(3, now_ns),
            double(4, value),
            *_attributes(7, labels),
        )
        for labels, value in values
    ]
    plain = family.name.removesuffix("_total")
    yield text(1, plain)
    yield text(2, family.help)
    yield text(3, _UNITS.get(plain.rsplit("_", 1)[-1], ""))
    if family.kind == "counter":
        yield message(7, *points, integer(2, _CUMULATIVE), integer(3, 1))
    else:
        yield message(5, *points)


def _attributes(number: int, values: Mapping[str, str]) -> list[bytes]:
    return [
        message(number, text(1, key), message(2, text(1, value))) for key, value in values.items()
    ]


def _push(receiver: Receiver, body: bytes) -> str:
    """What became of it, in a word or two."""
    headers = {"content-type": "application/x-protobuf", **receiver.headers}
    if receiver.is_packed:
        body = gzip.compress(body, 1)
        headers["content-encoding"] = "gzip"
    asked = urllib.request.Request(receiver.url, body, headers, method="POST")
    try:
        context = None
        if receiver.url.startswith("https:"):
            context = ssl.create_default_context(cafile=receiver.authority or None)
        with urllib.request.urlopen(asked, timeout=receiver.timeout_s, context=context) as answer:
            answer.read(_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            return f"refused: {error.code}"
    except (OSError, ValueError) as error:
        return f"failed: {type(error).__name__}"
    return "sent"


def _headers(listed: str) -> dict[str, str]:
    """`key=value,key=value`, percent-encoded; they may hold secrets and are never shown."""
    headers = {}
    for pair in filter(None, listed.split(",")):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise UsageError("OTEL_EXPORTER_OTLP_HEADERS: not key=value,key=value")
        headers[key.strip()] = unquote(value.strip())
    return headers


def _seconds(env: Mapping[str, str], name: str, default_s: float) -> float:
    value = env.get(name, "")
    if not value:
        return default_s
    if not value.isdecimal() or not 100 <= int(value) <= 86_400_000:
        raise UsageError(f"{name}={value[:40]}: milliseconds, from 100 to 86400000")
    return int(value) / 1000
