"""What the name of a matrix product or convolution tells: its tile and its precision."""

from __future__ import annotations

import re

_TILE = re.compile(r"(?<!\d)(\d{2,3})x(\d{2,3})(?!\d)")
# These take their tiles themselves: their grid says nothing of how many there are.
_PERSISTENT = re.compile(
    r"nvjet|persistent|stream_?k|sm90|sm100|warpspecialized|cutlass::device_kernel", re.IGNORECASE
)
TF32 = re.compile(r"tf32|tensorop_s1688(?!gemm_(?:b?f16|fp16))|_s1688(?!gemm_(?:b?f16|fp16))")
# Winograd's algorithm makes tiles of 2 x 2 results of a 3 x 3 convolution with 16 products instead
# of 36, of 4 x 4 with 36 instead of 144.
_WINOGRAD = re.compile(r"winograd", re.IGNORECASE)
_WINOGRAD_4X4 = re.compile(r"winograd.*?4x4", re.IGNORECASE)
# The first that matches counts; bytes are those of an element of the result.
_PRECISIONS = (
    (re.compile(r"e4m3|e5m2|fp8|qmma", re.IGNORECASE), "fp8", 2),
    (TF32, "tf32", 4),
    (re.compile(r"bf16|bfloat16|_bbs_|_bb_", re.IGNORECASE), "bf16", 2),
    (re.compile(r"f16|fp16|half|hgemm|h884|h1688|h16816|_hhs_|_hh_", re.IGNORECASE), "fp16", 2),
    (re.compile(r"dgemm|d884|f64|double", re.IGNORECASE), "fp64", 8),
    (re.compile(r"sgemm|f32|fp32|ffma|float", re.IGNORECASE), "fp32", 4),
)


def tile_of(name: str) -> tuple[int, int] | None:
    """Rows and columns of the result that a block makes; None where the grid is not by tiles."""
    match = None if _PERSISTENT.search(name) else _TILE.search(name)
    return (int(match.group(1)), int(match.group(2))) if match else None


def precision_of(name: str) -> tuple[str, int] | None:
    """The peak that its arithmetic runs at, and the bytes of an element; None if not told."""
    return next(((peak, size) for text, peak, size in _PRECISIONS if text.search(name)), None)


def winograd_ratio(name: str) -> float:
    """How many products a convolution has for each one that this kernel computes."""
    if not _WINOGRAD.search(name):
        return 1.0
    return 4.0 if _WINOGRAD_4X4.search(name) else 2.25
