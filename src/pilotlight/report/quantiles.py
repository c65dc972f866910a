"""Quantiles of durations, exact from rows or from the histograms of windows."""

from __future__ import annotations

import numpy as np

from pilotlight.recording.columns import Array

_LINEAR_NS = 8
_PER_OCTAVE = 8


def quantile(ordered: Array, share: float) -> int:
    """The smallest value that at least `share` of the ordered values do not exceed; 0 of none."""
    if not ordered.size:
        return 0
    place = int(np.ceil(share * ordered.size)) - 1
    return int(ordered[min(max(place, 0), ordered.size - 1)])


def bucket_of(durations_ns: Array) -> Array:
    """The histogram bucket of each duration, as docs/recording.md defines it."""
    values = np.maximum(durations_ns.astype(np.int64), 0)
    exponent = _floor_log2(values)
    fine = (values >> np.maximum(exponent - 3, 0)) & (_PER_OCTAVE - 1)
    buckets: Array = np.where(values < _LINEAR_NS, values, _PER_OCTAVE * (exponent - 2) + fine)
    return buckets


def _floor_log2(values: Array) -> Array:
    # Doubles round up just below a power of two from 2**53 on: step back where that happened.
    exponent = np.log2(np.maximum(values, 1)).astype(np.int64)
    exponent = np.where((np.int64(1) << np.minimum(exponent, 62)) > values, exponent - 1, exponent)
    return np.maximum(exponent, 0)


def bucket_middle_ns(bucket: int) -> int:
    """The middle of the durations that a bucket counts."""
    if bucket < _LINEAR_NS:
        return bucket
    octave, fine = divmod(bucket, _PER_OCTAVE)
    low = (_PER_OCTAVE + fine) << max(octave - 1, 0)
    return low + (1 << max(octave - 1, 0)) // 2


def histogram_quantile(buckets: Array, counts: Array, share: float) -> int:
    """Within half a bucket (6 %) of the true quantile; buckets in order, 0 of none."""
    total = int(counts.sum())
    if not total:
        return 0
    wanted = max(1, int(np.ceil(share * total)))
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    return bucket_middle_ns(int(buckets[place]))
