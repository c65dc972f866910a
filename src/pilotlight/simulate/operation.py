"""The operations of groups in a simulated job: who takes part, and who waits for whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from pilotlight.trace.trace import Kind, Trace

Operation = tuple[str, int]
"""A group and the number of an operation in it, the same on all its ranks."""


def operations_of(trace: Trace) -> list[tuple[Operation, int, int]]:
    """Each with the row of its kernel and the number of its message, in the order of launches."""
    spans, messages = trace.spans, trace.detail.messages
    kernels = np.flatnonzero(spans.is_kind(Kind.KERNEL))
    row_of = dict(zip(spans.correlation[kernels].tolist(), kernels.tolist(), strict=True))
    counts: Counter[str] = Counter()
    found = []
    for correlation, kind in zip(
        messages.correlation.tolist(), messages.kind.tolist(), strict=True
    ):
        group = messages.kinds[kind].group
        counts[group] += 1
        if correlation in row_of:
            found.append(((group, counts[group]), row_of[correlation], kind))
    return found


class Stays:
    """The places of ranks in their groups, and how long a rank waited in an operation: for the one
    that stayed shortest, since all leave together."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self.places: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._shortest_ns: dict[Operation, int] = {}
        self._seen: Counter[Operation] = Counter()
        for trace in traces:
            for group in {message.group for message in trace.detail.messages.kinds}:
                self.places[group][trace.rank] = len(self.places[group])
            for operation, row, _ in operations_of(trace):
                stay_ns = int(trace.spans.duration_ns[row])
                shortest_ns = self._shortest_ns.get(operation, stay_ns)
                self._shortest_ns[operation] = min(stay_ns, shortest_ns)
                self._seen[operation] += 1

    def wait_ns(self, operation: Operation, stay_ns: int) -> int | None:
        """None if a profiler lost what one of the ranks did."""
        if self._seen[operation] < len(self.places[operation[0]]):
            return None
        return stay_ns - self._shortest_ns[operation]
