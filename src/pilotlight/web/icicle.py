"""The tree of host spans and the kernels they launched, with the time of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.trace.trace import NONE, Float64, Int64, Kind, Lane, Trace, UInt8
from pilotlight.web.activity import Activity
from pilotlight.web.layout import is_made, nested
from pilotlight.web.table import stream, texts_of

UNLAUNCHED = "(launched outside the trace)"
_STEP = re.compile(r"(ProfilerStep)#\d+")
_NUMBER = re.compile(r"\b\d+\b")


@dataclass(frozen=True)
class Icicle:
    """Node 0 is the root and `parent[n] < n`; times are a node's own, without its children."""

    names: tuple[str, ...]
    parent: Int64
    name: Int64
    activity: UInt8
    host_ns: Float64
    device_ns: Float64

    def to_stream(self) -> bytes:
        return stream(
            {
                "parent": self.parent.astype(np.uint32),
                "activity": self.activity,
                "host": self.host_ns,
                "device": self.device_ns,
                "name": texts_of(self.names, self.name),
            }
        )


class _Tree:
    def __init__(self) -> None:
        self.names: list[str] = []
        self._texts: dict[str, int] = {}
        self.parent = [0]
        self.name = [self.number("all")]
        self.activity = [int(Activity.OTHER)]
        self._numbers: dict[tuple[int, int], int] = {}

    def number(self, text: str) -> int:
        """Of a name, made where it is new."""
        known = self._texts.setdefault(text, len(self.names))
        if known == len(self.names):
            self.names.append(text)
        return known

    def nodes(self, parents: Int64, names: Int64, activity: UInt8) -> Int64:
        """The node below each parent with this name, made where it is new."""
        width = len(self.names)
        keys, first, place = np.unique(
            parents * width + names, return_index=True, return_inverse=True
        )
        numbers = np.empty(keys.size, np.int64)
        for i, row in enumerate(first.tolist()):
            key = (int(parents[row]), int(names[row]))
            number = self._numbers.setdefault(key, len(self.parent))
            if number == len(self.parent):
                self.parent.append(key[0])
                self.name.append(key[1])
                self.activity.append(int(activity[row]))
            numbers[i] = number
        return numbers[place]

    def below_root(self, text: str) -> int:
        one = np.zeros(1, np.int64), np.array([self.number(text)], np.int64)
        return int(self.nodes(*one, np.zeros(1, np.uint8))[0])


def _merging(tree: _Tree, names: Sequence[str]) -> Int64:
    """The number of each name in the tree; the steps of a loop are one, whatever their numbers."""
    return np.array([tree.number(_STEP.sub(r"\1", name)) for name in names], np.int64)


def _thread(lane: Lane) -> str:
    """Without the numbers of this one run, by which no two traces could be compared."""
    words = " ".join(_NUMBER.sub(" ", lane.name).split())
    return words or "thread"


def icicle_of(
    trace: Trace,
    activity: UInt8,
    partner: Int64,
    from_ns: int,
    to_ns: int,
) -> Icicle:
    """Of the time between; spans that reach beyond count with their part of it. Steps and threads
    of one name are one. Lanes that the page made are no work of the host's and left out."""
    spans = trace.spans
    end = spans.start_ns + spans.duration_ns
    inside = (np.minimum(end, to_ns) - np.maximum(spans.start_ns, from_ns)).clip(min=0)
    tree = _Tree()
    name_of = _merging(tree, trace.names)[spans.name] if len(spans) else np.empty(0, np.int64)
    node_of = np.full(len(spans), NONE, np.int64)
    own = np.zeros(len(spans), np.float64)
    is_device = (spans.kind >= Kind.KERNEL) & (spans.kind <= Kind.MEMSET)
    is_host = ~is_device & (spans.kind != Kind.DEVICE_ANNOTATION) & (spans.kind != Kind.SYNC)
    for number, lane in enumerate(trace.lanes):
        if is_made(lane):
            continue
        mine = np.flatnonzero((spans.lane == number) & is_host & (inside > 0))
        if not mine.size:
            continue
        root = tree.below_root(_thread(lane))
        order, depth = nested(trace, mine)
        _grow(tree, name_of, order, depth, root, activity, node_of, own, inside)
    device = np.flatnonzero(is_device & (inside > 0))
    if device.size:
        launch = partner[device]
        above = np.where(launch == NONE, NONE, node_of[launch])
        if (above == NONE).any():
            above = np.where(above == NONE, tree.below_root(UNLAUNCHED), above)
        node_of[device] = tree.nodes(above, name_of[device], activity[device])
    size = len(tree.parent)
    on_host = np.flatnonzero((node_of != NONE) & is_host)
    host_ns = np.bincount(node_of[on_host], own[on_host], size)
    device_ns = np.bincount(node_of[device], inside[device].astype(np.float64), size)
    return Icicle(
        tuple(tree.names),
        np.array(tree.parent, np.int64),
        np.array(tree.name, np.int64),
        np.array(tree.activity, np.uint8),
        host_ns.astype(np.float64),
        device_ns.astype(np.float64),
    )


def _grow(
    tree: _Tree,
    name_of: Int64,
    order: Int64,
    depth: Int64,
    root: int,
    activity: UInt8,
    node_of: Int64,
    own: Float64,
    inside: Int64,
) -> None:
    """Depth by depth: the parent of a span is the last one before it that is a level up."""
    own[order] = inside[order]
    before = np.empty(0, np.int64)
    for level in range(int(depth.max()) + 1):
        places = np.flatnonzero(depth == level)
        mine = order[places]
        if level == 0:
            above = np.full(mine.size, root, np.int64)
        else:
            owner = order[before[np.searchsorted(before, places) - 1]]
            above = node_of[owner]
            np.subtract.at(own, owner, inside[mine])
        node_of[mine] = tree.nodes(above, name_of[mine], activity[mine])
        before = places
    np.maximum(own, 0, out=own)
