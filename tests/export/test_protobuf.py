from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.export.protobuf import integer, message, packed, text, varint


def read_varint(data: bytes) -> tuple[int, int]:
    number = shift = length = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        length += 1
        if byte < 0x80:
            break
    return number, length


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_varint_is_read_back(number: int) -> None:
    assert read_varint(varint(number)) == (number % 2**64, len(varint(number)))


def test_known_encodings() -> None:
    assert varint(300) == b"\xac\x02"
    assert integer(1, 150) == b"\x08\x96\x01"
    assert text(2, "testing") == b"\x12\x07testing"
    assert packed(6, [3, 270, 86942]) == b"\x32\x06\x03\x8e\x02\x9e\xa7\x05"
    assert message(3, integer(1, 150)) == b"\x1a\x03\x08\x96\x01"
