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


class Announcer:
    """A thread of its own: a webhook that hangs delays nobody."""

    def __init__(self, config: Alerts) -> None:
        self._config = config
        self._queue: queue.Queue[tuple[str, Opened] | None] = queue.Queue(_QUEUED)
        self._told: dict[tuple[str, bool], float] = {}
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._thread.start()

    def tell(self, opened: Opened, now_s: float | None = None) -> None:
        """Announces an opening and a closing once, and an open one again after a while."""
        now_s = time.monotonic() if now_s is None else now_s
        if _SEVERITIES.index(opened.severity) < _SEVERITIES.index(self._config.least_severity):
            return
        key = (opened.id, opened.is_open)
        last_s = self._told.get(key)
        if last_s is not None and (not opened.is_open or now_s - last_s < self._config.repeat_s):
            return
        if not opened.is_open and (opened.id, True) not in self._told:
            return
        self._told[key] = now_s
        if len(self._told) > 100_000:
            self._told.pop(next(iter(self._told)))
        config = self._config
        for kind in ("webhook", "slack", "alertmanager", "command"):
            if getattr(config, kind):
                try:
                    self._queue.put_nowait((kind, opened))
                except queue.Full:
                    self.counts["dropped"] += 1

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
            content = alertmanager(opened)
        request = urllib.request.Request(
            url, json.dumps(content).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            pass


def slack(opened: Opened) -> dict[str, object]:
    """The shape that Slack's incoming webhooks take."""
    _, job, _, _, _ = opened.key
    sign = ":white_check_mark: over:" if not opened.is_open else ":warning:"
    if opened.is_open and opened.severity == "critical":
        sign = ":rotating_light:"
    lines = [f"{sign} *{job}*: {opened.finding.title}"]
    lines += [f"• {evidence}" for evidence in opened.finding.evidence[:3]]
    if opened.nodes:
        lines.append(f"on {', '.join(opened.nodes[:4])}")
    if opened.is_open and opened.finding.fix:
        lines.append(f"_{opened.finding.fix}_")
    return {"text": "\n".join(lines)}


def alertmanager(opened: Opened) -> list[dict[str, object]]:
    """The shape of Alertmanager's API version 2."""
    tenant, job, rule, cause, rank = opened.key
    alert: dict[str, object] = {
        "labels": {
            "alertname": f"pilotlight_{cause.split(':')[0]}",
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
    }
    if not opened.is_open:
        alert["endsAt"] = _time(opened.closed_ns)
    return [alert]


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, timezone.utc).isoformat()
