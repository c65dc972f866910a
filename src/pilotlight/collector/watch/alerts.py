"""Findings announced to people by webhook, Slack, Alertmanager or a command: each once."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from datetime import datetime, timezone

from pilotlight.collector.config import Alerts
from pilotlight.collector.watch.opened import Opened

_SEVERITIES = ("info", "warning", "critical")
_TIMEOUT_S = 10.0
_QUEUED = 1000
_TRIES = 3
_KINDS = ("webhook", "slack", "alertmanager", "command")
# Alertmanager takes an alert for over that it is not told of again.
_ALERT_AGAIN_S = 60.0
_ALERT_LASTS_NS = 300_000_000_000


class Announcer:
    """A thread of its own: a webhook that hangs delays nobody."""

    def __init__(self, config: Alerts) -> None:
        self._config = config
        self._queue: queue.Queue[tuple[str, Opened] | None] = queue.Queue(_QUEUED)
        self._told: dict[tuple[str, bool, str], float] = {}
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._thread.start()

    def tell(self, opened: Opened, now_s: float | None = None) -> None:
        """Announces an opening and a closing once, and an open one again after a while."""
        now_s = time.monotonic() if now_s is None else now_s
        if _SEVERITIES.index(opened.severity) < _SEVERITIES.index(self._config.least_severity):
            return
        for kind in _KINDS:
            if getattr(self._config, kind) and self._is_due(opened, kind, now_s):
                try:
                    self._queue.put_nowait((kind, opened))
                except queue.Full:
                    self.counts["dropped"] += 1

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
        self._queue.put(None)
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            kind, opened = item
            for attempt in range(_TRIES):
                try:
                    self._send(kind, opened)
                    self.counts[f"{kind} sent"] += 1
                    break
                except (OSError, ValueError, subprocess.SubprocessError):
                    self.counts[f"{kind} failed"] += 1
                    time.sleep(min(5.0, 0.2 * 2**attempt))

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
