"""InfiniBand and RoCE ports, from /sys/class/infiniband."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from pilotlight.agent.counters.rates import Rates
from pilotlight.agent.counters.source import Counter, Event, Reading, SourceMissing

_PLACE = Path("sys/class/infiniband")
_MOST_PORTS = 64
# The data counters count words of four bytes.
_RATES = {
    "counters/port_rcv_data": ("received", "B/s", 4.0),
    "counters/port_xmit_data": ("sent", "B/s", 4.0),
    "counters/port_xmit_wait": ("send_wait", "ticks/s", 1.0),
    "hw_counters/np_cnp_sent": ("congestion_sent", "1/s", 1.0),
    "hw_counters/rp_cnp_handled": ("congestion_handled", "1/s", 1.0),
    "hw_counters/out_of_sequence": ("out_of_sequence", "1/s", 1.0),
    "hw_counters/packet_seq_err": ("sequence_errors", "1/s", 1.0),
    "hw_counters/local_ack_timeout_err": ("ack_timeouts", "1/s", 1.0),
    "hw_counters/rnr_nak_retry_err": ("receiver_not_ready", "1/s", 1.0),
    "hw_counters/roce_slow_restart": ("slow_restarts", "1/s", 1.0),
}
_COUNTS = {
    "counters/symbol_error": "symbol_errors",
    "counters/link_error_recovery": "link_recoveries",
    "counters/link_downed": "link_downed",
    "counters/port_rcv_errors": "receive_errors",
    "counters/port_xmit_discards": "send_discards",
}


class Infiniband:
    """The devices are those that are there when it opens: a hot-plugged one needs a new agent."""

    name = "infiniband"

    def __init__(self, root: Path = Path("/")) -> None:
        found = sorted((root / _PLACE).glob("*/ports/*"))
        if not found:
            raise SourceMissing("no InfiniBand or RoCE device in /sys/class/infiniband")
        self._ports = [(f"{port.parents[1].name}:{port.name}", port) for port in found]
        self._left_out = len(self._ports) - _MOST_PORTS
        self._ports = self._ports[:_MOST_PORTS]
        self._rates = Rates()
        self._states: dict[str, str] = {}

    def read(self) -> Reading:
        values: list[tuple[Counter, float]] = []
        events: list[Event] = []
        missing = {}
        for device, port in self._ports:
            try:
                events += self._state(device, port)
            except OSError as error:
                missing[device] = error.strerror or str(error)
                continue
            values += self._values(device, port)
        if self._left_out > 0:
            missing["ports"] = f"{self._left_out} more than {_MOST_PORTS}"
        return Reading(tuple(values), tuple(events), missing)

    def describe(self) -> str:
        return f"{len(self._ports)} ports: {', '.join(device for device, _ in self._ports[:8])}"

    def _state(self, device: str, port: Path) -> Iterator[Event]:
        """`4: ACTIVE` and its like."""
        state = (port / "state").read_text().strip()
        before = self._states.setdefault(device, state)
        if state != before:
            self._states[device] = state
            number = int(state.partition(":")[0]) if state[:1].isdigit() else 0
            yield Event(device, "link", number, f"the port went from {before} to {state}")

    def _values(self, device: str, port: Path) -> Iterator[tuple[Counter, float]]:
        now_ns = time.monotonic_ns()
        for file, (name, unit, factor) in _RATES.items():
            count = _number(port / file)
            if count is not None:
                rate = self._rates.per_second((device, name), now_ns, count)
                if rate is not None:
                    yield Counter(device, name, unit), rate * factor
        for file, name in _COUNTS.items():
            count = _number(port / file)
            if count is not None:
                yield Counter(device, name, "errors"), count


def _number(path: Path) -> int | None:
    """None: this adapter has no such counter."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def open_infiniband() -> Infiniband:
    return Infiniband()
