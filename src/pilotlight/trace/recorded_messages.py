"""What the collectives of a recording say of the kernels that they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotlight.recording.columns import Columns, group
from pilotlight.recording.recording import Recording
from pilotlight.trace.detail import Message, Messages

# Names of docs/nccl.md: the number is a place in the group.
_TRANSFER = re.compile(r"(?:Send to|Recv from) (\d{1,9})")

Members = Mapping[tuple[int, int], int]
"""The rank of a job by the number of a group's name and its place in the group."""


def members_of(recording: Recording) -> Members:
    """As far as the processes of this recording took part."""
    rows = recording.detail("collectives")
    names = recording.names.find(rows["process"], rows["group"])
    ranks = {process.start.process: process.rank for process in recording.processes}
    found, _ = group(rows["process"], names, rows["rank"])
    members = {}
    for process, name, place in zip(*(column.tolist() for column in found), strict=True):
        rank = ranks.get(process)
        if rank is not None:
            members[name, place] = rank
    return members


def messages_of(
    rows: Columns,
    operations: NDArray[Any],
    groups: NDArray[Any],
    texts: tuple[str, ...],
    members: Members,
) -> Messages:
    """Of the collectives of one process; `operations` and `groups` are numbers in `texts`."""
    kinds: dict[Message, int] = {}
    correlations, numbers = [], []
    columns = (rows[key].tolist() for key in ("correlation", "world_size", "bytes"))
    for name, group_name, correlation, size, count in zip(
        operations.tolist(), groups.tolist(), *columns, strict=True
    ):
        if not 0 < correlation < 1 << 63:
            continue
        transfer = _TRANSFER.fullmatch(texts[name])
        partner = members.get((group_name, int(transfer[1])), -1) if transfer else -1
        message = Message(texts[name], texts[group_name], size, max(0, count), partner)
        correlations.append(correlation)
        numbers.append(kinds.setdefault(message, len(kinds)))
    return Messages(np.array(correlations, np.int64), np.array(numbers, np.int64), tuple(kinds))
