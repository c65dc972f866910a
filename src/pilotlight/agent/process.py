"""One process with a probe, as the agent sees it: its segment, its link and its end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pilotlight import _drain
from pilotlight.agent.functions import Functions
from pilotlight.agent.governor import Pace, is_urgent, poll_interval_ns
from pilotlight.agent.hello import Control, control
from pilotlight.agent.recorder import Taken
from pilotlight.agent.untold import Untold
from pilotlight.recording.processes import ProcessEnd, ProcessStart
from pilotlight.recording.schema import MarkKind
from pilotlight.tier import Coverage, coverage_of

_NUMBERS = ("rank", "local_rank", "world_size")
_ALL_WINDOWS_NS = (1 << 63) - 1
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Rates:
    """What `live()` said at some moment, to tell rates from the next."""

    time_ns: int
    live: Mapping[str, object]


class Process:
    def __init__(
        self,
        reader: _drain.Reader,
        index: int,
        identity: Mapping[str, object],
        link: socket.socket | None,
        pidfd: int | None,
        host_pid: int,
        now_ns: int,
    ) -> None:
        """`host_pid` is the pid as this agent sees it; a probe in a container says another."""
        self.reader = reader
        self.index = index
        self.identity = identity
        self.link = link
        self.pidfd = pidfd
        self.pid = host_pid
        self.segment = reader.segment_id
        self.began_ns = began_ns(reader.start_time, now_ns)
        self.hung_up_ns: int | None = None
        self.how_ended: str | None = None
        self.ended_ns: int | None = None
        self.functions: Functions | None = None
        self.untold = Untold()
        self.looks = (Rates(now_ns, {}), Rates(now_ns, {}))
        self.polled_ns = now_ns
        self.exit_code: int | None = None
        self.said_exit = False
        self.read = 0
        self._fill = 0.0
        self._growth = 0.0
        self._elapsed_ns = 0
        self._has_rows = True
        self._base_period_ns: int | None = None
        self._said = b""
        self._starts_ranks = False

    def learns(self) -> bool:
        """Whether the probe has told more of its process since it was last asked."""
        said = self.reader.identity()
        if said == self._said:
            return False
        first, self._said = not self._said, said
        try:
            facts = json.loads(said)
        except (ValueError, RecursionError):
            return False
        if not isinstance(facts, dict) or facts == self.identity:
            return False
        # Job and place were settled when it said hello; a rank may get its number later.
        learnt = ["facts"]
        is_new = self.identity.get("role") != "rank" and facts.get("role") == "rank"
        if is_new and not self._starts_ranks:
            learnt += [*_NUMBERS, "role"]
        self.identity = {**self.identity, **{key: facts.get(key) for key in learnt}}
        return not first or bool(self.identity["facts"])

    def is_mere_task(self) -> bool:
        """Whether only a launcher calls it a rank: it has joined no others itself."""
        facts = self.identity.get("facts")
        has_joined = isinstance(facts, dict) and any(key.endswith(".world_size") for key in facts)
        return self.identity.get("role") == "rank" and not has_joined

    def lose_number(self) -> None:
        """It starts those that are."""
        self._starts_ranks = True
        self.identity = {**self.identity, **dict.fromkeys(_NUMBERS), "role": "main"}

    @property
    def is_urgent(self) -> bool:
        """Whether a ring that goes on like this has little room or time left at the next poll."""
        return is_urgent(self._fill, self._growth, self._elapsed_ns)

    @property
    def has_rows(self) -> bool:
        """Whether anything was read since the last take."""
        return self._has_rows

    @property
    def fill_ratio(self) -> float:
        return self._fill

    @property
    def dropped(self) -> int:
        """Records that the probe could not publish."""
        losses = self.reader.losses()
        return losses["dropped"] + losses["no_ring"] + losses["nested"]

    def poll(self, now_ns: int, pace: Pace) -> int:
        """Reads what is published; returns in how many ns to look again."""
        before, elapsed_ns = self._fill, now_ns - self.polled_ns
        count = self.reader.read()
        self.polled_ns = now_ns
        self._fill = self.reader.fill()
        self.read += count
        self._has_rows = self._has_rows or count > 0
        self._growth = max(0.0, self._fill - before)
        self._elapsed_ns = elapsed_ns
        return poll_interval_ns(self._growth, elapsed_ns, pace)

    def finish(self, how: str, now_ns: int, exit_code: int | None = None) -> None:
        """The process is gone or has left: takes what is still in its rings.

        `exit_code` is the negative number of the signal that ended it, as in `subprocess`.
        """
        if self.how_ended is None:
            # Who calls os._exit leaves without a word to the probe, but did not die.
            has_exited = exit_code is not None and exit_code >= 0
            self.how_ended = "exit" if has_exited else how
            self.ended_ns = now_ns
            self.exit_code = exit_code
            self.read += self.reader.read()
            self.reader.finish(now_ns, has_exited)
            self._has_rows = True

    def take(self, now_ns: int) -> Taken:
        """What goes into the next commit."""
        detail = self.reader.take()
        windows = self.reader.take_windows(_ALL_WINDOWS_NS)
        if "gaps" in detail:
            # What the sums lack has to be known for as long as they are.
            windows["gaps"] = detail["gaps"]
        self._has_rows = False
        if "marks" in detail and MarkKind.EXIT in detail["marks"][1]["kind"]:
            self.said_exit = True
        live: dict[str, Any] = self.reader.live() if "collectives" in detail else {}
        self.untold.see(detail, live.get("steps", 0))
        if self.functions is not None:
            self.functions.see(detail, now_ns)
        return Taken(self.index, self.segment, detail, windows, self.reader.positions())

    def committed(self) -> bool:
        """Frees the rings of what was committed. False: another agent has the segment now."""
        is_ours = self.reader.commit()
        self._fill = self.reader.fill()
        return is_ours

    def send(self, kind: Control, value: int = 0, argument: int = 0) -> None:
        """Best effort: a probe that does not take its messages is told again by the next."""
        if self.link is not None:
            with contextlib.suppress(OSError):
                self.link.send(control(kind, value, argument))

    def coverage(self, live: Mapping[str, Any]) -> Coverage | None:
        """What it collects of its GPUs, by what its reader says now; None if it uses none."""
        rank = self.identity.get("rank")
        return coverage_of(
            self.index, self.pid, rank if isinstance(rank, int) else None, live["gpu"]
        )

    def base_period_ns(self, default_ns: int) -> int:
        """The sampling period before the governor touched it."""
        if self._base_period_ns is None:
            sampler: Any = self.reader.live()["sampler"]
            self._base_period_ns = int(sampler["period_ns"]) or default_ns
        return self._base_period_ns

    def end(self, now_ns: int) -> ProcessEnd:
        how = self.how_ended or "gone"
        if how == "died" and self.said_exit and self.exit_code is None:
            how = "exit"
        return ProcessEnd(
            process=self.index,
            how=how,
            # When it is written down is later, as a rule by the wait for the next commit.
            time_ns=now_ns if self.ended_ns is None else self.ended_ns,
            exit_code=self.exit_code,
            rings_quarantined=self.reader.losses()["quarantined"],
            read=self.read,
            dropped=self.dropped,
            off=self.reader.off() or "",
        )

    def close(self) -> None:
        self.reader.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        if self.link is not None:
            self.link.close()
            self.link = None


@dataclass(frozen=True)
class Identity:
    """What the probe says of itself, as far as it can be understood."""

    job: str
    facts: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: bytes, pid: int) -> Identity:
        try:
            facts = json.loads(raw)
        except (ValueError, RecursionError):
            facts = {}
        if not isinstance(facts, dict):
            facts = {}
        job = facts.get("job")
        is_named = isinstance(job, str) and 0 < len(job) <= 200 and job.isprintable()
        return cls(str(job) if is_named else f"pid-{pid}", facts)


def started(
    reader: _drain.Reader, facts: Mapping[str, object], clocks: tuple[int, int]
) -> ProcessStart:
    """The line for processes.jsonl, without its index. `clocks`: monotonic and realtime now."""
    return ProcessStart(
        process=0,
        pid=reader.pid,
        start_time=reader.start_time,
        segment=reader.segment_id,
        time_ns=clocks[0],
        realtime_ns=clocks[1],
        abi=reader.abi,
        identity=facts,
    )


def began_ns(start_time: int, now_ns: int) -> int:
    """When a process began, on the monotonic clock, from field 22 of its /proc/PID/stat: an agent
    that meets it late does not make it younger. `now_ns` where it says nonsense."""
    lived_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - start_time * _TICK_NS
    found_ns = time.monotonic_ns() - lived_ns
    return found_ns if start_time > 0 and 0 <= found_ns <= now_ns else now_ns
