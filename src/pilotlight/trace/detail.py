"""What spans say of themselves beyond the columns: shapes of operators, messages of collectives,
grids of kernels. Rows belong to a span by its correlation and, where several have the same, by
its begin (`start_ns`, else empty): see detail_row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_Int64 = NDArray[np.int64]


def _none() -> _Int64:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Operator:
    """`shapes` has a tuple an input, empty for what is no tensor; `values` one for each that is a
    list of integers or True, where the trace tells them and a cost depends on them."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    values: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Operators:
    """Rows of operators; `kind` is a number in `kinds`, the distinct operators with shapes, and
    `thread` one in `threads`."""

    start_ns: _Int64 = field(default_factory=_none)
    duration_ns: _Int64 = field(default_factory=_none)
    thread: _Int64 = field(default_factory=_none)
    kind: _Int64 = field(default_factory=_none)
    kinds: tuple[Operator, ...] = ()
    threads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """Of one collective: `bytes` on the large side, `group` distinct among the groups of a job.
    `partner` is the other rank of a transfer between two, else -1."""

    operation: str
    group: str
    size: int
    bytes: int
    partner: int = -1


@dataclass(frozen=True)
class Messages:
    """Rows of communication kernels; `kind` is a number in `kinds`."""

    correlation: _Int64 = field(default_factory=_none)
    kind: _Int64 = field(default_factory=_none)
    kinds: tuple[Message, ...] = ()
    start_ns: _Int64 = field(default_factory=_none)


@dataclass(frozen=True)
class Grids:
    """Rows of kernels: blocks of the grid, threads of a block, and the blocks along the first side
    of the grid, which may not be known."""

    correlation: _Int64 = field(default_factory=_none)
    blocks: _Int64 = field(default_factory=_none)
    threads: _Int64 = field(default_factory=_none)
    along: _Int64 = field(default_factory=_none)
    start_ns: _Int64 = field(default_factory=_none)


@dataclass(frozen=True)
class Detail:
    operators: Operators = field(default_factory=Operators)
    messages: Messages = field(default_factory=Messages)
    grids: Grids = field(default_factory=Grids)
