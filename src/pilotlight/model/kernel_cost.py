"""What a kernel must do at least, from its name and grid: a guess, where no shapes are recorded."""

from __future__ import annotations

import re

from pilotlight.model.cost import Cost

# Elements that a thread of PyTorch's elementwise kernels works on, and those of a block of its
# kernels over lists of tensors.
ELEMENTS_A_THREAD = 4
ELEMENTS_A_CHUNK = 65_536

_ELEMENTWISE = re.compile(r"(?:vectorized|unrolled)_elementwise_kernel")
_POINTERS = re.compile(r"(?:std::array|at::detail::Array)<char\*, (?:\(int\))?(\d+)")
_LISTS = re.compile(r"multi_tensor_apply_kernel.*?TensorList(?:ScalarList)?Metadata<(\d+)")
_TYPES = (
    (re.compile(r"bfloat16|half|__half", re.IGNORECASE), 2, "bf16"),
    (re.compile(r"double"), 8, "fp64"),
    (re.compile(r"float"), 4, "fp32"),
)


def cost_of_kernel(name: str, blocks: int, threads: int) -> Cost | None:
    """None for kernels whose work their grid does not tell, such as matrix products."""
    found = next(((size, peak) for text, size, peak in _TYPES if text.search(name)), None)
    if found is None or blocks <= 0 or threads <= 0:
        return None
    size, peak = found
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
    return None
