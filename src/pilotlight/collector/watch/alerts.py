"""Findings announced to people by webhook, Slack, Alertmanager or a command: each once."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime, timezone
from http.client import HTTPException
from urllib.error import HTTPError

from pilotlight.collector.config import Alerts
from pilotlight.collector.watch.opened import Opened

_SEVERITIES = ("info", "warning", "critical")
_TIMEOUT_S = 10.0
_QUEUED = 1000
_TRIES = 3
_KEPT_S = 6 * 3600.0
_LONGEST_REST_S = 60.0
_LOG = logging.getLogger("pilotlight.collector")
_KINDS = ("webhook", "slack", "alertmanager", "command")
# Alertmanager takes an alert for over that it is not told of again.
_ALERT_AGAIN_S = 60.0
_ALERT_LASTS_NS = 300_000_000_000


class Announcer:
    """Each receiver has a thread of its own: one that hangs delays nobody else."""

    def __init__(self, config: Alerts) -> None:
        self._config = config
        self._told: dict[tuple[str, bool, str], float] = {}
        self.counts: Counter[str] = Counter()
        self._receivers = {
            kind: _Receiver(kind, self._send, self.counts)
            for kind in _KINDS
            if getattr(config, kind)
        }

    def tell(self, opened: Opened, now_s: float | None = None) -> None:
        """Announces an opening and a closing once, and an open one again after a while."""
        now_s = time.monotonic() if now_s is None else now_s
        if _SEVERITIES.index(opened.severity) < _SEVERITIES.index(self._config.least_severity):
            return
        for kind, receiver in self._receivers.items():
            if self._is_due(opened, kind, now_s):
                receiver.tell(opened)

    def recall(self, opened: Opened, now_s: float | None = None) -> None:
        """A collector before this one has announced its opening."""
        for kind in _KINDS:
            self._note(opened, kind, time.monotonic() if now_s is None else now_s)

    def _is_due(self, opened: Opened, kind: str, now_s: float) -> bool:
        last_s = self._told.get((opened.id, opened.is_open, kind))
        again_s = self._config.repeat_s
        if kind == "alertmanager":
            again_s = min(again_s, _ALERT_AGAIN_S)
        if last_s is not None and (not opened.is_open or now_s - last_s < again_s):
            return False
        if not opened.is_open and (opened.id, True, kind) not in self._told:
            return False
        self._note(opened, kind, now_s)
        return True

    def _note(self, opened: Opened, kind: str, now_s: float) -> None:
        self._told[opened.id, opened.is_open, kind] = now_s
        if len(self._told) > 100_000:
            self._told.pop(next(iter(self._told)))

    def close(self) -> None:
        for receiver in self._receivers.values():
            receiver.close()
        deadline_s = time.monotonic() + _TIMEOUT_S
        for receiver in self._receivers.values():
            receiver.join(deadline_s)

    def _send(self, kind: str, opened: Opened) -> None:
        config = self._config
        if kind == "command":
            subprocess.run(
                config.command,
                input=json.dumps(opened.row()).encode(),
                timeout=_TIMEOUT_S,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            return
        content: object = opened.row()
        url = config.webhook
        if kind == "slack":
            url, content = config.slack, slack(opened)
        elif kind == "alertmanager":
            url = config.alertmanager.rstrip("/") + "/api/v2/alerts"
            content = alertmanager(opened, time.time_ns())
        request = urllib.request.Request(
            url, json.dumps(content).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            pass


class _Receiver:
    """Tells in the order of what happened, and tries again for hours: who is away for a while
    still hears of it. Of what waits too long the oldest goes, and is counted."""

    def __init__(
        self, kind: str, send: Callable[[str, Opened], None], counts: Counter[str]
    ) -> None:
        self._kind = kind
        self._send = send
        self._counts = counts
        self._waiting: deque[tuple[float, Opened]] = deque()
        self._news = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"alerts {kind}", daemon=True)
        self._thread.start()

    def tell(self, opened: Opened) -> None:
        with self._news:
            self._waiting.append((time.monotonic(), opened))
            while len(self._waiting) > _QUEUED:
                self._waiting.popleft()
                self._counts["dropped"] += 1
            self._news.notify()

    def close(self) -> None:
        """What waits is tried once more."""
        with self._news:
            self._is_closed = True
            self._news.notify()

    def join(self, deadline_s: float) -> None:
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        if self._waiting:
            self._counts["dropped"] += len(self._waiting)

    def _run(self) -> None:
        failures = 0
        while True:
            with self._news:
                while not self._waiting and not self._is_closed:
                    self._news.wait()
                if not self._waiting:
                    return
                since_s, opened = self._waiting.popleft()
            try:
                self._send(self._kind, opened)
                self._counts[f"{self._kind} sent"] += 1
                failures = 0
            except (OSError, ValueError, HTTPException, subprocess.SubprocessError) as error:
                self._counts[f"{self._kind} failed"] += 1
                # Words and addresses of a receiver may be secrets.
                status = f" {error.code}" if isinstance(error, HTTPError) else ""
                _LOG.warning("alert by %s: %s%s", self._kind, type(error).__name__, status)
                failures += 1
                kept_s = _KEPT_S if is_away(error) or failures < _TRIES else 0.0
                if not self._put_back(since_s, opened, failures, kept_s):
                    failures = 0

    def _put_back(self, since_s: float, opened: Opened, failures: int, kept_s: float) -> bool:
        with self._news:
            if self._is_closed or time.monotonic() - since_s >= kept_s:
                self._counts["dropped"] += 1
                return False
            self._waiting.appendleft((since_s, opened))
            self._news.wait_for(
                lambda: self._is_closed, min(_LONGEST_REST_S, 0.2 * 2 ** min(failures, 10))
            )
            return True


def is_away(error: Exception) -> bool:
    """Whether the receiver may take later what it did not take now."""
    if isinstance(error, HTTPError):
        return error.code >= 500 or error.code in (408, 429)
    return isinstance(error, OSError)


def slack(opened: Opened) -> dict[str, object]:
    """The shape that Slack's incoming webhooks take."""
    job = opened.key[1]
    sign = ":white_check_mark: over:" if not opened.is_open else ":warning:"
    if opened.is_open and opened.severity == "critical":
        sign = ":rotating_light:"
    lines = [f"{sign} *{job}*: {opened.finding.title}"]
    lines += [f"• {evidence}" for evidence in opened.finding.evidence[:3]]
    if opened.nodes:
        lines.append(f"on {', '.join(opened.nodes[:4])}")
    if opened.is_open and opened.finding.fix:
        lines.append(f"_{opened.finding.fix}_")
    # What jobs are called by their users must not call everybody in a channel.
    text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def alertmanager(opened: Opened, now_ns: int) -> list[dict[str, object]]:
    """The shape of Alertmanager's API version 2."""
    tenant, job, rule, cause, rank, _ = opened.key
    alert: dict[str, object] = {
        "labels": {
            "alertname": f"pilotlight_{cause}",
            "severity": opened.severity,
            "tenant": tenant,
            "job_name": job,
            "rule": rule,
            "rank": str(rank) if rank >= 0 else "",
            "finding": opened.id,
        },
        "annotations": {
            "summary": opened.finding.title,
            "description": "; ".join(opened.finding.evidence),
            "fix": opened.finding.fix,
        },
        "startsAt": _time(opened.opened_ns),
        "endsAt": _time(now_ns + _ALERT_LASTS_NS if opened.is_open else opened.closed_ns),
    }
    return [alert]


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, timezone.utc).isoformat()
