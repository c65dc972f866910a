"""Reads pickles of numbers, texts, lists, tuples and dictionaries, whoever wrote them."""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any

from pilotlight.errors import FormatError

# Plain data only. Everything that names a class, calls, or sets state is left out, so that
# loading cannot run code.
_VALUES = """
NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT STRING BINSTRING
SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES
EMPTY_LIST EMPTY_TUPLE EMPTY_DICT
"""
_OTHERS = """
PROTO FRAME STOP MARK LIST APPEND APPENDS TUPLE TUPLE1 TUPLE2 TUPLE3 DICT SETITEM SETITEMS MEMOIZE
"""
_ONE_MORE = frozenset(_VALUES.split())
_PUTS = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GETS = frozenset(("GET", "BINGET", "LONG_BINGET"))
_SAFE = _ONE_MORE | _PUTS | _GETS | frozenset(_OTHERS.split())
# Tuples in tuples, each counted as often as it is there: hashing one as a key visits all of them.
_MOST_IN_TUPLE = 10_000
_MARK = -1


def load_plain(content: bytes, source: str) -> Any:
    """FormatError: there is more in it, or it is damaged."""
    place = 0
    sizes = _TupleSizes()
    try:
        for count, (opcode, argument, position) in enumerate(pickletools.genops(content)):
            place = position or 0
            if opcode.name not in _SAFE:
                raise FormatError(
                    f"{source}: byte {place}: a pickle with more than plain data"
                    f" ({opcode.name} {str(argument or '')[:80]}): refused"
                )
            # A memo index far beyond the number of objects makes the loader allocate for it.
            if opcode.name in _PUTS and int(argument or 0) > count:
                raise FormatError(f"{source}: byte {place}: a pickle with a wild memo: refused")
            if sizes.step(opcode.name, argument) > _MOST_IN_TUPLE:
                raise FormatError(f"{source}: byte {place}: a tuple without end: refused")
        return _PlainUnpickler(io.BytesIO(content)).load()
    except FormatError:
        raise
    except Exception as error:  # what a damaged pickle raises is not specified
        text = " ".join(str(error).split())[:120]
        raise FormatError(f"{source}: byte {place}: a damaged pickle ({text})") from None


class _TupleSizes:
    """The stack of the pickle's machine, with how many tuples are in each tuple; 0 for the rest."""

    def __init__(self) -> None:
        self._stack: list[int] = []
        self._memo: dict[int, int] = {}

    def step(self, name: str, argument: Any) -> int:
        """The size of a tuple that it makes, else 0."""
        stack = self._stack
        if name in _ONE_MORE:
            stack.append(0)
        elif name in _GETS:
            stack.append(self._memo[int(argument)])
        elif name in _PUTS:
            self._memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("APPEND", "SETITEM", "STOP"):
            del stack[-2 if name == "SETITEM" else -1 :]
        elif name in ("APPENDS", "SETITEMS"):
            self._to_mark()
        elif name in ("LIST", "DICT"):
            self._to_mark()
            stack.append(0)
        elif name.startswith("TUPLE"):
            parts = self._to_mark() if name == "TUPLE" else stack[-int(name[-1]) :]
            if name != "TUPLE":
                del stack[-int(name[-1]) :]
            stack.append(1 + sum(parts))
            return stack[-1]
        return 0

    def _to_mark(self) -> list[int]:
        place = len(self._stack) - 1
        while self._stack[place] != _MARK:
            place -= 1
        parts = self._stack[place + 1 :]
        del self._stack[place:]
        return parts


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"class {module}.{name} refused")

    def persistent_load(self, identity: Any) -> Any:
        raise pickle.UnpicklingError("persistent object refused")
