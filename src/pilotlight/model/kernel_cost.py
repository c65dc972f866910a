"""What a kernel must do at least, from its name and grid: a guess, where no shapes are recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pilotlight.model.cost import Cost

# Elements that a thread of PyTorch's elementwise kernels works on, and those of a block of its
# kernels over lists of tensors.
ELEMENTS_A_THREAD = 4
ELEMENTS_A_CHUNK = 65_536

_ELEMENTWISE = re.compile(r"(?:vectorized|unrolled)_elementwise_kernel")
_POINTERS = re.compile(r"(?:std::array|at::detail::Array)<char\*, (?:\(int\))?(\d+)")
# Of kernels for any strides, and of those that go by indices: threads of a block, elements of a
# thread. One input at least is as large as the result; others may be small and spread over it.
_STRIDED = re.compile(r"elementwise_kernel<(?:\(int\))?(\d+), (?:\(int\))?(\d+)")
# The power of two that is not below the length of a row.
_SOFTMAX = re.compile(r"softmax_warp_(?P<way>forward|backward)<.*?, (?:\(int\))?(?P<log2>\d+), ")
_GATHER = re.compile(r"vectorized_gather_kernel<(?:\(int\))?(\d+),")
_LISTS = re.compile(r"multi_tensor_apply_kernel.*?TensorList(?:ScalarList)?Metadata<(\d+)")
# Width of a head, and the queries and keys of a block's tile; then whether there is dropout, and
# whether queries see earlier keys only.
_FLASH = re.compile(
    r"flash_(?P<way>fwd_kernel|bwd_dq_dk_dv_loop_seqk_parallel_kernel)<[\w:]*kernel_traits<"
    r"(?:\(int\))?(?P<width>\d+), (?:\(int\))?(?P<queries>\d+), (?:\(int\))?(?P<keys>\d+),"
    r".*?> ?>?, (?:\(bool\))?\w+, (?:\(bool\))?(?P<causal>\w+)"
)
_TYPES = (
    (re.compile(r"bfloat16|half|__half", re.IGNORECASE), 2, "bf16"),
    (re.compile(r"double"), 8, "fp64"),
    (re.compile(r"float"), 4, "fp32"),
)


@dataclass(frozen=True)
class Grid:
    """`along`: blocks along the first side; 0 where that is not known."""

    blocks: int
    threads: int
    along: int = 0


def cost_of_kernel(name: str, grid: Grid) -> Cost | None:
    """None for kernels whose work their grid does not tell, such as matrix products."""
    found = next(((size, peak) for text, size, peak in _TYPES if text.search(name)), None)
    blocks, threads = grid.blocks, grid.threads
    if blocks <= 0 or threads <= 0:
        return None
    if gathered := _GATHER.search(name):
        return Cost(0.0, 2.0 * blocks * threads * int(gathered.group(1)), "fp32")
    if found is None:
        return None
    size, peak = found
    if softmax := _SOFTMAX.search(name):
        return _softmax(softmax, grid, size, peak)
    flash = _FLASH.search(name)
    if flash and grid.along:
        return _attention(flash, grid, size, peak)
    lists = _LISTS.search(name)
    if lists:
        # Each list is read; all but the gradients are written.
        passes = 2 * int(lists.group(1)) - 1
        elements = float(blocks) * ELEMENTS_A_CHUNK
        return Cost(10 * elements, passes * elements * size, peak)
    pointers = _POINTERS.search(name)
    if _ELEMENTWISE.search(name) and pointers:
        elements = float(blocks) * threads * ELEMENTS_A_THREAD
        return Cost(elements, elements * int(pointers.group(1)) * size, peak)
    # Types of the arrays are told only where nothing is cast.
    if (strided := _STRIDED.search(name)) and "gpu_kernel_impl<" not in name:
        elements = float(blocks) * int(strided.group(1)) * int(strided.group(2))
        return Cost(elements, 2 * elements * size, peak)
    return None


def _softmax(softmax: re.Match[str], grid: Grid, size: int, peak: str) -> Cost:
    """A warp, or a part of one, has a row, or two if they are short. The length of a row is taken
    as three quarters of its power of two; the backward pass reads two tensors."""
    longest = 1 << min(int(softmax["log2"]), 10)
    rows = grid.blocks * (grid.threads // min(longest, 32)) * (2 if longest <= 128 else 1)
    elements = float(rows) * 0.75 * longest
    return Cost(8 * elements, (3 if softmax["way"] == "backward" else 2) * elements * size, peak)


def _attention(flash: re.Match[str], grid: Grid, size: int, peak: str) -> Cost:
    """A block has a tile of one head of one sequence; as many keys as queries are assumed, and the
    last tile of each half full."""
    backward = flash["way"].startswith("bwd")
    tile = int(flash["keys" if backward else "queries"])
    heads, length, width = grid.blocks / grid.along, (grid.along - 0.5) * tile, int(flash["width"])
    flops = 4 * heads * length * length * width
    if flash["causal"] in ("true", "1"):
        flops /= 2
    elements = 4 * heads * length * width
    # Five products where the forward has two, and twice the tensors.
    return (
        Cost(2.5 * flops, 2 * elements * size, peak)
        if backward
        else Cost(flops, elements * size, peak)
    )
