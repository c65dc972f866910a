"""Where to push to, by the OTEL_* variables of OpenTelemetry's specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from pilotlight.errors import UsageError

METRICS, PROFILES = "metrics", "profiles"
_PATHS = {METRICS: "/v1/metrics", PROFILES: "/v1development/profiles"}


@dataclass(frozen=True)
class Receiver:
    """Of one signal, and how often it gets it."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    every_s: float = 60.0
    timeout_s: float = 10.0
    is_packed: bool = False
    authority: str = ""


def receiver_of(env: Mapping[str, str], signal: str) -> Receiver | None:
    """None: nothing is wanted. UsageError names the variable that makes no sense."""
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}"

    def of(name: str) -> str:
        return env.get(f"{own}_{name}") or env.get(f"OTEL_EXPORTER_OTLP_{name}", "")

    url = env.get(f"{own}_ENDPOINT", "")
    if not url and env.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        url = env["OTEL_EXPORTER_OTLP_ENDPOINT"].rstrip("/") + _PATHS[signal]
    is_off = env.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not url or is_off or env.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") != "otlp":
        return None
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"OTEL_EXPORTER_OTLP_ENDPOINT={url[:100]}: not http:// or https://")
    if of("PROTOCOL") not in ("", "http/protobuf"):
        raise UsageError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={of('PROTOCOL')[:40]}: only http/protobuf is spoken; "
            f"set it, or OTEL_{signal.upper()}_EXPORTER=none"
        )
    if of("COMPRESSION") not in ("", "none", "gzip"):
        raise UsageError(f"OTEL_EXPORTER_OTLP_COMPRESSION={of('COMPRESSION')[:40]}: only gzip")
    interval = env.get("OTEL_METRIC_EXPORT_INTERVAL", "") if signal == METRICS else ""
    return Receiver(
        url=url,
        headers=_headers(of("HEADERS")),
        every_s=_seconds("OTEL_METRIC_EXPORT_INTERVAL", interval, 60.0),
        timeout_s=_seconds("OTEL_EXPORTER_OTLP_TIMEOUT", of("TIMEOUT"), 10.0),
        is_packed=of("COMPRESSION") == "gzip",
        authority=of("CERTIFICATE"),
    )


def _headers(listed: str) -> dict[str, str]:
    """`key=value,key=value`, percent-encoded; they may hold secrets and are never shown."""
    headers = {}
    for pair in filter(None, listed.split(",")):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise UsageError("OTEL_EXPORTER_OTLP_HEADERS: not key=value,key=value")
        headers[key.strip()] = unquote(value.strip())
    return headers


def _seconds(name: str, value: str, default_s: float) -> float:
    if not value:
        return default_s
    if not value.isdecimal() or not 100 <= int(value) <= 86_400_000:
        raise UsageError(f"{name}={value[:40]}: milliseconds, from 100 to 86400000")
    return int(value) / 1000
