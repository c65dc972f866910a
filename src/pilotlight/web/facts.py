"""Facts of a job, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pilotlight.store.queries import Reader
from pilotlight.web import answers

LONGEST = 500

_ATTEMPTS = """
SELECT attempt, argMax(facts, updated_ns), argMax(command, updated_ns), max(world_size),
  uniqExact(node)
FROM jobs WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY attempt ORDER BY attempt
"""


def changes_of(reader: Reader, job: str) -> list[answers.AttemptChange]:
    """What each attempt of a job had otherwise than the one before it."""
    changes: list[answers.AttemptChange] = []
    before: Mapping[str, object] | None = None
    for attempt, text, command, world_size, nodes in reader.select(_ATTEMPTS, job=job):
        facts = parsed(text) | {"command": command, "world size": world_size, "nodes": nodes}
        if before is not None:
            changes += [
                answers.AttemptChange(int(attempt), row.name, row.before, row.after)
                for row in differences(before, facts)
            ]
        before = facts
    return changes


def differences(
    before: Mapping[str, object], after: Mapping[str, object]
) -> list[answers.FactChange]:
    return [
        answers.FactChange(name, shown(before.get(name, "")), shown(after.get(name, "")))
        for name in sorted({**before, **after})
        if before.get(name) != after.get(name)
    ]


def shown(fact: object) -> str:
    return str(fact)[:LONGEST]


def parsed(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}
