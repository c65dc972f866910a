"""Which module, operator and stack launched a kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import NONE, Bool, Int64, Kind, Spans, UInt32

OUTSIDE = "(outside)"
MODULE = "nn.Module: "
MAX_SPANS = 3_000_000
MAX_STACKS = 1000
MAX_FRAMES = 200

Path = tuple[str, ...]
Sums = tuple[int, int]


@dataclass(frozen=True)
class OwnerTime:
    """Kernels by what launched them: a module or the outermost operator."""

    rank: int
    owner: str
    kernels: int
    total_ns: int


@dataclass(frozen=True)
class StackTime:
    """Kernels by the Python functions around their launch, the outermost first."""

    rank: int
    stack: tuple[str, ...]
    kernels: int
    total_ns: int


def module_times(view: RankView) -> list[OwnerTime]:
    """By innermost module; empty if the trace has none (with_modules, with_stack)."""
    spans = view.trace.spans.take(np.flatnonzero(_is_module(view)))
    return _owners(view, _by_path(view, spans, lambda path: path[-1:]))


def operator_times(view: RankView) -> list[OwnerTime]:
    """By outermost operator; steps and other annotations are left out."""
    spans = view.trace.of_kind(Kind.OPERATOR)
    return _owners(view, _by_path(view, spans, lambda path: path[:1]))


def stack_times(view: RankView) -> list[StackTime]:
    """By stack, of the MAX_STACKS longest, and of all others together in one row at the end; empty
    if the trace has no Python functions (with_stack)."""
    # A module is a frame for each of its instances: the layers of a model would not be one stack.
    functions = view.trace.spans.is_kind(Kind.PYTHON) & ~_is_module(view)
    spans = view.trace.spans.take(np.flatnonzero(functions))
    found = _by_path(view, spans, lambda path: path[-MAX_FRAMES:])
    rows = [StackTime(view.rank, path or (OUTSIDE,), *sums) for path, sums in found]
    others = rows[MAX_STACKS:]
    if not others:
        return rows
    sums = sum(row.kernels for row in others), sum(row.total_ns for row in others)
    return [*rows[:MAX_STACKS], StackTime(view.rank, (f"({len(others)} other stacks)",), *sums)]


def _is_module(view: RankView) -> Bool:
    return view.trace.name_mask([name.startswith(MODULE) for name in view.trace.names])


def _owners(view: RankView, found: list[tuple[Path, Sums]]) -> list[OwnerTime]:
    return [
        OwnerTime(view.rank, path[0].removeprefix(MODULE) if path else OUTSIDE, *sums)
        for path, sums in found
    ]


def _by_path(
    view: RankView, spans: Spans, part: Callable[[list[int]], list[int]]
) -> list[tuple[Path, Sums]]:
    """Count and time of kernels by the names of that part of the spans around their launch, the
    longest first."""
    known = np.flatnonzero((view.device.kind == Kind.KERNEL) & (view.launch != NONE))
    if not len(spans) or not len(known) or len(spans) > MAX_SPANS:
        return []
    calls = view.calls.take(view.launch[known])
    # Views: lists of so many numbers would take several times the memory.
    lengths = view.device.duration_ns[known].data
    totals: dict[tuple[int, ...], list[int]] = defaultdict(lambda: [0, 0])
    name = spans.name.data
    for asked, path in around(spans, calls.lane, calls.start_ns):
        entry = totals[tuple([name[row] for row in part(path)])]
        entry[0] += 1
        entry[1] += lengths[asked]
    longest = sorted(totals.items(), key=lambda item: -item[1][1])
    return [
        (tuple(view.trace.names[number] for number in path), (count, total))
        for path, (count, total) in longest
    ]


def around(spans: Spans, lane: UInt32, time_ns: Int64) -> Iterator[tuple[int, list[int]]]:
    """For each time on a lane, in any order: its number, and the rows of the spans around it, the
    outermost first."""
    for each in np.unique(lane):
        mine = np.flatnonzero(spans.lane == each)
        mine = mine[np.lexsort((-spans.duration_ns[mine], spans.start_ns[mine]))]
        asked = np.flatnonzero(lane == each)
        asked = asked[np.argsort(time_ns[asked], kind="stable")]
        rows, starts = mine.data, spans.start_ns[mine].data
        ends = spans.end_ns[mine].data
        stack: list[int] = []
        place = 0
        for number, time in zip(asked.data, time_ns[asked].data, strict=True):
            while place < len(starts) and starts[place] <= time:
                stack.append(place)
                place += 1
            stack = [i for i in stack if ends[i] > time]
            yield number, [rows[i] for i in stack]
