"""The agent's native half: reads segments that nobody trusts, makes columns and sums."""

Columns = dict[str, bytes]
"""Little-endian values by column; text `c` is `c` (bytes) and `c:offsets` (int32, rows + 1)."""

Tables = dict[str, tuple[int, Columns]]
"""Rows and columns by table; tables without rows are left out. See docs/recording.md."""

ABI: tuple[int, int]

class SegmentError(ValueError):
    """The bytes are not a segment that can be read; the message says why."""

class Reader:
    """Reads one segment. Any bytes in it, while they change, can at worst quarantine a ring."""

    def __init__(self, fd: int, process: int, epoch: int) -> None:
        """Checks and maps the segment (its own copy of `fd`). `process` goes into every row.

        `epoch` > 0 claims the segment for this agent; 0 only looks and never moves a tail.
        """

    pid: int
    start_time: int
    segment_id: str
    boot_id: str
    abi: tuple[int, int]

    def identity(self) -> bytes:
        """What the probe says of itself: JSON, unchecked, at most 8 KiB."""

    def resume(self, positions: dict[str, object]) -> bool:
        """Goes on where `positions()` of an earlier agent stood; False: some of it is nonsense,
        and there the reader goes on at the shared tail."""

    def read(self) -> int:
        """Takes what is published into columns and sums; returns the number of records."""

    def fill(self) -> float:
        """How full the fullest ring is, 0 to 1, counting what is read but not yet committed."""

    def finish(self, time_ns: int, has_exited: bool = False) -> None:
        """The process is gone: closes what is open, adds a mark of its end unless it left one."""

    def take(self) -> Tables:
        """The detail rows since the last take, with the definitions that this chunk lacks."""

    def new_chunk(self) -> None:
        """From now on `take` repeats definitions: a new chunk begins."""

    def take_windows(self, until_ns: int) -> Tables:
        """The sums of windows that ended before `until_ns`, and steps, with their definitions."""

    def positions(self) -> dict[str, object]:
        """JSON-able: where the next agent has to go on if this one dies after the commit."""

    def commit(self) -> bool:
        """Frees the ring space of all that was read. False: another agent has taken over."""

    def release_pages(self) -> None:
        """Lets go of the segment's pages that reading brought into this process's memory."""

    def losses(self) -> dict[str, int]:
        """Counts: dropped, no_ring, nested, definitions_lost, quarantined, unmatched, unknown."""

    def live(self) -> dict[str, object]:
        """For `top`: read, steps, step, step_ns, state_ns by state, sampler,
        open (name, kind and start of each range that goes on), phases (ns of each that has ended),
        gpu (the last values of the counters whose names begin with that)."""

    def off(self) -> str | None:
        """Why the probe turned itself off, or None."""

    def python(self) -> bytes:
        """The published Python layout (PythonInfo in native/ring/layout.h) for `read_stacks`."""

    def close(self) -> None: ...

def read_stacks(pid: int, python: bytes) -> list[tuple[int, int, list[tuple[str, str, int]]]]:
    """(tid, state, frames (function, file, line) from the root) of a process, read from outside."""

def step_parts(
    start_ns: bytes,
    duration_ns: bytes,
    category: bytes,
    step_start_ns: bytes,
    step_duration_ns: bytes,
    categories: int,
) -> bytes:
    """For each step `categories` sums (int64) of the intervals within it. Time that several cover
    goes to the lowest category; categories beyond the number are left out."""

def launched_sums(
    stack: bytes,
    range: bytes,
    name: bytes,
    kind: bytes,
    start_ns: bytes,
    duration_ns: bytes,
    window_ns: int,
    most: int,
) -> tuple[bytes, int]:
    """Columns of activities to rows of 8 int64 (begin of the window, stack, range, name, kind,
    count, total ns, longest ns), and the ns of what is beyond `most` rows."""
