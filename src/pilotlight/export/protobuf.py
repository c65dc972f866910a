"""The wire format of protocol buffers: just what it takes to write."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(number: int) -> bytes:
    """`number` as an unsigned varint; negative numbers as 64-bit two's complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def integer(field: int, number: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(number)


def double(field: int, number: float) -> bytes:
    return varint(field << 3 | _FIXED64) + struct.pack("<d", number)


def fixed(field: int, number: int) -> bytes:
    return varint(field << 3 | _FIXED64) + struct.pack("<Q", number)


def message(field: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(field << 3 | _BYTES) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    # A lone surrogate cannot be in UTF-8; what has one still gets a name.
    return message(field, value.encode(errors="replace"))


def packed(field: int, numbers: Iterable[int]) -> bytes:
    return message(field, *(varint(number) for number in numbers))
