"""Python stacks and kernels of every job as OpenTelemetry's profiles (a signal in development).

The store is the buffer: what a receiver could not take is pushed with the next, up to ten minutes
of it. A push ends 20 s before now, since windows have to come from their agents first.
"""

from __future__ import annotations

from hashlib import blake2b

from pilotlight.collector.collector import Collector
from pilotlight.export.otlp.dictionary import Dictionary
from pilotlight.export.otlp.receiver import PROFILES
from pilotlight.export.otlp.resource import resource
from pilotlight.export.protobuf import fixed, integer, message, packed
from pilotlight.recording.schema import WINDOW_NS
from pilotlight.store.queries.profiles import (
    ProfileKey,
    ProfileRow,
    ProfileSums,
    late_batches,
    profile_sums,
)
from pilotlight.store.queries.reader import Span

LAG_NS = 20_000_000_000
LONGEST_NS = 600_000_000_000

# Profile and Sample of profiles.proto.
_SAMPLE_TYPE, _SAMPLE, _TIME, _DURATION, _ID = 1, 2, 3, 4, 7
_TYPE, _UNIT = 1, 2
_STACK, _ATTRIBUTES, _VALUES = 1, 2, 4
_OTHER = "(other)"


class Profiles:
    """Counts in `collector.not_pushed` what no push will ever have."""

    name = PROFILES

    def __init__(self, collector: Collector, now_ns: int) -> None:
        self._collector = collector
        self._until_ns = self._next_ns = _end(now_ns)
        self._heard_ns = now_ns
        self._left_out = 0

    def body(self, now_ns: int) -> bytes:
        """An ExportProfilesServiceRequest of what came since the last that was settled."""
        store, lost = self._collector.store, self._collector.not_pushed
        to_ns = _end(now_ns)
        late, self._heard_ns = late_batches(store, self._until_ns, self._heard_ns)
        lost["late batches"] += late
        if to_ns - self._until_ns > LONGEST_NS:
            lost["seconds"] += (to_ns - LONGEST_NS - self._until_ns) // 10**9
            self._until_ns = to_ns - LONGEST_NS
        self._next_ns = max(self._until_ns, to_ns)
        span = Span(self._until_ns, self._next_ns)
        sums = profile_sums(store, span)
        self._left_out = sums.left_out
        return encoded(sums, span)

    def settled(self) -> None:
        self._until_ns = self._next_ns
        self._collector.not_pushed["stacks"] += self._left_out


def encoded(sums: ProfileSums, span: Span) -> bytes:
    """A resource for every job, with a profile of Python and one of the devices; b"" of none."""
    shared = Dictionary()
    by_job: dict[tuple[str, str, int], list[bytes]] = {}
    for key, rows in sums.rows.items():
        other_ns = sums.whole_ns[key] - sum(row.total_ns for row in rows)
        if other_ns > 0:
            rows = [*rows, ProfileRow((_OTHER,), "unknown", other_ns)]
        made = _profile(shared, key, rows, span)
        by_job.setdefault((key.tenant, key.job, key.attempt), []).append(made)
    resources = [
        resource(
            {
                "service.name": job,
                "pilotlight.tenant": tenant,
                "pilotlight.attempt": str(attempt),
            },
            profiles,
        )
        for (tenant, job, attempt), profiles in by_job.items()
    ]
    return b"".join([*resources, message(2, *shared.encoded())]) if resources else b""


def _profile(shared: Dictionary, key: ProfileKey, rows: list[ProfileRow], span: Span) -> bytes:
    kind = "gpu" if key.is_device else "wall"
    label = "pilotlight.activity" if key.is_device else "pilotlight.state"
    language = "" if key.is_device else "cpython"
    samples = [
        message(
            _SAMPLE,
            integer(_STACK, shared.stack(row.frames, language)),
            packed(_ATTRIBUTES, [shared.attribute(label, row.state)]),
            packed(_VALUES, [row.total_ns]),
        )
        for row in rows
    ]
    # The same for the same time of the same job: whoever gets it twice can tell.
    identity = repr((key, span.from_ns, span.to_ns)).encode()
    return message(
        2,
        message(
            _SAMPLE_TYPE,
            integer(_TYPE, shared.string(kind)),
            integer(_UNIT, shared.string("nanoseconds")),
        ),
        *samples,
        fixed(_TIME, span.from_ns),
        integer(_DURATION, span.length_ns),
        message(_ID, blake2b(identity, digest_size=16).digest()),
    )


def _end(now_ns: int) -> int:
    return (now_ns - LAG_NS) // WINDOW_NS * WINDOW_NS
