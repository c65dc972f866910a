"""Bandwidth of collectives: what the slowest link carries, comparable between operations."""

from __future__ import annotations

import re

_FACTORS = (
    (re.compile(r"all_?reduce", re.IGNORECASE), 2.0),
    (re.compile(r"all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE), 1.0),
)


def bus_factor(operation: str, size: int) -> float:
    """Bytes over the bus for each byte of the message, as nccl-tests count them: the message of an
    all-gather and a reduce-scatter is the large side."""
    if size < 2:
        return 1.0
    for pattern, factor in _FACTORS:
        if pattern.search(operation):
            return factor * (size - 1) / size
    return 1.0
