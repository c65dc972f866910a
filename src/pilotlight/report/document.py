"""A report as JSON: stable keys, described in docs/formats.md."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pilotlight.recording.columns import Array
from pilotlight.recording.schema import State
from pilotlight.report.flame import Flame
from pilotlight.report.headline import headline
from pilotlight.report.report import Report
from pilotlight.report.steps import StepRows

DOCUMENT_VERSION = 1


def document_of(report: Report) -> dict[str, Any]:
    """Nothing but JSON values; every number finite."""
    manifest = report.manifest
    return {
        "report_version": DOCUMENT_VERSION,
        "headline": headline(report),
        "job": manifest.job,
        "node": manifest.node,
        "state": report.state,
        "command": list(manifest.command),
        "exit_code": manifest.exit_code,
        "signal": manifest.signal,
        "created_ns": manifest.created_ns,
        "duration_ns": report.duration_ns,
        "processes": [
            {"label": facts.label, "end": facts.end, **asdict(facts)} for facts in report.processes
        ],
        "steps": [asdict(steps) for steps in report.steps],
        "phases": [asdict(times) for times in report.phases],
        "frameworks": asdict(report.frameworks),
        "functions_of_threads": list(report.functions_of_threads),
        "functions_without": [report.label(process) for process in report.functions_without],
        "functions_found": report.functions_found,
        "functions_ns": report.functions_ns,
        "functions": [asdict(function) for function in report.functions],
        "threads": [asdict(thread) for thread in report.threads],
        "ranges": [asdict(times) for times in report.ranges],
        "garbage": [asdict(times) for times in report.garbage],
        "counters": [asdict(values) for values in report.counters],
        "devices": asdict(report.devices),
        "gpu": asdict(report.gpu),
        "losses": asdict(report.losses),
        "overhead": asdict(report.overhead),
        "flame": flame_document(report.flame),
        "step_rows": [step_document(rows, report.start_ns) for rows in report.step_rows],
    }


def flame_document(flame: Flame) -> dict[str, Any]:
    return {
        "states": [state.name.lower() for state in State],
        "threads": list(flame.threads),
        "functions": [[function.name, function.file] for function in flame.functions],
        "parents": _numbers(flame.parents),
        "function_of": _numbers(flame.function_of),
        "entries": {
            "process": _numbers(flame.entry_process),
            "thread": _numbers(flame.entry_thread),
            "node": _numbers(flame.entry_node),
            "state": _numbers(flame.entry_state),
            "ns": _numbers(flame.entry_ns),
            "samples": _numbers(flame.entry_samples),
        },
    }


def step_document(rows: StepRows, start_ns: int) -> dict[str, Any]:
    return {
        "process": rows.process,
        "step": _numbers(rows.step),
        "since_start_ns": _numbers(rows.start_ns - start_ns),
        "duration_ns": _numbers(rows.duration_ns),
        "is_outlier": _numbers(rows.is_outlier.astype(int)),
    }


def to_json(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def _numbers(array: Array) -> list[int]:
    numbers: list[int] = array.tolist()
    return numbers
