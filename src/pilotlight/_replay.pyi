"""Graphs of what waits for what: built from the columns of a trace, put in order, replayed."""

import numpy as np
from numpy.typing import NDArray

_Int64 = NDArray[np.int64]
_Float64 = NDArray[np.float64]
_UInt32 = NDArray[np.uint32]
_UInt8 = NDArray[np.uint8]

def put_in_order(first: _Int64, predecessors: _Int64, order: _Int64) -> bool:
    """Fills `order` so that nodes come after those they wait for; False if there is a circle."""

def replay(
    first: _Int64, predecessors: _Int64, order: _Int64, duration: _Float64, end: _Float64
) -> None:
    """Fills `end`, when each node ends."""

class Spans:
    def __init__(
        self, lane: _UInt32, start_ns: _Int64, duration_ns: _Int64, name: _UInt32
    ) -> None: ...

class Recorded:
    """The graph of a job, rank by rank. `role`, `rank`, `name`, `duration_ns` and `waiting` give
    their columns away and are to be called once, after `fill_edges`."""

    def __init__(self, host_name: int, device_name: int) -> None:
        """The names of what hosts and devices do between calls and spans."""

    def add_rank(
        self,
        *,
        rank: int,
        begin_ns: int,
        device: Spans,
        role: _UInt8,
        collects: _UInt8,
        receives: _UInt8,
        optimizes: _UInt8,
        launch: _Int64,
        collective: _Int64,
        transfer_ns: _Float64,
        calls: Spans,
        holds: _UInt8,
        given_ns: _Int64,
        waits: Spans,
        waits_given_ns: _Int64,
    ) -> tuple[_Int64, _Int64, _Int64]:
        """Node, begin and end of all time that the host spent until it made a call."""

    def node_count(self) -> int: ...
    def edge_count(self) -> int: ...
    def fill_edges(self, first: _Int64, predecessors: _Int64) -> None: ...
    def transfers(self) -> dict[int, int]:
        """The node of each collective that ranks share."""

    def role(self) -> _UInt8: ...
    def rank(self) -> NDArray[np.int32]: ...
    def name(self) -> _UInt32: ...
    def duration_ns(self) -> _Float64: ...
    def waiting(self) -> _UInt32:
        """The nodes of calls that wait for the device."""
