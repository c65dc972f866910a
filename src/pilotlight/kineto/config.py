"""The text that asks one process for one trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from pilotlight.errors import UsageError

# Kineto stops reading a configuration at a second `=` or a `#` in a line.
_BREAKS_LINES = ("=", "#", "\n", "\r")


@dataclass(frozen=True)
class Steps:
    """From the end of optimizer step number `first` (counted from 1) on; never a time."""

    first: int
    count: int


@dataclass(frozen=True)
class Span:
    """A time on the wall clock."""

    start_ms: int
    duration_ms: int


@dataclass(frozen=True)
class Options:
    stacks: bool = False
    shapes: bool = False
    memory: bool = False


def trace_configuration(
    file: PurePath, window: Steps | Span, options: Options, trace_id: str
) -> str:
    """Kineto puts `_PID` before the suffix of `file`, which has to end in .json."""
    if any(text in str(file) for text in _BREAKS_LINES):
        raise UsageError(f"{file}: Kineto takes no path with '=', '#' or a line break")
    lines = [f"ACTIVITIES_LOG_FILE={file}", f"REQUEST_TRACE_ID={trace_id}"]
    if isinstance(window, Steps):
        lines += [
            # It counts from 0 and starts at the end of the step that has this number.
            f"PROFILE_START_ITERATION={window.first - 1}",
            f"ACTIVITIES_ITERATIONS={window.count}",
            "ACTIVITIES_WARMUP_ITERATIONS=1",
        ]
    else:
        lines += [
            f"PROFILE_START_TIME={window.start_ms}",
            f"ACTIVITIES_DURATION_MSECS={window.duration_ms}",
            "ACTIVITIES_WARMUP_PERIOD_SECS=1",
        ]
    switches = {
        "PROFILE_REPORT_INPUT_SHAPES": options.shapes,
        "PROFILE_PROFILE_MEMORY": options.memory,
        "PROFILE_WITH_STACK": options.stacks,
        "PROFILE_WITH_MODULES": options.stacks,
        "PROFILE_WITH_FLOPS": options.shapes,
    }
    lines += [f"{key}={'true' if is_on else 'false'}" for key, is_on in switches.items()]
    return "\n".join(lines) + "\n"


def file_of(file: PurePath, pid: int) -> PurePath:
    """Where Kineto puts what was asked for under the name `file`."""
    return file.with_name(f"{file.stem}_{pid}{file.suffix}")
