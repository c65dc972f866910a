"""Arguments of spans as they are read, for the readers that see one row at a time."""

from __future__ import annotations

from array import array

import numpy as np

from pilotlight.trace.kineto import ARGUMENTS, TEXT
from pilotlight.trace.span_table import Interned
from pilotlight.trace.trace import Argument

MAX_TEXTS = 1_000_000
OVERFLOW_TEXT = "(more than fit)"


class ArgumentTable:
    """Keeps what Kineto's traces say under the same names."""

    def __init__(self) -> None:
        self._texts = Interned(MAX_TEXTS, OVERFLOW_TEXT)
        self._columns: dict[str, tuple[array[int], array[int] | array[float]]] = {}

    def add(self, row: int, key: str, value: int | float | str) -> None:
        is_text = ARGUMENTS.get(key) == TEXT
        if key not in ARGUMENTS or isinstance(value, str) != is_text:
            return
        code = "d" if isinstance(value, float) else "q"
        rows, values = self._columns.setdefault(key, (array("I"), array(code)))
        if values.typecode != code:
            return
        rows.append(row)
        values.append(self._texts[value] if is_text else value)  # type: ignore[arg-type]

    def arguments(self) -> dict[str, Argument]:
        texts = tuple(self._texts)
        return {
            key: Argument(np.array(rows), np.array(values), texts if ARGUMENTS[key] == TEXT else ())
            for key, (rows, values) in self._columns.items()
        }
