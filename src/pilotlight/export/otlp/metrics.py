"""The collector's metrics as OpenTelemetry has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pilotlight import __version__
from pilotlight.collector.collector import Collector
from pilotlight.collector.metrics import Family, own_metrics, tenant_metrics
from pilotlight.export.otlp.receiver import METRICS
from pilotlight.export.otlp.resource import attributes, resource
from pilotlight.export.protobuf import double, fixed, integer, message, text

_CUMULATIVE = 2
_MOST_TENANTS = 100
_MOST_POINTS = 20_000
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}


class Metrics:
    """What is measured at the time of the push; one that failed is not made up for."""

    name = METRICS

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def body(self, now_ns: int) -> bytes:
        """An ExportMetricsServiceRequest: a resource for the collector and one for each tenant."""
        collector = self._collector
        tenants = sorted({job.tenant for job in collector.watcher.jobs()})[:_MOST_TENANTS]
        resources = [_resource("", own_metrics(collector), collector.started_ns, now_ns)]
        resources += [
            _resource(tenant, tenant_metrics(collector, tenant), collector.started_ns, now_ns)
            for tenant in tenants
        ]
        return b"".join(resources)

    def settled(self) -> None:
        pass


def _resource(tenant: str, families: Sequence[Family], started_ns: int, now_ns: int) -> bytes:
    of = {"service.name": "pilotlight", "service.version": __version__}
    if tenant:
        of["pilotlight.tenant"] = tenant
    room = _MOST_POINTS
    metrics = []
    for family in families:
        values = family.values[:room]
        room -= len(values)
        if values:
            metrics.append(message(2, *_metric(family, values, started_ns, now_ns)))
    return resource(of, metrics)


def _metric(
    family: Family, values: Sequence[tuple[Mapping[str, str], float]], started_ns: int, now_ns: int
) -> Iterator[bytes]:
    points = [
        message(
            1,
            fixed(2, started_ns),
            fixed(3, now_ns),
            double(4, value),
            *attributes(7, labels),
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
