"""The datagrams: what real clients send is understood, anything else is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.kineto import message

# As torch 2.13 sent it: type 3, five pids, no Slurm job.
REAL = bytes.fromhex(
    "2400000000000000"
    + "726571"
    + "00" * 29
    + "03000000050000000000000000000000"
    + "de570000955700009357"
    "00005d1400005c140000"
)


def datagram(kind: bytes, payload: bytes) -> bytes:
    return struct.pack("<Q32s", len(payload), kind) + payload


def poll(wanted: int, *pids: int, job: int = 0) -> bytes:
    return datagram(b"req", struct.pack(f"<iiq{len(pids)}i", wanted, len(pids), job, *pids))


def test_a_real_poll_is_understood() -> None:
    assert message.parse(REAL) == message.Poll(True, 0, (22494, 22421, 22419, 5213, 5212))


@pytest.mark.parametrize(("wanted", "accepts"), [(3, True), (2, True), (1, False), (0, False)])
def test_old_and_new_versions_say_whether_they_are_idle(wanted: int, accepts: bool) -> None:
    found = message.parse(poll(wanted, 7))
    assert isinstance(found, message.Poll)
    assert found.accepts is accepts


def test_the_hello_of_old_versions_is_understood() -> None:
    found = message.parse(datagram(b"ctxt", struct.pack("<iiq", 1, 4711, 12)))
    assert found == message.Hello(1, 4711, 12)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"", "shorter than its head"),
        (REAL[:39], "shorter than its head"),
        (REAL + b"x", "length"),
        (struct.pack("<Q32s", 1 << 63, b"req"), "length"),
        (datagram(b"req", b""), "without its fields"),
        (datagram(b"req", struct.pack("<iiq", 3, 0, 0)), "number of pids"),
        (datagram(b"req", struct.pack("<iiqi", 3, -1, 0, 5)), "number of pids"),
        (datagram(b"req", struct.pack("<iiqi", 3, 1 << 30, 0, 5)), "number of pids"),
        (poll(3, -5), "impossible pid"),
        (datagram(b"req\0evil", b"x"), "behind its end"),
        (datagram(b"shut", b""), "unknown type"),
        (datagram(b"ctxt", b"short"), "another length"),
        (datagram(b"req", bytes(4096)), "longer than any request"),
    ],
)
def test_what_is_no_message_is_refused(bad: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        message.parse(bad)


@given(st.binary(max_size=2048))
def test_any_bytes_are_understood_or_refused(data: bytes) -> None:
    try:
        found = message.parse(data)
    except FormatError:
        return
    assert isinstance(found, message.Poll | message.Hello)


@given(
    st.integers(0, 3),
    st.lists(st.integers(1, (1 << 31) - 1), min_size=1, max_size=message.MOST_PIDS),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_every_well_formed_poll_is_understood(wanted: int, pids: list[int], job: int) -> None:
    assert message.parse(poll(wanted, *pids, job=job)) == message.Poll(
        bool(wanted & 2), job, tuple(pids)
    )


def test_an_answer_has_the_length_of_its_text() -> None:
    assert message.configuration("") == struct.pack("<Q32s", 0, b"req")
    assert message.configuration("a=ü\n") == datagram(b"req", "a=ü\n".encode())
    assert message.welcome(3) == datagram(b"ctxt", struct.pack("<i", 3))
