"""All signals that the environment wants pushed, beside a running collector."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from pilotlight.collector.collector import Collector
from pilotlight.export.otlp.metrics import Metrics
from pilotlight.export.otlp.profiles import Profiles
from pilotlight.export.otlp.push import pushing
from pilotlight.export.otlp.receiver import METRICS, PROFILES, receiver_of


def otlp_pushes(env: Mapping[str, str]) -> Callable[[Collector], AbstractContextManager[None]]:
    """UsageError names the variable that makes no sense."""
    receivers = {signal: receiver_of(env, signal) for signal in (METRICS, PROFILES)}

    @contextlib.contextmanager
    def beside(collector: Collector) -> Iterator[None]:
        counts = collector.pushed
        with (
            pushing(receivers[METRICS], Metrics(collector), counts),
            pushing(receivers[PROFILES], Profiles(collector, time.time_ns()), counts),
        ):
            yield

    return beside
