"""The program that a simulated fleet runs: its kernels, ranges and stacks, and what they take."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import lru_cache

from pilotlight.recording.schema import WINDOW_NS
from pilotlight.ship.envelope import Value
from pilotlight.ship.wire import LAUNCHED, NAME, STACK

_VARIANTS = 4
_RANGE, _SAMPLE, _ACTIVITY = 1, 2, 5

_KERNELS = (
    ("nvjet_tst_192x192_64x4_qkv_TNN", 0.26),
    ("flash_fwd_kernel<bf16_128>", 0.17),
    ("nvjet_tst_128x256_64x4_mlp_TNN", 0.22),
    ("flash_bwd_kernel<bf16_128>", 0.2),
    ("vectorized_elementwise_kernel<gelu>", 0.06),
    ("layer_norm_kernel<bfloat16>", 0.05),
    ("multi_tensor_apply_kernel<adam>", 0.04),
)
_MAIN = "main (llama/train.py:141)"
_STACKS = (
    (
        f"{_MAIN}\ntrain (llama/train.py:88)\nModule._call_impl (modules/module.py:1786)\n"
        "Llama.forward (llama/model.py:{line})",
        61,
    ),
    (f"{_MAIN}\ntrain (llama/train.py:89)\nTensor.backward (torch/_tensor.py:{{line}})", 647),
    (f"{_MAIN}\ntrain (llama/train.py:92)\nAdamW.step (optim/adamw.py:{{line}})", 232),
    (
        f"{_MAIN}\ntrain (llama/train.py:86)\n"
        "_BaseDataLoaderIter.__next__ (data/dataloader.py:733)\n"
        "Tokens.__getitem__ (llama/data.py:{line})",
        39,
    ),
)
"""Each with the first of the lines that its innermost function is in."""
_SHARES = (0.3, 0.45, 0.1)
_RANGES = ("forward", "backward", "optimizer", "data")
_PHASE = 3
_LAUNCHED_NS = 60_000_000_000
# Which of the stacks launches a kernel, and in which module.
_LAUNCHES = ((0, "attn"), (0, "attn"), (0, "mlp"), (1, ""), (0, "mlp"), (0, "norm"), (2, ""))


def texts() -> list[tuple[int, str]]:
    """All names and stacks, each with its kind."""
    layers = range(_VARIANTS)
    known = [(NAME, _variant(name, layer)) for name, _ in _KERNELS for layer in layers]
    known += [(NAME, name) for name in (*_RANGES, "all_reduce")]
    known += [(STACK, _stack(n, layer)) for n in range(len(_STACKS)) for layer in layers]
    return known + [(STACK, _launch(number)) for number in range(len(_KERNELS))]


@lru_cache(4096)
def identify(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def windows_of(
    place: int, time_ns: int, rows: Sequence[Sequence[int]], noise: random.Random
) -> list[list[Value]]:
    """As many names as a real job has, with numbers that do not repeat."""
    if not rows:
        return []
    count = len(rows)
    compute = sum(row[3] for row in rows)
    found: list[list[Value]] = []
    for name, share in _KERNELS:
        for layer in range(_VARIANTS):
            total = int(compute * share / _VARIANTS * noise.uniform(0.99, 1.01))
            calls = 10 * count
            mean = total // calls
            shortest, longest = (
                int(mean * noise.uniform(0.8, 0.95)),
                int(mean * noise.uniform(1, 3)),
            )
            id = identify(_variant(name, layer))
            found.append([place, time_ns, _ACTIVITY, 1, id, calls, total, shortest, longest])
    for name, share in zip(_RANGES, (0.3, 0.5, 0.1, 0.05), strict=True):
        total = int(sum(row[2] for row in rows) * share * noise.uniform(0.99, 1.01))
        mean = total // count
        longest = int(mean * noise.uniform(1.01, 1.3))
        found.append([place, time_ns, _RANGE, _PHASE, identify(name), count, total, mean, longest])
    if time_ns % _LAUNCHED_NS == 0:
        times = _LAUNCHED_NS // WINDOW_NS
        for number, (_, share) in enumerate(_KERNELS):
            total, calls = int(times * compute * share), 10 * _VARIANTS * times * count
            row = [place, time_ns, LAUNCHED, 1, identify(_launch(number)), calls]
            found.append([*row, total, 0, 3 * total // calls])
    # What waits for its input is seen there, and that much less elsewhere.
    loading = sum(row[6] for row in rows) / (sum(row[2] for row in rows) or 1)
    busy = 0.9 * (1 - loading) / sum(_SHARES)
    for number, share in enumerate((*(busy * share for share in _SHARES), 0.9 * loading)):
        for layer in range(_VARIANTS):
            samples = int(WINDOW_NS / 10**7 * share / _VARIANTS * noise.uniform(0.8, 1.2)) + 1
            row = [place, time_ns, _SAMPLE, 1, identify(_stack(number, layer)), samples]
            found.append([*row, samples * 10**7, 10**7, 10**7])
    return found


def histograms_of(place: int, time_ns: int, steps: int) -> list[list[Value]]:
    return [
        [place, time_ns, _ACTIVITY, identify(name), 140 + n + bucket, 4 * steps]
        for n, (name, _) in enumerate(_KERNELS)
        for bucket in range(4)
        if steps
    ]


@lru_cache
def _launch(number: int) -> str:
    """The stack that ends in a kernel: frames, module, kernel."""
    stack, module = _LAUNCHES[number]
    return "\n".join(filter(None, (_stack(stack, 0), module, _KERNELS[number][0])))


@lru_cache
def _stack(number: int, layer: int) -> str:
    text, line = _STACKS[number]
    return text.replace("{line}", str(line + layer))


def _variant(text: str, layer: int) -> str:
    return f"{text}[{layer}]" if layer else text
