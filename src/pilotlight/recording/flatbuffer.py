"""The part of FlatBuffers that Arrow needs: a builder, and a reader that trusts nothing."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pilotlight.errors import FormatError

_SHAPES = {code: struct.Struct(f"<{code}") for code in "bBhHiIqQ"}


@dataclass(frozen=True)
class Scalar:
    """`code` is a struct format of one number."""

    code: str
    value: int


@dataclass(frozen=True)
class Text:
    value: str


@dataclass(frozen=True)
class Structs:
    """A vector of structs with 8-byte members, already packed."""

    count: int
    data: bytes


@dataclass(frozen=True)
class Vector:
    items: Sequence[Node]


@dataclass(frozen=True)
class Node:
    """A table; the place of a field in `fields` is its number, None leaves it at its default."""

    fields: Sequence[Scalar | Text | Structs | Vector | Node | None]


def build(root: Node) -> bytes:
    """A buffer whose length is a multiple of 8, as Arrow wants its metadata."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _place(out, root))
    _align(out, 8)
    return bytes(out)


def _align(out: bytearray, multiple: int, ahead: int = 0) -> None:
    out.extend(bytes(-(len(out) + ahead) % multiple))


def _place(out: bytearray, item: Text | Structs | Vector | Node) -> int:
    if isinstance(item, Node):
        return _place_table(out, item)
    if isinstance(item, Text):
        text = item.value.encode()
        _align(out, 4)
        position = len(out)
        out += struct.pack("<I", len(text)) + text + b"\0"
        return position
    if isinstance(item, Structs):
        _align(out, 8, ahead=4)
        position = len(out)
        out += struct.pack("<I", item.count) + item.data
        return position
    _align(out, 4)
    position = len(out)
    out += struct.pack("<I", len(item.items)) + bytes(4 * len(item.items))
    for index, child in enumerate(item.items):
        _refer(out, position + 4 + 4 * index, child)
    return position


def _place_table(out: bytearray, table: Node) -> int:
    places = []
    size = 4
    for field in table.fields:
        if field is None:
            places.append(0)
            continue
        width = struct.calcsize(field.code) if isinstance(field, Scalar) else 4
        size += -size % width
        places.append(size)
        size += width
    directory = struct.pack(f"<HH{len(places)}H", 4 + 2 * len(places), size, *places)
    _align(out, 8, ahead=len(directory))
    out += directory
    position = len(out)
    out += struct.pack("<i", len(directory)) + bytes(size - 4)
    for place, field in zip(places, table.fields, strict=True):
        if isinstance(field, Scalar):
            struct.pack_into("<" + field.code, out, position + place, field.value)
        elif field is not None:
            _refer(out, position + place, field)
    return position


def _refer(out: bytearray, slot: int, item: Text | Structs | Vector | Node) -> None:
    struct.pack_into("<I", out, slot, _place(out, item) - slot)


class TableView:
    """One table in a buffer from anywhere; whatever does not fit raises FormatError."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._directory = position - self._number("i", position)
        self._fields = (self._number("H", self._directory) - 4) // 2

    @classmethod
    def root(cls, data: bytes) -> TableView:
        return cls(data, _unpack(data, "I", 0))

    def place(self, field: int) -> int | None:
        """Where in the buffer a field lies; None: it is absent and has its default."""
        if field >= self._fields:
            return None
        offset = self._number("H", self._directory + 4 + 2 * field)
        return self._position + offset if offset else None

    def scalar(self, field: int, code: str, default: int = 0) -> int:
        place = self.place(field)
        return default if place is None else self._number(code, place)

    def table(self, field: int) -> TableView | None:
        place = self.place(field)
        return None if place is None else TableView(self._data, self._follow(place))

    def text(self, field: int) -> str:
        start, size = self.vector(field, 1)
        try:
            return self._data[start : start + size].decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"metadata has text that is not UTF-8: {error.reason}") from None

    def tables(self, field: int) -> list[TableView]:
        start, count = self.vector(field, 4)
        slots = range(start, start + 4 * count, 4)
        return [TableView(self._data, self._follow(slot)) for slot in slots]

    def structs(self, field: int, code: str) -> list[tuple[int, ...]]:
        start, count = self.vector(field, struct.calcsize("<" + code))
        end = start + count * struct.calcsize("<" + code)
        return list(struct.iter_unpack("<" + code, self._data[start:end]))

    def vector(self, field: int, item_bytes: int) -> tuple[int, int]:
        """Where the items of a vector begin, and how many there are."""
        place = self.place(field)
        if place is None:
            return 0, 0
        position = self._follow(place)
        count = self._number("I", position)
        if count * item_bytes > len(self._data) - position - 4:
            raise FormatError("metadata has a vector that is longer than the metadata")
        return position + 4, count

    def _follow(self, slot: int) -> int:
        return slot + self._number("I", slot)

    def _number(self, code: str, position: int) -> int:
        return _unpack(self._data, code, position)


def _unpack(data: bytes, code: str, position: int) -> int:
    shape = _SHAPES[code]
    if position < 0 or position + shape.size > len(data):
        raise FormatError("metadata points outside itself")
    number: int = shape.unpack_from(data, position)[0]
    return number
