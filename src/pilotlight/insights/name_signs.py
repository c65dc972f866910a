"""What the name of a host span tells. Ranks of a job have the same names, and a trace can have half
a million of them: each is looked at once, for all questions."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pilotlight.trace.trace import Bool, Trace

LOOKED_AT = 200

LOADS = re.compile(
    r"data_?loader|^loader\b|^data$|^data[ _-]?(?:load|fetch|wait)(?:ing)?$|^input[ _]pipeline$"
    r"|^(?:load|fetch|get|next|read|wait[ _]for)(?:ing)?[ _](?:the[ _]|next[ _])?(?:mini[ _-]?)?"
    r"(?:batch(?:es)?|data|samples?|examples?)$|^batch[ _-]generator$",
    re.IGNORECASE,
)
COMPILES = re.compile(
    r"dynamo.*compile|_compile\.|inductor.*compil|^compile\b|recompil|triton.*(?:compil|jit)"
    r"|xla.*compil|backend_compile|nvrtc|\(dynamo_timed\)$",
    re.IGNORECASE,
)
SAVES = re.compile(
    r"torch\.save|dcp\.save|async_save|save_(?:checkpoint|state)|^checkpoint(?:$|[:\s])"
    r"|checkpoint(?:er)?\.save",
    re.IGNORECASE,
)
# These block, on the host, until other ranks have come.
WAITS_FOR_RANKS = re.compile(
    r"^gloo:|^mpi[:_]|barrier|rendezvous|^ncclComm(?:Init|Split)|distributed_c10d\.py\(\d+\): "
    r"\w+_object|_distributed_c10d\.\w*(?:Work|Store)\b",
    re.IGNORECASE,
)
# These only launch, unless nothing was launched in them: then they are of the host.
MAY_WAIT_FOR_RANKS = re.compile(
    r"^nccl:|^c10d::|^record_param_comms$|^communication$", re.IGNORECASE
)
# JAX waits in these, not in calls of the runtime.
AWAITS_RESULTS = re.compile(
    r"(?:^|[\s.:])(?:block_until_ready|effects_barrier)$|\bBlock(?:Host)?UntilReady\b"
    r"|^\$array\.py:\d+ (?:_value|__array__)$"
)
BLOCKS = re.compile(
    r"^(?:cuda|hip|cu)(?:Stream|Device|Event|Ctx)Synchronize|^(?:cuda|hip|cu)Memcpy(?!.*Async)"
    r"|^synchronize(?:Stream)?$"
)
BEGINS_CAPTURE = re.compile(r"^(?:cuda|hip|cu)StreamBeginCapture")

_SIGNS = (
    LOADS, COMPILES, SAVES, WAITS_FOR_RANKS, MAY_WAIT_FOR_RANKS, AWAITS_RESULTS, BLOCKS,
    BEGINS_CAPTURE,
)  # fmt: skip
# One of these is in every name that a pattern matches: plain search is ten times as fast.
_WORDS = (
    "data", "loader", "batch", "sample", "example", "input", "compil", "triton", "nvrtc", "dynamo",
    "save", "checkpoint", "gloo:", "mpi", "barrier", "rendezvous", "nccl", "c10d",
    "record_param_comms", "communication", "until_ready", "untilready", "$array.py:",
    "synchronize", "memcpy", "begincapture",
)  # fmt: skip
_KEY = "_name_signs"


def named(trace: Trace, sign: re.Pattern[str]) -> Bool:
    """Whether each name of the trace matches one of the patterns above."""
    signs: NDArray[np.uint8] | None = vars(trace).get(_KEY)
    if signs is None:
        signs = np.fromiter(map(_signs, trace.names), np.uint8, len(trace.names))
        vars(trace)[_KEY] = signs
    found: Bool = signs & (1 << _SIGNS.index(sign)) > 0
    return found


@lru_cache(maxsize=1 << 16)
def _signs(name: str) -> int:
    start = name[:LOOKED_AT]
    low = start.lower()
    for word in _WORDS:
        if word in low:
            return sum(1 << i for i, pattern in enumerate(_SIGNS) if pattern.search(start))
    return 0
