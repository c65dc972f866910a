"""Batches as rows of the store's tables, many batches at once: engines like big blocks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pilotlight.recording.columns import Array, Columns
from pilotlight.ship.wire import PARTS
from pilotlight.store.batch import Batch, Cost, DoctorCheck, Place, corrected

if TYPE_CHECKING:
    import pyarrow as pa

_TIME_COLUMN = {"steps": "start_ns"}
_NO_COST = Cost()
_LARGEST = np.int64(1 << 62)


def arrow_tables(batches: Sequence[Batch]) -> dict[str, pa.Table]:
    """One table for each that has rows; the same batches always give the same rows. Ranks and names
    come first, so that whoever reads meanwhile knows what the other rows are of; jobs come last, so
    that one that is told to have ended has all its rows."""
    made: dict[str, pa.Table] = {}
    losses: list[dict[str, object]] = []
    for name in ("steps", "windows", "histograms", "collectives", "counters"):
        table, lost = _measured(name, batches)
        losses += lost
        if table is not None:
            made[name] = table
    described = _described(batches, losses)
    jobs = {name: described.pop(name) for name in ("jobs",) if name in described}
    return {**described, **made, **jobs}


def _measured(name: str, batches: Sequence[Batch]) -> tuple[pa.Table | None, list[dict[str, Any]]]:
    """The rows of a table that has a place and a time."""
    import pyarrow as pa

    time_column = _TIME_COLUMN.get(name, "time_ns")
    pieces: list[Columns] = []
    owners: list[Array] = []
    places: list[tuple[Batch, int]] = []
    losses = []
    for batch in batches:
        columns = batch.tables.get(name)
        if columns is None or not columns.rows:
            continue
        shifted, possible = corrected(batch, columns[time_column])
        columns = Columns(columns.rows, {**columns.arrays, time_column: shifted}, columns.texts)
        if not possible.all():
            lost = int(columns.rows - np.count_nonzero(possible))
            losses.append(_loss(batch, f"{name} with impossible times", lost))
            columns = columns.where(possible)
        pieces.append(columns)
        owners.append(columns["place"].astype(np.int64) + len(places))
        places += [(batch, index) for index in range(len(batch.header.places))]
    if not pieces:
        return None, losses
    owner = np.concatenate(owners)
    arrays: dict[str, Any] = {
        "tenant": _text(places, owner, lambda batch, _: batch.tenant),
        "job": _text(places, owner, lambda batch, index: batch.header.places[index].job),
        "attempt": _number(places, owner, lambda b, i: b.header.places[i].attempt),
    }
    if name != "histograms":
        arrays["node"] = _text(places, owner, lambda batch, _: batch.header.node)
        arrays["rank"] = _number(places, owner, lambda b, i: b.header.places[i].rank)
    for column in pieces[0].arrays:
        if column != "place":
            values = np.concatenate([piece[column] for piece in pieces])
            arrays[column] = _clipped(values)
    if name == "counters":
        arrays["gpu"] = arrays["gpu"].clip(-1, (1 << 31) - 1).astype(np.int32)
    for column in pieces[0].texts:
        words = [text[:200] for piece in pieces for text in piece.texts[column]]
        arrays[column] = pa.array(words, pa.string()).dictionary_encode()
    if name == "steps":
        _bound_parts(arrays)
    return pa.table(arrays), losses


def _bound_parts(arrays: dict[str, Any]) -> None:
    """Parts are of the step: none is negative or longer than it."""
    arrays["duration_ns"] = np.maximum(arrays["duration_ns"], 0)
    for part in (*PARTS, "wait_ns"):
        arrays[part] = np.clip(arrays[part], 0, arrays["duration_ns"])


def _clipped(values: Array) -> Array:
    """So that sums of many rows stay within 64 bits for any agent that means well."""
    return np.clip(values, -_LARGEST, _LARGEST) if values.dtype == np.int64 else values


def _text(
    places: Sequence[tuple[Batch, int]], owner: Array, of: Callable[[Batch, int], str]
) -> pa.DictionaryArray:
    import pyarrow as pa

    codes: dict[str, int] = {}
    code = np.array(
        [codes.setdefault(of(batch, index), len(codes)) for batch, index in places], np.int32
    )
    return pa.DictionaryArray.from_arrays(pa.array(code[owner]), pa.array(list(codes), pa.string()))


def _number(
    places: Sequence[tuple[Batch, int]], owner: Array, of: Callable[[Batch, int], int]
) -> Array:
    return np.array([of(batch, index) for batch, index in places], np.int32)[owner]


def _described(batches: Sequence[Batch], losses: list[dict[str, object]]) -> dict[str, pa.Table]:
    """What headers say: jobs, ranks, agents, losses, and the batches themselves."""
    import pyarrow as pa

    rows: dict[str, list[dict[str, object]]] = {"losses": losses, "batches": []}
    latest: dict[str, dict[tuple[object, ...], dict[str, object]]] = {
        "jobs": {},
        "ranks": {},
        "agents": {},
        "doctor": {},
        "budgets": {},
        "costs": {},
        "names": {},
    }
    for batch in batches:
        header = batch.header
        rows["batches"].append(_batch(batch))
        rows["losses"] += [
            _loss(batch, loss.what, loss.count, loss.job, loss.attempt, loss.time_ns)
            for loss in header.losses
        ]
        if batch.skipped:
            rows["losses"].append(_loss(batch, "tables of a newer agent", len(batch.skipped)))
        latest["agents"][batch.tenant, header.agent] = _agent(batch)
        if header.facts.cpu_ceiling_ratio:
            latest["budgets"][batch.tenant, header.agent] = _budget(batch)
        for check in header.facts.doctor:
            latest["doctor"][batch.tenant, header.agent, check.what] = _doctor(batch, check)
        for job in header.jobs:
            latest["jobs"][batch.tenant, job.job, job.attempt, header.node] = _job(batch, job)
        for place in header.places:
            if not place.job:
                continue
            key = (batch.tenant, place.job, place.attempt, place.rank, header.node, place.process)
            latest["ranks"][key] = _rank(batch, place)
            if place.cost != _NO_COST:
                latest["costs"][batch.tenant, header.agent, place.job, place.process] = _cost(
                    batch, place
                )
        names = batch.tables.get("names")
        if names is not None:
            for id, kind, text in zip(
                names["id"].tolist(), names["kind"].tolist(), names.texts["text"], strict=True
            ):
                latest["names"][batch.tenant, id] = {
                    "tenant": batch.tenant,
                    "id": id,
                    "kind": kind,
                    "text": text[:16_384],
                    "seen_ns": batch.received_ns,
                }
    found = {**rows, **{name: list(by_key.values()) for name, by_key in latest.items()}}
    return {name: _table(name, listed, pa) for name, listed in found.items() if listed}


def _table(name: str, rows: list[dict[str, object]], pa: Any) -> pa.Table:
    if name == "names":
        ids = pa.array([row["id"] for row in rows], pa.uint64())
        table = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "id"} for row in rows])
        return table.append_column("id", ids)
    return pa.Table.from_pylist(rows)


def _time(batch: Batch, time_ns: int) -> int:
    """0 stays 0: it means that it has not happened."""
    if not time_ns:
        return 0
    shifted = time_ns + batch.clock.offset_ns
    return shifted if 0 < shifted < batch.received_ns + 10**18 else batch.received_ns


def _loss(
    batch: Batch, what: str, count: int, job: str = "", attempt: int = 0, time_ns: int = 0
) -> dict[str, object]:
    time_ns = _time(batch, time_ns) or batch.received_ns
    recent = abs(time_ns - batch.received_ns) < 35 * 86_400 * 10**9
    return {
        "tenant": batch.tenant,
        "job": job,
        "attempt": attempt,
        "node": batch.header.node,
        "agent": batch.header.agent,
        "time_ns": time_ns if recent else batch.received_ns,
        "what": what,
        "count": count,
    }


def _batch(batch: Batch) -> dict[str, object]:
    header = batch.header
    return {
        "tenant": batch.tenant,
        "agent": header.agent,
        "epoch": header.epoch,
        "sequence": header.sequence,
        "received_ns": batch.received_ns,
        "sent_ns": header.made_ns,
        "offset_ns": batch.clock.offset_ns,
        "uncertainty_ns": batch.clock.uncertainty_ns,
        "rows": batch.rows,
        "bytes": batch.size_bytes,
        "protocol": header.protocol[0] % (1 << 16),
    }


def _agent(batch: Batch) -> dict[str, object]:
    header, facts = batch.header, batch.header.facts
    return {
        "tenant": batch.tenant,
        "agent": header.agent,
        "cluster": header.cluster,
        "node": header.node,
        "version": header.version,
        "epoch": header.epoch,
        "seen_ns": batch.received_ns,
        "offset_ns": batch.clock.offset_ns,
        "uncertainty_ns": batch.clock.uncertainty_ns,
        "cpu_ratio": facts.cpu_ratio,
        "rss_bytes": facts.rss_bytes,
        "jobs": sorted({job.job for job in header.jobs if job.state == "running"}),
        "spool_bytes": facts.spool_bytes,
        "batches_lost": facts.batches_lost,
        "rows_lost": facts.rows_lost,
        "records_dropped": facts.records_dropped,
        "gpus": list(facts.gpus),
    }


def _budget(batch: Batch) -> dict[str, object]:
    facts = batch.header.facts
    return {
        "tenant": batch.tenant,
        "agent": batch.header.agent,
        "cpu_ceiling_ratio": facts.cpu_ceiling_ratio,
        "memory_ceiling_bytes": facts.memory_ceiling_bytes,
        "level": facts.level,
        "seen_ns": batch.received_ns,
    }


def _cost(batch: Batch, place: Place) -> dict[str, object]:
    cost = place.cost
    values = {name: getattr(cost, name) for name in cost.__struct_fields__ if name != "tier"}
    return {
        "tenant": batch.tenant,
        "agent": batch.header.agent,
        "job": place.job,
        "rank": place.rank,
        "process": place.process,
        "tier": cost.tier,
        "seen_ns": batch.received_ns,
        **{name: math.nan if value is None else value for name, value in values.items()},
    }


def _doctor(batch: Batch, check: DoctorCheck) -> dict[str, object]:
    return {
        "tenant": batch.tenant,
        "agent": batch.header.agent,
        "node": batch.header.node,
        "what": check.what,
        "state": check.state,
        "detail": check.detail,
        "fix": check.fix,
        "seen_ns": batch.received_ns,
    }


def _job(batch: Batch, job: Any) -> dict[str, object]:
    return {
        "tenant": batch.tenant,
        "job": job.job,
        "attempt": job.attempt,
        "cluster": batch.header.cluster,
        "node": batch.header.node,
        "started_ns": _time(batch, job.started_ns),
        "updated_ns": batch.received_ns,
        "ended_ns": _time(batch, job.ended_ns),
        "state": job.state,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "launcher": job.launcher,
        "world_size": job.world_size,
        "command": job.command,
        "facts": json.dumps(job.facts)[:65_536],
    }


def _rank(batch: Batch, place: Any) -> dict[str, object]:
    return {
        "tenant": batch.tenant,
        "job": place.job,
        "attempt": place.attempt,
        "node": batch.header.node,
        "rank": place.rank,
        "process": place.process,
        "role": place.role,
        "pid": place.pid,
        "gpu": place.gpu,
        "gpu_name": place.gpu_name,
        "python": place.python,
        "started_ns": _time(batch, place.started_ns),
        "updated_ns": batch.received_ns,
        "ended_ns": _time(batch, place.ended_ns),
        "how": place.how,
        "step": place.step,
        "records_read": place.read,
        "records_dropped": place.dropped,
        "cpu_ns": place.cpu_ns,
    }
