"""The collector's log: a JSON object a line on standard error, without secrets, never a flood."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import OrderedDict
from datetime import datetime, timezone

LEVELS = ("debug", "info", "warning", "error")
_SECRET = re.compile(r"plk_[0-9a-fA-F]+_[A-Za-z0-9_-]+|(?i:bearer)\s+\S+")
_AGAIN_S = 10.0
_REMEMBERED = 256
_LONGEST = 4000


class JsonLines(logging.Formatter):
    """time, level, where, what; `error` has the traceback, `times` how often it was held back."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, object] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "where": record.name,
            "what": without_secrets(record.getMessage())[:_LONGEST],
        }
        if record.exc_info:
            line["error"] = without_secrets(self.formatException(record.exc_info))[-_LONGEST:]
        times = getattr(record, "times", 0)
        if times:
            line["times"] = times
        return json.dumps(line)


class Seldom(logging.Filter):
    """The same words at most every ten seconds, with how often they were held back meanwhile: who
    sends rubbish must not fill the disk with our complaints."""

    def __init__(self) -> None:
        super().__init__()
        self._last: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        key = (record.name, str(record.msg)[:200])
        now_s = time.monotonic()
        last_s, held = self._last.pop(key, (-_AGAIN_S, 0))
        is_due = now_s - last_s >= _AGAIN_S
        self._last[key] = (now_s, 0) if is_due else (last_s, held + 1)
        while len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        record.times = held
        return is_due


def without_secrets(text: str) -> str:
    return _SECRET.sub("…", text)


def begin(level: str) -> None:
    """For the whole process; other libraries are heard from warnings on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(Seldom())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("pilotlight").setLevel(level.upper())
