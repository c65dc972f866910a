"""How the step time of every job went, and where it went, in one question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotlight.store.queries.reader import PERIODS_NS, Reader, Span
from pilotlight.store.schema import PARTS

_PERIODS_NS = {"5m": PERIODS_NS["5m"], "1h": PERIODS_NS["1h"], "1d": 24 * PERIODS_NS["1h"]}


@dataclass(frozen=True)
class Trend:
    """`mean_ns` is the mean step in equal parts of the span, None where there was none;
    `parts_ns` are the known parts of `total_ns`, the time of all steps of all ranks."""

    mean_ns: list[float | None]
    total_ns: int
    parts_ns: dict[str, int]


def trends(reader: Reader, span: Span, points: int) -> dict[str, Trend]:
    """By job; the windows in which the span begins and ends belong to it. A short span has fewer
    points, since none is shorter than a window."""
    fitting = [name for name, ns in _PERIODS_NS.items() if ns * points <= span.length_ns]
    period = fitting[-1] if fitting else "5m"
    begin_ns = span.from_ns // _PERIODS_NS[period] * _PERIODS_NS[period]
    width_ns = max(-(-(span.to_ns - begin_ns) // points), _PERIODS_NS[period])
    points = -(-(span.to_ns - begin_ns) // width_ns)
    sums = ", ".join(f"sum(s.{part}) AS sum_{part}" for part in PARTS)
    found = reader.select_arrow(
        "SELECT job, intDiv(s.time_ns - {begin_ns:Int64}, {width_ns:Int64}) AS point, "
        f"sum(s.count) AS steps, sum(s.total_ns) AS total, {sums} FROM job_steps_{period} AS s "
        "WHERE tenant = {tenant:String} AND s.time_ns >= {begin_ns:Int64} "
        "AND s.time_ns < {to_ns:Int64} GROUP BY job, point",
        begin_ns=begin_ns,
        width_ns=width_ns,
        to_ns=span.to_ns,
    )
    names = found["job"].combine_chunks().dictionary_encode()
    jobs = names.dictionary.to_pylist()
    row = names.indices.to_numpy()
    point = found["point"].to_numpy()
    total = found["total"].to_numpy().astype(np.float64)
    mean = np.full((len(jobs), points), np.nan)
    mean[row, point] = total / np.maximum(found["steps"].to_numpy(), 1)
    sizes = {
        name: np.bincount(row, found[column].to_numpy(), minlength=len(jobs)).astype(np.int64)
        for name, column in [("", "total"), *((part, f"sum_{part}") for part in PARTS)]
    }
    means = [[None if v != v else v for v in line] for line in mean.tolist()]
    return {
        job: Trend(
            mean_ns=means[number],
            total_ns=int(sizes[""][number]),
            parts_ns={
                part.removesuffix("_ns"): int(sizes[part][number])
                for part in PARTS
                if sizes[part][number]
            },
        )
        for number, job in enumerate(jobs)
    }
