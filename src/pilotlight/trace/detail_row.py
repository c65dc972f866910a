"""Which row of a trace's detail belongs to a span."""

from __future__ import annotations

import numpy as np

from pilotlight.trace.detail import Grids, Messages
from pilotlight.trace.distinct import distinct, places
from pilotlight.trace.trace import Int64, Spans


def begins_of(spans: Spans, rows: Int64) -> Int64:
    """What tells these rows apart beside their correlation; empty where that is enough."""
    found: Int64 = spans.start_ns[rows[:0]]
    if len(np.unique(spans.correlation[rows])) < len(rows):
        found = spans.start_ns[rows]
    return found


def detail_rows(detail: Grids | Messages, spans: Spans) -> Int64:
    """For each span its row, or -1. A graph launches many kernels under one correlation."""
    if not len(detail.start_ns):
        return places(detail.correlation, spans.correlation)
    _, number = distinct(
        np.concatenate((detail.correlation, spans.correlation)),
        np.concatenate((detail.start_ns, spans.start_ns)),
    )
    count = len(detail.correlation)
    return places(number[:count], number[count:])
