from __future__ import annotations

import gzip
import io
import threading
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.trace import block
from pilotlight.trace.block import BlockFile, Truncated, ahead, expanded


@given(st.binary(max_size=5000), st.binary(max_size=5000))
def test_gzip_members_follow_each_other(first: bytes, second: bytes) -> None:
    packed = gzip.compress(first) + gzip.compress(second)
    assert b"".join(expanded(io.BytesIO(packed), "x")) == first + second


def test_plain_bytes_pass_through() -> None:
    assert b"".join(expanded(io.BytesIO(b"abc"), "x")) == b"abc"


def test_truncated_gzip_gives_what_there_is_and_then_says_so() -> None:
    content = bytes(range(256)) * 4000
    packed = gzip.compress(content)
    parts = []
    with pytest.raises(Truncated, match="ends early"):
        for part in expanded(io.BytesIO(packed[:-200]), "x"):
            parts.append(part)
    assert parts and content.startswith(b"".join(parts))


def test_a_bomb_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "EXPANSION_GRACE_BYTES", 1 << 20)
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(bytes(64 << 20)) + packer.flush()
    seen = 0
    with pytest.raises(FormatError, match=r"x: byte \d+: expands more than"):
        for part in expanded(io.BytesIO(packed), "x"):
            seen += len(part)
    assert seen < 32 << 20


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 60))
def test_a_block_file_reads_like_the_joined_blocks(blocks: list[bytes], size: int) -> None:
    file = BlockFile(iter(blocks))
    parts = []
    while part := file.read(size):
        parts.append(part)
    assert b"".join(parts) == b"".join(blocks)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=20))
def test_blocks_made_ahead_are_the_same(blocks: list[bytes]) -> None:
    assert list(ahead(iter(blocks))) == blocks


def test_what_goes_wrong_ahead_is_raised_after_the_blocks_before_it() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"a"
        raise Truncated("here")

    seen = []
    with pytest.raises(Truncated, match="here"):
        for block_ in ahead(blocks()):
            seen.append(block_)
    assert seen == [b"a"]


def test_the_thread_ends_when_its_reader_stops() -> None:
    before = threading.active_count()
    endless = ahead(iter(lambda: b"a", b""))
    assert next(endless) == b"a"
    endless.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
