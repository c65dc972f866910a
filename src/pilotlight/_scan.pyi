"""Reads Chrome traces: bytes in, columns out. Any bytes are read or refused, none harm."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

NOWHERE: int
"""The place of a first that there is none of."""

def set_budget(memory_bytes: int, folder: str) -> None:
    """What columns and bounded arrays may hold in memory together; more goes to files without a
    name there."""

def budget_bytes() -> int:
    """As it was set."""

def peak_bytes() -> int:
    """The most that they held in memory since the budget was set."""

def bound_arrays(numpy_functions: Any) -> Any:
    """Arrays that this thread makes from now on are within the budget; returns where they came
    from until now, for `set_handler`."""

def set_handler(numpy_functions: Any, handler: Any) -> Any:
    """Where arrays of this thread come from; returns where they came from until now."""

def join(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    new_start: NDArray[np.int64],
    new_end: NDArray[np.int64],
) -> int:
    """Fills in what these intervals cover, sorted and disjoint, and returns how many that are; -1
    if they are not sorted by their begins."""

def combine(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    other_start: NDArray[np.int64],
    other_end: NDArray[np.int64],
    wanted: int,
    new_start: NDArray[np.int64],
    new_end: NDArray[np.int64],
) -> int:
    """Fills in where two sets have the wanted members and returns how many intervals that are; a
    bit each: 2 in the first alone, 4 in the other alone, 8 in both."""

def cover(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    before: NDArray[np.int64],
    times: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Fills in how much of the set lies before each of the times; `before` is room for sums, one
    more than the set has intervals."""

class Scanner:
    """Takes one file block by block. `spans`, `counters`, `flows` and `arguments` give their
    columns away and are to be called once, after `finish`."""

    def __init__(
        self,
        *,
        kinds: list[tuple[str, int]],
        with_correlation: int,
        with_bytes: int,
        arguments: list[tuple[str, int]],
        unused_flows: list[str],
        most_names: int,
        most_lanes: int,
    ) -> None:
        """`kinds` by category. `with_correlation`, `with_bytes`: a bit for each kind.
        `arguments`: members of `args` to keep, as 0 integers, 1 real numbers, 2 texts."""

    def feed(self, block: bytes) -> bool:
        """False if nothing that follows matters."""

    def finish(self) -> None: ...
    def troubles(self) -> list[tuple[int, str, bool]]:
        """Place, text, and whether there is nothing to use because of it."""

    def malformed(self) -> tuple[int, int, str]:
        """Events left out, the place of the first, and why."""

    def metadata(self) -> bytes:
        """Members around the list that matter, as a JSON object."""

    def spans(self) -> tuple[NDArray[Any], ...]:
        """start_ns, duration_ns, kind, name, lane, correlation, bytes."""

    def counters(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64]]:
        """time_ns, name, value."""

    def flows(self) -> tuple[NDArray[Any], ...]:
        """phase (a character), name, lane, id, time_ns."""

    def arguments(self) -> dict[str, tuple[NDArray[np.uint32], NDArray[Any]]]:
        """Rows of spans and values: int64 or float64; for texts, numbers in `texts`."""

    def names(self) -> list[str]: ...
    def texts(self) -> list[str]: ...
    def lanes(self) -> list[tuple[str, str]]: ...
    def lane_names(self) -> list[tuple[int, str]]: ...
    def process_names(self) -> list[tuple[str, str]]: ...
    def skipped(self) -> dict[str, int]:
        """Events without a place in the model, by phase."""

    def dropped(self) -> dict[str, tuple[int, int]]:
        """How many were left out, and the place of the first, by what they are."""

    def repaired(self) -> tuple[int, int]:
        """Names that were no UTF-8 or held NUL, and the place of the first event with one."""

    def overflowed(self) -> tuple[int, int, int]:
        """Uses of names, lanes and texts beyond the limits."""
