"""How the step time of every job went, and where it went, in one question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pilotlight.store.queries.reader import ONE_THREAD, PERIODS_NS, Reader, Span
from pilotlight.store.schema import PARTS

_PERIODS_NS = {"5m": PERIODS_NS["5m"], "1h": PERIODS_NS["1h"], "1d": 24 * PERIODS_NS["1h"]}


@dataclass(frozen=True)
class Trend:
    """`mean_ns` is the mean step in equal parts of the span, None where there was none.
    `parts_ns` are the known parts of `total_ns`, the time of all steps of all ranks."""

    mean_ns: list[int | None]
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
    # Windows go out one by one: to group by their points, too, takes the engine twice as long.
    found = reader.select_arrow(
        "SELECT job, groupArray(intDiv(s.time_ns - {begin_ns:Int64}, {width_ns:Int64})) AS points, "
        f"groupArray(s.count) AS counts, groupArray(s.total_ns) AS totals, {sums} "
        f"FROM job_steps_{period} AS s "
        "WHERE tenant = {tenant:String} AND s.time_ns >= {begin_ns:Int64} "
        "AND s.time_ns < {to_ns:Int64} GROUP BY job " + ONE_THREAD,
        begin_ns=begin_ns,
        width_ns=width_ns,
        to_ns=span.to_ns,
    ).combine_chunks()
    jobs = found["job"].to_pylist()
    if not jobs:
        return {}
    lists = found["points"].chunk(0)
    place = np.repeat(np.arange(len(jobs)), np.diff(lists.offsets.to_numpy())) * points
    place += lists.values.to_numpy()
    steps, total = (
        _sums(place, found[name].chunk(0).values.to_numpy(), len(jobs), points)
        for name in ("counts", "totals")
    )
    mean = np.full((len(jobs), points), np.nan)
    np.divide(total, steps, out=mean, where=steps > 0)
    means = _points(mean)
    parts = [found[f"sum_{part}"].to_pylist() for part in PARTS]
    names = [part.removesuffix("_ns") for part in PARTS]
    total_ns = total.sum(axis=1).astype(np.int64).tolist()
    return {
        job: Trend(
            mean_ns=means[number],
            total_ns=total_ns[number],
            parts_ns={name: value for name, value in zip(names, values, strict=True) if value},
        )
        for number, (job, *values) in enumerate(zip(jobs, *parts, strict=True))
    }


def _sums(
    place: npt.NDArray[np.int64], values: npt.NDArray[np.int64], jobs: int, points: int
) -> npt.NDArray[np.float64]:
    found = np.bincount(place, values, minlength=jobs * points)
    return found.astype(np.float64).reshape(jobs, points)


def _points(mean: npt.NDArray[np.float64]) -> list[list[int | None]]:
    known = ~np.isnan(mean)
    points = np.full(mean.shape, None, object)
    points[known] = np.rint(mean[known]).astype(np.int64).tolist()
    found: list[list[int | None]] = points.tolist()
    return found
