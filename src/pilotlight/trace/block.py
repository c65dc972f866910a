"""Bytes of a file in blocks: plain or gzip, bounded."""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Iterator
from typing import Protocol

from pilotlight.errors import FormatError

# Small enough that blocks and the events in them stay in the cache; measured.
BLOCK_BYTES = 256 << 10
# Of packed data, of which what a block leaves is copied with each block.
PACKED_BYTES = 64 << 10
# Of what needs no unpacking: above 128 kB each block would be mapped and unmapped by itself, for
# which the readers of several files wait for each other.
PLAIN_BYTES = 96 << 10
GZIP_MAGIC = b"\x1f\x8b"

# Kineto traces compress 20- to 40-fold. Deflate cannot exceed 1032-fold, which only a file made
# for that purpose comes near.
MAX_EXPANSION_RATIO = 400
EXPANSION_GRACE_BYTES = 256 << 20


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Truncated(Exception):
    """The compressed data ends early; what came before is good."""


def expanded(source: Source, name: str) -> Iterator[bytes]:
    """The content of `source` in blocks, decompressed if it is gzip."""
    first = source.read(PACKED_BYTES)
    if first[:2] != GZIP_MAGIC:
        while first:
            yield first
            first = source.read(PLAIN_BYTES)
        return
    yield from _inflated(source, first, name)


def _inflated(source: Source, packed: bytes, name: str) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=31)
    read_bytes = len(packed)
    out_bytes = 0
    while True:
        try:
            block = inflater.decompress(packed, BLOCK_BYTES)
        except zlib.error as error:
            raise Truncated(f"gzip data is damaged after byte {out_bytes} ({error})") from None
        out_bytes += len(block)
        if out_bytes > EXPANSION_GRACE_BYTES and out_bytes > MAX_EXPANSION_RATIO * read_bytes:
            raise FormatError(
                f"{name}: byte {read_bytes}: expands more than {MAX_EXPANSION_RATIO}-fold: refused"
            )
        if block:
            yield block
        packed = inflater.unconsumed_tail
        if inflater.eof:
            packed = inflater.unused_data or source.read(PACKED_BYTES)
            if not packed.strip(b"\0"):
                return
            inflater = zlib.decompressobj(wbits=31)
        elif not packed:
            packed = source.read(PACKED_BYTES)
            read_bytes += len(packed)
            if not packed:
                raise Truncated(f"gzip data ends early after byte {out_bytes}")


BLOCKS_AHEAD = 8


def ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same blocks, made in a thread of their own: inflating needs no lock of Python's."""
    waiting: queue.Queue[bytes | Exception] = queue.Queue(BLOCKS_AHEAD)
    given_up = threading.Event()

    def put(item: bytes | Exception) -> bool:
        while not given_up.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for block in blocks:
                if block and not put(block):
                    return
            put(b"")
        except Exception as error:  # raised again by the one who reads
            put(error)

    maker = threading.Thread(target=make, name="pilotlight inflate", daemon=True)
    maker.start()
    try:
        while item := waiting.get():
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        given_up.set()
        maker.join()


class BlockFile:
    """The blocks of an iterator as a readable file, for `tarfile`."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = b""
        self._used = 0

    def read(self, size: int, /) -> bytes:
        parts = []
        while size > 0:
            if self._used == len(self._block):
                self._block, self._used = next(self._blocks, b""), 0
                if not self._block:
                    break
            part = self._block[self._used : self._used + size]
            self._used += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)
