"""Kernels that are alike, together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pilotlight.trace.distinct import distinct
from pilotlight.trace.trace import Int64, Spans, UInt32


def grouped(kernels: Spans, *columns: Int64 | UInt32) -> Iterator[tuple[int, int, int]]:
    """A row of each distinct combination, how often there is one, and how long they take."""
    firsts, group = distinct(*columns)
    totals = np.bincount(group, kernels.duration_ns).astype(np.int64)
    return zip(firsts.tolist(), np.bincount(group).tolist(), totals.tolist(), strict=True)
