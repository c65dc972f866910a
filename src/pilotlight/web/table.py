"""Columns for the browser: an uncompressed Arrow stream, texts as a dictionary."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotlight.recording import arrow
from pilotlight.recording.flatbuffer import Node, Scalar, Structs, Text, Vector, build

Array = npt.NDArray[Any]

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
HEADER_DICTIONARY = 2
_INTEGERS = {"uint8": (8, 0), "uint16": (16, 0), "uint32": (32, 0), "int32": (32, 1)}
_PRECISIONS = {"float32": 1, "float64": 2}


@dataclass(frozen=True)
class Texts:
    """A column of few different texts: `numbers` are places in `values`."""

    values: Sequence[str]
    numbers: Array


def texts_of(names: Sequence[str], numbers: Array) -> Texts:
    """The texts that occur, and only those."""
    used, place = np.unique(numbers, return_inverse=True)
    return Texts([names[number] for number in used.tolist()], place.astype(np.uint32))


def stream(columns: Mapping[str, Array | Texts]) -> bytes:
    """One batch of all rows; every array 1-dimensional and of the same length."""
    fields, dictionaries, buffers = [], [], []
    rows = 0
    for number, (name, column) in enumerate(columns.items()):
        if isinstance(column, Texts):
            dictionaries.append(_dictionary(number, column.values))
            encoding = Node([Scalar("q", number), _integer("uint32"), Scalar("B", 0)])
            fields.append(_field(name, arrow.TYPE_UTF8, Node([]), encoding))
            data = np.ascontiguousarray(column.numbers, np.uint32)
        else:
            data = np.ascontiguousarray(column)
            fields.append(_field(name, *_type_of(data.dtype.name), None))
        rows = data.size
        buffers += [b"", data.tobytes()]
    schema = Node([Scalar("h", 0), Vector(fields)])
    body, batch = _batch(rows, len(columns), buffers)
    parts = [_message(arrow.HEADER_SCHEMA, schema, b""), *dictionaries]
    parts += [_message(arrow.HEADER_BATCH, batch, body), arrow.END_OF_STREAM]
    return b"".join(parts)


def _type_of(dtype: str) -> tuple[int, Node]:
    if dtype in _PRECISIONS:
        return arrow.TYPE_FLOAT, Node([Scalar("h", _PRECISIONS[dtype])])
    return arrow.TYPE_INT, _integer(dtype)


def _integer(dtype: str) -> Node:
    bits, signed = _INTEGERS[dtype]
    return Node([Scalar("i", bits), Scalar("B", signed)])


def _field(name: str, kind: int, detail: Node, dictionary: Node | None) -> Node:
    not_nullable = Scalar("B", 0)
    return Node([Text(name), not_nullable, Scalar("B", kind), detail, dictionary, Vector([])])


def _dictionary(number: int, values: Sequence[str]) -> bytes:
    encoded = [value.encode("utf-8", "replace") for value in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    body, batch = _batch(len(encoded), 1, [b"", offsets.tobytes(), b"".join(encoded)])
    return _message(HEADER_DICTIONARY, Node([Scalar("q", number), batch, Scalar("B", 0)]), body)


def _batch(rows: int, columns: int, buffers: Sequence[bytes]) -> tuple[bytes, Node]:
    body = bytearray()
    places: list[int] = []
    for data in buffers:
        places += (len(body), len(data))
        body += data
        body += bytes(-len(body) % arrow.ALIGN_BYTES)
    nodes = Structs(columns, struct.pack(f"<{2 * columns}q", *((rows, 0) * columns)))
    packed = Structs(len(buffers), struct.pack(f"<{len(places)}q", *places))
    return bytes(body), Node([Scalar("q", rows), nodes, packed])


def _message(kind: int, header: Node, body: bytes) -> bytes:
    version = Scalar("h", arrow.METADATA_V5)
    metadata = build(Node([version, Scalar("B", kind), header, Scalar("q", len(body))]))
    return arrow.CONTINUATION + struct.pack("<i", len(metadata)) + metadata + body
