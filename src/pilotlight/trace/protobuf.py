"""Reads the wire format of protocol buffers: fields of a message, checked against its length."""

from __future__ import annotations

from collections.abc import Iterator

from pilotlight.errors import FormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Field = int | memoryview
_SIGN = 1 << 63


def fields(data: memoryview, place: int = 0) -> Iterator[tuple[int, Field]]:
    """Number and value of each field; FormatError with the byte if the message is damaged."""
    at, end = 0, len(data)
    while at < end:
        start = at
        key, at = _varint(data, at, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(data, at, place)
            yield number, value
        elif wire == BYTES:
            length, at = _varint(data, at, place)
            if length > end - at:
                raise FormatError(f"byte {place + start}: a field longer than its message")
            yield number, data[at : at + length]
            at += length
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            if size > end - at:
                raise FormatError(f"byte {place + start}: a field longer than its message")
            yield number, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise FormatError(f"byte {place + start}: wire type {wire}, not protocol buffers")


def signed(value: int) -> int:
    """An int64 field as written."""
    return value - (1 << 64) if value & _SIGN else value


def text(value: Field) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, memoryview) else ""


def _varint(data: memoryview, at: int, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise FormatError(f"byte {place + at}: ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
