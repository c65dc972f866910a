"""The rules of the scanner once more, slowly, on top of the json module."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

KINDS = {"kernel": 5, "cpu_op": 1, "gpu_memcpy": 6}
UNUSED = "benISTpFPNODRcvVa()"
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


class Raw(float):
    """A number that remembers how it was written."""

    text: str


def raw(text: str) -> Raw:
    value = Raw(text)
    value.text = text
    return value


class Malformed(Exception):
    pass


class Reference:
    """Spans are (start_ns, duration_ns, kind, name, process, thread, correlation, bytes)."""

    def __init__(self) -> None:
        self.spans: list[tuple[Any, ...]] = []
        self.counters: list[tuple[int, str, float]] = []
        self.skipped: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.malformed = 0
        self._open: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        self._unit: int | None = None

    def add_text(self, text: bytes) -> None:
        """One element of the list."""
        try:
            value = json.loads(
                text.decode("utf-8", "replace"), strict=False, parse_int=raw, parse_float=raw,
                parse_constant=raw,
            )  # fmt: skip
        except ValueError:
            self.malformed += 1
            return
        try:
            if not isinstance(value, dict):
                raise Malformed
            if value:
                self._event(value)
        except Malformed:
            self.malformed += 1

    def finish(self) -> None:
        self.dropped["begins"] += sum(map(len, self._open.values()))

    def _event(self, event: dict[str, Any]) -> None:
        phase = event.get("ph")
        if not isinstance(phase, str) or len(phase) != 1 or phase not in UNUSED + "XBECiMstf":
            raise Malformed
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        lane = text_of(event.get("pid")), text_of(event.get("tid"))
        if phase == "X":
            start = self._time(event)
            duration = time_of(event["dur"], self._scale()) if "dur" in event else 0
            self._span(start, duration, *self._told(event, args), *lane)
        elif phase == "B":
            self._open.setdefault(lane, []).append((self._time(event), *self._told(event, args)))
        elif phase == "E":
            end = self._time(event)
            if not self._open.get(lane):
                self.dropped["ends"] += 1
                return
            start, *told = self._open[lane].pop()
            known = start is not None and end is not None
            self._span(start, end - start if known else None, *told, *lane)
        elif phase == "C":
            time = self._time(event)
            for key, value in args.items():
                if isinstance(value, Raw) and abs(value) < 1e300:
                    self._counter(time, f"{text_of(event.get('name'))} {clean(key)}", float(value))
                else:
                    self.dropped["values"] += 1
        elif phase == "i" and ("Total Allocated" in args or "Total Reserved" in args):
            time = self._time(event)
            device = text_of(args.get("Device Id"))
            for key, title in (("Total Allocated", "allocated"), ("Total Reserved", "reserved")):
                if key in args:
                    if isinstance(args[key], Raw) and math.isfinite(args[key]):
                        self._counter(time, f"{title} device {device}", float(args[key]))
                    else:
                        self.dropped["values"] += 1
        elif phase != "M":
            self.skipped[phase] += 1

    def _told(self, event: dict[str, Any], args: dict[str, Any]) -> tuple[int, str, int, int]:
        category = event.get("cat")
        kind = KINDS.get(category, 0) if isinstance(category, str) else 0
        correlation = integer(args.get("correlation")) if kind in (5, 6) else -1
        size = integer(args.get("bytes")) if kind == 6 else -1
        return kind, text_of(event.get("name")), correlation, size

    def _span(self, start: Any, duration: Any, kind: int, name: str, *rest: Any) -> None:
        correlation, size, process, thread = rest
        possible = start is not None and duration is not None and start >= 0 and duration >= 0
        if not possible or start + duration >= 1 << 63:
            self.dropped["impossible"] += 1
        else:
            self.spans.append((start, duration, kind, name, process, thread, correlation, size))

    def _counter(self, time: int | None, name: str, value: float) -> None:
        if time is None or time < 0:
            self.dropped["times"] += 1
        else:
            self.counters.append((time, name, value))

    def _time(self, event: dict[str, Any]) -> int | None:
        if "ts" not in event:
            raise Malformed
        if self._unit is None:
            text = number_text(event["ts"]) or ""
            huge = len(text) == 18 or (len(text) == 19 and text[0] <= "4")
            self._unit = 1 if huge and text.isdigit() else 1000
        return time_of(event["ts"], self._scale())

    def _scale(self) -> int:
        return self._unit or 1000


def number_text(value: Any) -> str | None:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, str) and len(value.encode()) <= 400 and _NUMBER.fullmatch(value):
        return value
    return None


def time_of(value: Any, scale: int) -> int | None:
    """None for what no clock shows."""
    text = number_text(value)
    if text is None:
        raise Malformed
    number = float(text)
    if not math.isfinite(number) or abs(number) >= 9e18 / scale:
        return None
    exact = (Decimal(text) * scale).quantize(Decimal(1), ROUND_HALF_UP)
    return int(exact)


def integer(value: Any) -> int:
    text = number_text(value) or ""
    return int(text) if text.isdigit() and len(text) < 20 and int(text) < 1 << 63 else -1


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Raw):
        return value.text
    return {True: "true", False: "false"}.get(value, "") if isinstance(value, bool) else ""


def clean(text: str) -> str:
    """Halves of surrogate pairs mean nothing alone, and NUL ends texts elsewhere."""
    return "".join("�" if 0xD800 <= ord(c) < 0xE000 or c == "\0" else c for c in text)
