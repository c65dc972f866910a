"""Zstandard from the standard library where it has it, else from its backport."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

__all__ = ["ZstdCompressor", "ZstdDecompressor", "ZstdError"]
