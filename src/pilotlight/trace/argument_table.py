"""Arguments of spans as they are read, for the readers that see one row at a time."""

from __future__ import annotations

from array import array

import numpy as np

from pilotlight.trace.kineto import ARGUMENTS, REAL, TEXT
from pilotlight.trace.span_table import Interned
from pilotlight.trace.trace import Argument

MAX_TEXTS = 1_000_000
OVERFLOW_TEXT = "(more than fit)"
_MOST = 1 << 63


class ArgumentTable:
    """Keeps what Kineto's traces say under the same names."""

    def __init__(self) -> None:
        self._texts = Interned(MAX_TEXTS, OVERFLOW_TEXT)
        self._columns: dict[str, tuple[array[int], array[int] | array[float]]] = {}

    def add(self, row: int, key: str, value: int | float | str) -> None:
        """A value of another kind than Kineto's is not what the name means: it is left out."""
        kind = ARGUMENTS.get(key)
        kept = self._number(kind, value)
        if kind is None or kept is None:
            return
        code = "d" if kind == REAL else "q"
        rows, values = self._columns.setdefault(key, (array("I"), array(code)))
        rows.append(row)
        values.append(kept)  # type: ignore[arg-type]

    def _number(self, kind: int | None, value: int | float | str) -> int | float | None:
        if isinstance(value, str):
            return self._texts[value] if kind == TEXT else None
        if kind == REAL:
            return float(value)
        is_whole = isinstance(value, int) or value.is_integer()
        return int(value) if kind != TEXT and is_whole and abs(value) < _MOST else None

    def arguments(self) -> dict[str, Argument]:
        texts = tuple(self._texts)
        return {
            key: Argument(np.array(rows), np.array(values), texts if ARGUMENTS[key] == TEXT else ())
            for key, (rows, values) in self._columns.items()
        }
