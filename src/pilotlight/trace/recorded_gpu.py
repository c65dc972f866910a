"""Which part of a recording to analyse where device records come and go."""

from __future__ import annotations

import numpy as np

from pilotlight.recording.gpu_windows import GpuWindows

_WHOLE_RATIO = 0.999


def analysed_window(windows: GpuWindows | None) -> tuple[int, int] | None:
    """The longest time with device records: outside it the device would seem idle. None: all of
    the recording."""
    if windows is None or not windows.records_ns:
        return None
    if windows.records_ns >= _WHOLE_RATIO * windows.watched_ns:
        return None
    begins, ends = windows.on_intervals()
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])
