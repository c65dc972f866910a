"""The clocks of a Perfetto trace, brought to one."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.trace.protobuf import fields

_BOOT = 6
_OF_ONE_SEQUENCE = range(64, 128)


@dataclass
class _Clock:
    """`offset_ns` leads to the clock since boot."""

    offset_ns: int = 0
    unit_ns: int = 1
    is_incremental: bool = False
    last: int = 0


class Clocks:
    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], _Clock] = {}

    def learn(self, sequence: int, snapshot: memoryview) -> None:
        """From a ClockSnapshot: what each clock shows at one instant."""
        shown = []
        for number, value in fields(snapshot):
            if number == 1 and isinstance(value, memoryview):
                parts = {key: part for key, part in fields(value) if isinstance(part, int)}
                shown.append(
                    (parts.get(1, 0), parts.get(2, 0), bool(parts.get(3)), parts.get(4, 0) or 1)
                )
        boot_ns = next((time for clock, time, *_ in shown if clock == _BOOT), None)
        for clock, time, is_incremental, unit_ns in shown:
            offset_ns = 0 if boot_ns is None else boot_ns - time * unit_ns
            self._clocks[self._key(sequence, clock)] = _Clock(
                offset_ns, unit_ns, is_incremental, time
            )

    def boot_ns(self, sequence: int, clock: int, time: int) -> int:
        """A clock that no snapshot shows is taken as it is."""
        known = self._clocks.get(self._key(sequence, clock))
        if known is None:
            return time
        if known.is_incremental:
            known.last += time
            time = known.last
        return time * known.unit_ns + known.offset_ns

    @staticmethod
    def _key(sequence: int, clock: int) -> tuple[int, int]:
        return (sequence if clock in _OF_ONE_SEQUENCE else 0), clock or _BOOT
