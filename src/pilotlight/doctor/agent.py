"""The agent's side: is it up, is it well, which probes turned themselves off and why."""

from __future__ import annotations

import time
from typing import Any

from pilotlight.client import Client
from pilotlight.doctor.check import Check, limited, ok
from pilotlight.errors import PilotlightError
from pilotlight.place import runtime_folder
from pilotlight.printable import one_line
from pilotlight.probe.reasons import left, log_path, time_s

_SHOWN = 3


def agent_checks() -> list[Check]:
    try:
        with Client(timeout_s=5) as client:
            status = client.ask("status")
    except PilotlightError as error:
        return [ok("agent", f"{error}"), *_reasons()]
    return [_agent(status), *_captures(status), *_reasons()]


def _agent(status: dict[str, Any]) -> Check:
    agent = status.get("agent", {})
    off = [
        f"pid {process.get('pid')}: {process['off']}"
        for process in status.get("processes", [])
        if process.get("off")
    ]
    if off:
        return limited("agent", f"probes turned off: {'; '.join(off[:_SHOWN])}", "see the reasons")
    return ok("agent", f"running, pid {agent.get('pid')}, in {runtime_folder()}")


def _captures(status: dict[str, Any]) -> list[Check]:
    """Whether running jobs can be asked for traces; who has the socket if not."""
    kineto = status.get("agent", {}).get("kineto", {})
    problems = kineto.get("problems", [])
    if problems:
        fix = "jobs started with `pilotlight run` are not affected; see docs/capture.md"
        return [limited("captures", "; ".join(problems[:_SHOWN]), fix)]
    return [ok("captures", f"{kineto.get('pollers', 0)} processes can be asked for a trace")]


def _reasons() -> list[Check]:
    """What probes that could not even start left behind."""
    lines = left()
    if not lines:
        return []
    return [
        limited(
            "probes that did not start",
            f"{len(lines)}, last: {'; '.join(map(dated, lines[-_SHOWN:]))}",
            f"remove {log_path()} when solved",
        )
    ]


def dated(line: str) -> str:
    """A line of that log with its time as people write it."""
    at_s = time_s(line)
    if at_s == 0:
        return one_line(line)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    return one_line(f"{when} {line.partition(' ')[2]}")
