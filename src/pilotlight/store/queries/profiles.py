"""Stacks and kernels of all jobs of all tenants, for whoever passes them on."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.recording.schema import State, WindowKind
from pilotlight.store.queries.hot import ACTIVITIES
from pilotlight.store.queries.reader import PERIODS_NS, Span
from pilotlight.store.queries.texts import texts
from pilotlight.store.store import Store

MOST_OF_A_JOB = 500
MOST_ROWS = 5000

_SUMS = f"""
SELECT w.tenant, w.job, w.attempt, w.kind, w.state, w.name, sum(w.total_ns) AS spent,
  sum(spent) OVER (PARTITION BY w.tenant, w.job, w.attempt, w.kind), count() OVER ()
FROM windows AS w
WHERE w.kind IN ({WindowKind.SAMPLE.value}, {WindowKind.ACTIVITY.value})
  AND w.time_ns >= {{from_ns:Int64}} AND w.time_ns < {{to_ns:Int64}}
GROUP BY w.tenant, w.job, w.attempt, w.kind, w.state, w.name
ORDER BY w.tenant, w.job, w.attempt, w.kind, spent DESC
LIMIT {MOST_OF_A_JOB} BY w.tenant, w.job, w.attempt, w.kind LIMIT {MOST_ROWS}
"""
_LATE = """
SELECT countIf(sent_ns + offset_ns < {until_ns:Int64}), max(received_ns) FROM batches
WHERE received_ns > {after_ns:Int64}
"""


@dataclass(frozen=True)
class ProfileKey:
    """`is_device`: what ran on the devices, else what Python did."""

    tenant: str
    job: str
    attempt: int
    is_device: bool


@dataclass(frozen=True)
class ProfileRow:
    """Frames from the outermost to the innermost; of a device the name of what ran."""

    frames: tuple[str, ...]
    state: str
    total_ns: int


@dataclass(frozen=True)
class ProfileSums:
    """By job what took most time, and all of its time; `left_out` are rows beyond the bounds."""

    rows: dict[ProfileKey, list[ProfileRow]]
    whole_ns: dict[ProfileKey, int]
    left_out: int


def profile_sums(store: Store, span: Span) -> ProfileSums:
    """Over all ranks. ShardDown: part of the cluster is away, so the sums would be too small."""
    joins: dict[str, object] = (
        {"distributed_product_mode": "global"} if store.is_distributed else {}
    )
    found = store.select(_SUMS, {"from_ns": span.from_ns, "to_ns": span.to_ns}, joins)
    names: dict[str, list[int]] = {}
    for tenant, _, _, _, _, name, *_ in found:
        names.setdefault(tenant, []).append(name)
    text_of = {
        tenant: texts(
            lambda sql, tenant=tenant, **values: store.select(
                sql, {"tenant": tenant, **values}, joins
            ),
            wanted,
        )
        for tenant, wanted in names.items()
    }
    rows: dict[ProfileKey, list[ProfileRow]] = {}
    whole_ns = {}
    for tenant, job, attempt, kind, state, name, spent, whole, _ in found:
        is_device = kind == WindowKind.ACTIVITY
        key = ProfileKey(tenant, job, int(attempt), is_device)
        known = text_of[tenant].get(name) or f"?{name:016x}"
        frames = (known,) if is_device else tuple(known.split("\n"))
        label = ACTIVITIES.get(int(state), "other") if is_device else State(state).name.lower()
        rows.setdefault(key, []).append(ProfileRow(frames, label, int(spent)))
        whole_ns[key] = int(whole)
    return ProfileSums(rows, whole_ns, int(found[0][-1]) - len(found) if found else 0)


def late_batches(store: Store, until_ns: int, after_ns: int) -> tuple[int, int]:
    """How many that came after `after_ns` may have windows before `until_ns`, and when the last of
    all came."""
    until_ns += PERIODS_NS["10s"]
    ((count, last_ns),) = store.select(_LATE, {"after_ns": after_ns, "until_ns": until_ns})
    return int(count), max(after_ns, int(last_ns))
