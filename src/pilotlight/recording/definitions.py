"""Names, functions and stacks of all processes of a recording, under ids of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, Columns

UNKNOWN = "(unknown)"
DEPTH_LIMIT = 1024
# Where the functions live that stand between a caller and a callee of the user's: what @annotate
# and the adapters of frameworks wrap around them.
_OWN_FILES = "/pilotlight/probe/"


@dataclass(frozen=True)
class Frame:
    function: str
    file: str
    line: int
    first_line: int


class _Keys:
    """Finds the row of (process, id) in a table of definitions."""

    def __init__(self, table: Columns) -> None:
        keys = _key(table["process"], table["id"])
        self._keys, self.rows = np.unique(keys, return_index=True)

    def find(self, process: Array, ids: Array) -> Array:
        """Positions in `rows`, -1 for what is not defined."""
        wanted = _key(process, ids)
        if not self._keys.size:
            return np.full(wanted.shape, -1)
        places = np.minimum(np.searchsorted(self._keys, wanted), self._keys.size - 1)
        found: Array = np.where(self._keys[places] == wanted, places, -1)
        return found


def _key(process: Array, ids: Array) -> Array:
    key: Array = (process.astype(np.uint64) << np.uint64(32)) | ids.astype(np.uint64)
    return key


class Names:
    """`texts[0]` is "", for id 0; `texts[1]` stands for what is not defined."""

    def __init__(self, table: Columns) -> None:
        self._keys = _Keys(table)
        numbers: dict[str, int] = {"": 0, UNKNOWN: 1}
        texts = table.texts["text"]
        self._numbers = np.array(
            [numbers.setdefault(texts[row], len(numbers)) for row in self._keys.rows.tolist()],
            np.int64,
        )
        self.texts = list(numbers)

    def find(self, process: Array, ids: Array) -> Array:
        """Positions in `texts`; the same text has the same position in every process."""
        places = self._keys.find(process, ids)
        known = np.append(self._numbers, 1)[places]
        return np.where(ids == 0, 0, known)


class CallTree:
    """Every stack of every process as a node of one tree; node 0 is its root, above all stacks.

    Our own wrappers are left out where they only stand between two others; a stack that ends in one
    keeps it, so that what they cost is seen.

    `parents[n] < n`; `frames[n]` is a position in `frame_list`.
    """

    def __init__(self, frames: Columns, stacks: Columns) -> None:
        frame_keys = _Keys(frames)
        numbers: dict[Frame, int] = {Frame(UNKNOWN, "", 0, 0): 0}
        functions, files = frames.texts["function"], frames.texts["file"]
        lines, first_lines = frames["line"].tolist(), frames["first_line"].tolist()
        frame_numbers = [
            numbers.setdefault(
                Frame(functions[row], files[row], lines[row], first_lines[row]), len(numbers)
            )
            for row in frame_keys.rows.tolist()
        ]
        self.frame_list = list(numbers)

        self._keys = _Keys(stacks)
        rows = self._keys.rows
        process, parent = stacks["process"][rows], stacks["parent"][rows]
        found = frame_keys.find(process, stacks["frame"][rows])
        frame_of = np.append(np.array(frame_numbers, np.int64), 0)[found]
        parent_of = np.where(parent == 0, -2, self._keys.find(process, parent))
        own = [_OWN_FILES in frame.file for frame in self.frame_list]
        self._grow(parent_of.tolist(), frame_of.tolist(), own)

    def _grow(self, parent_of: list[int], frame_of: list[int], own: list[bool]) -> None:
        """Rows are in the order of ids, and a true stack has a parent with a smaller id."""
        nodes: dict[tuple[int, int], int] = {}
        self.parents, self.frames, self.depths = [0], [0], [0]
        node_of: list[int] = []
        above_callees: list[int] = []
        self.strange = 0
        for row, (parent, frame) in enumerate(zip(parent_of, frame_of, strict=True)):
            if parent == -2:
                above = 0
            elif 0 <= parent < row and self.depths[above_callees[parent]] < DEPTH_LIMIT:
                above = above_callees[parent]
            else:
                self.strange += 1
                above = self._node(nodes, 0, 0)
            node_of.append(self._node(nodes, above, frame))
            above_callees.append(above if own[frame] else node_of[row])
        self._node_of = np.array([*node_of, self._node(nodes, 0, 0)], np.int64)

    def _node(self, nodes: dict[tuple[int, int], int], parent: int, frame: int) -> int:
        node = nodes.setdefault((parent, frame), len(self.parents))
        if node == len(self.parents):
            self.parents.append(parent)
            self.frames.append(frame)
            self.depths.append(self.depths[parent] + 1)
        return node

    def find(self, process: Array, stacks: Array) -> Array:
        """The node of each stack; the root for stack 0, a node `(unknown)` if it is not defined."""
        places = self._keys.find(process, stacks)
        return np.where(stacks == 0, 0, self._node_of[places])

    def path(self, node: int) -> list[Frame]:
        """From the outermost caller to the function that ran."""
        frames = []
        while node:
            frames.append(self.frame_list[self.frames[node]])
            node = self.parents[node]
        return frames[::-1]
