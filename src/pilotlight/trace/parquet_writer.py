"""Writes the spans and counters of traces as Parquet: a row each, with the names in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pilotlight.errors import UsageError
from pilotlight.trace.trace import NONE, Kind, Trace

ROWS_AT_ONCE = 1_000_000
COUNTER = "counter"
METADATA = b"pilotlight"


def write_parquet(traces: Sequence[Trace], path: Path) -> None:
    """A row a span; `kind` is counter for the values of counters, which have no duration. What is
    known of each rank beside its rows is in the schema's metadata."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"{path}: writing parquet needs pyarrow: pip install pyarrow") from None
    schema = _spans(pyarrow, traces[0], slice(0, 0)).schema
    schema = schema.with_metadata({METADATA: json.dumps(_told(traces)).encode()})
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for trace in traces:
            for begin in range(0, len(trace.spans), ROWS_AT_ONCE):
                table = _spans(pyarrow, trace, slice(begin, begin + ROWS_AT_ONCE))
                writer.write_table(table.cast(schema))
            if len(trace.counters.value):
                writer.write_table(_counters(pyarrow, trace).cast(schema))


def _told(traces: Sequence[Trace]) -> dict[str, Any]:
    return {
        str(trace.rank): {
            "world_size": trace.world_size,
            "devices": trace.devices,
            "steps": np.column_stack(
                (trace.steps.number, trace.steps.start_ns, trace.steps.duration_ns)
            ).tolist(),
        }
        for trace in traces
    }


def _spans(pyarrow: Any, trace: Trace, rows: slice) -> Any:
    spans = trace.spans
    lane = spans.lane[rows]
    lanes = trace.lanes
    return pyarrow.table(
        {
            "rank": np.full(len(lane), trace.rank, np.int32),
            "start_ns": spans.start_ns[rows],
            "duration_ns": spans.duration_ns[rows],
            "kind": _texts(pyarrow, spans.kind[rows], [kind.name.lower() for kind in Kind]),
            "name": _texts(pyarrow, spans.name[rows], trace.names),
            "process": _texts(pyarrow, lane, [one.process for one in lanes]),
            "thread": _texts(pyarrow, lane, [one.thread for one in lanes]),
            "lane": _texts(pyarrow, lane, [one.name for one in lanes]),
            "correlation": _known(pyarrow, spans.correlation[rows]),
            "bytes": _known(pyarrow, spans.bytes[rows]),
            "value": pyarrow.nulls(len(lane), pyarrow.float64()),
        }
    )


def _counters(pyarrow: Any, trace: Trace) -> Any:
    counters = trace.counters
    count = len(counters.value)
    nothing = np.zeros(count, np.int32)
    return pyarrow.table(
        {
            "rank": np.full(count, trace.rank, np.int32),
            "start_ns": counters.time_ns,
            "duration_ns": np.zeros(count, np.int64),
            "kind": _texts(pyarrow, nothing, [COUNTER]),
            "name": _texts(pyarrow, counters.name, trace.names),
            "process": _texts(pyarrow, nothing, [""]),
            "thread": _texts(pyarrow, nothing, [""]),
            "lane": _texts(pyarrow, nothing, [""]),
            "correlation": pyarrow.nulls(count, pyarrow.int64()),
            "bytes": pyarrow.nulls(count, pyarrow.int64()),
            "value": counters.value,
        }
    )


def _texts(pyarrow: Any, numbers: Any, texts: Sequence[str]) -> Any:
    return pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(numbers.astype(np.int32)), pyarrow.array(texts, pyarrow.string())
    ).cast(pyarrow.string())


def _known(pyarrow: Any, values: Any) -> Any:
    return pyarrow.array(values, mask=values == NONE)
