"""Who a signal is of: attributes, the resource and the scope of all of OpenTelemetry's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotlight import __version__
from pilotlight.export.protobuf import message, text


def attributes(number: int, values: Mapping[str, str]) -> list[bytes]:
    return [
        message(number, text(1, key), message(2, text(1, value))) for key, value in values.items()
    ]


def resource(of: Mapping[str, str], within: Sequence[bytes]) -> bytes:
    """ResourceMetrics or ResourceProfiles, with one scope: ourselves."""
    scope = message(1, text(1, "pilotlight"), text(2, __version__))
    return message(1, message(1, *attributes(1, of)), message(2, scope, *within))
