"""What NVIDIA's XID numbers mean, in a few words."""

from __future__ import annotations

_TEXTS = {
    13: "a kernel did something illegal",
    31: "a kernel touched memory that is not mapped",
    32: "commands to the GPU were damaged",
    38: "driver firmware error",
    43: "the GPU stopped working on a context",
    45: "work was cancelled, mostly after an earlier error",
    48: "uncorrectable memory error (double bit ECC)",
    61: "the GPU's micro-controller stopped at a breakpoint",
    62: "the GPU's micro-controller halted",
    63: "a memory row was remapped or a page retired",
    64: "a memory row could not be remapped",
    68: "video decoder error",
    69: "a kernel did something illegal (class error)",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many corrected memory errors",
    94: "uncorrectable memory error, contained to one process",
    95: "uncorrectable memory error, not contained: the GPU needs a reset",
    109: "a context switch timed out",
    119: "the GPU's system processor did not answer in time",
    120: "error in the GPU's system processor",
    121: "chip-to-chip link error, corrected",
    122: "the GPU's power controller could not be read",
    140: "uncorrectable memory error, not yet recovered",
    143: "the GPU failed to start",
    154: "the GPU needs a recovery action",
    999: "an error that the driver has no number for",
}
_NVLINK = range(144, 151)


def xid_text(number: int) -> str:
    if number in _NVLINK:
        return "NVLink error"
    return _TEXTS.get(number, "see NVIDIA's list of XID errors")
