"""The facts of the Arrow IPC stream format that the encoder and the decoder share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

CONTINUATION: Final = b"\xff\xff\xff\xff"
END_OF_STREAM: Final = CONTINUATION + bytes(4)

ALIGN_BYTES: Final = 8
METADATA_LIMIT_BYTES: Final = 1 << 20
BATCH_LIMIT_BYTES: Final = 256 << 20
"""Uncompressed. The writer makes no batch beyond it, so the reader need not believe in one."""

METADATA_V5: Final = 4
HEADER_SCHEMA: Final = 1
HEADER_BATCH: Final = 3
TYPE_INT: Final = 2
TYPE_FLOAT: Final = 3
TYPE_UTF8: Final = 5
PRECISION_DOUBLE: Final = 2
CODEC_ZSTD: Final = 1

NOT_COMPRESSED: Final = -1
"""In place of the uncompressed length before a buffer."""

INTEGERS: Mapping[str, tuple[int, bool]] = MappingProxyType(
    {
        "u8": (8, False),
        "u16": (16, False),
        "u32": (32, False),
        "u64": (64, False),
        "i64": (64, True),
    }
)
"""Bits and sign by kind of column."""
