"""Two jobs, or two stretches of one: what differs, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pilotlight.insights.difference import NOISE_PROBABILITY, noise_probability
from pilotlight.store.queries import Reader, Span
from pilotlight.store.queries.hot import SHORT_NS
from pilotlight.store.queries.reader import HOUR_NS, PERIODS_NS, period_for
from pilotlight.store.queries.texts import texts
from pilotlight.store.schema import PARTS
from pilotlight.trace.trace import Float64
from pilotlight.web import answers
from pilotlight.web.facts import differences, facts_in
from pilotlight.web.headline import duration, share

STEPS = 3000
DAY_NS = 24 * HOUR_NS
BLOCKS = 25
KERNELS = 40
LEAST_HALVES = 20
UNEVEN_RATIO = 0.05

_SUMS = f"""
SELECT sum(s.total_ns), sum(s.count), {", ".join(f"sum(s.{part})" for part in PARTS)}
FROM job_steps_10s AS s WHERE tenant = {{tenant:String}} AND job = {{job:String}}
  AND s.time_ns >= {{from_ns:Int64}} AND s.time_ns < {{to_ns:Int64}}
"""
_EXTENT = """
SELECT min(s.time_ns), max(s.time_ns) FROM job_steps_10s AS s
WHERE tenant = {tenant:String} AND job = {job:String}
  AND s.time_ns >= {from_ns:Int64} AND s.time_ns < {to_ns:Int64}
"""
_KERNELS = """
SELECT w.name, sum(w.total_ns) AS spent FROM {table} AS w
WHERE w.tenant = {tenant:String} AND w.job = {job:String} AND w.kind = 5
  AND w.time_ns >= {from_ns:Int64} AND w.time_ns < {to_ns:Int64}
GROUP BY w.name ORDER BY spent DESC LIMIT {limit:UInt32}
"""


@dataclass(frozen=True)
class _Found:
    """Of one side; parts and kernels are a step and rank."""

    facts: Mapping[str, object]
    steps: Float64
    parts: dict[str, float]
    kernels: dict[str, float]


def compare(
    reader: Reader, before: str, before_span: Span, after: str, after_span: Span
) -> answers.Comparison:
    old_of = reader.beside(lambda: _found(reader, before, before_span))
    new = _found(reader, after, after_span)
    old = old_of.result()
    probability = noise_probability(_blocks(old.steps), _blocks(new.steps))
    step = answers.Difference("step time", _mean(old.steps), _mean(new.steps))
    kernels = _differences(old.kernels, new.kernels)
    fewer = min(old.steps.size, new.steps.size)
    return answers.Comparison(
        headline=_headline(before, after, step, fewer, probability) + _uneven(old.steps, new.steps),
        before=answers.Side(before, before_span.from_ns, before_span.to_ns, len(old.steps)),
        after=answers.Side(after, after_span.from_ns, after_span.to_ns, len(new.steps)),
        noise_probability=probability,
        is_noise=None if probability is None else probability > NOISE_PROBABILITY,
        step=step,
        parts=_differences(old.parts, new.parts),
        kernels=sorted(kernels, key=lambda d: -abs(d.after_ns - d.before_ns)),
        facts=differences(old.facts, new.facts),
        is_partial=reader.is_partial,
    )


def _headline(
    before: str, after: str, step: answers.Difference, steps: int, probability: float | None
) -> str:
    """`steps`: of the side with fewer."""
    if not step.before_ns or not step.after_ns:
        missing = before if not step.before_ns else after
        return f"No steps of {missing} in this time: nothing to compare."
    ratio = step.after_ns / step.before_ns - 1
    word = "slower" if ratio > 0 else "faster"
    text = f"{duration(step.after_ns)} after {duration(step.before_ns)}: {share(abs(ratio))} {word}"
    if probability is None and steps < LEAST_HALVES:
        return f"{text}; too few steps to tell from noise."
    if probability is None:
        return f"{text}; the steps of a side differ too much among themselves to tell from noise."
    if probability > NOISE_PROBABILITY:
        return f"{text}, which may be noise."
    return f"{text}, which is more than noise."


def _uneven(before: Float64, after: Float64) -> str:
    """A stretch that changed within itself tells little as a whole, so that is said."""
    apart = abs(_mean(after) - _mean(before))
    for side, steps in (("before", before), ("after", after)):
        if steps.size < LEAST_HALVES:
            continue
        # The latest steps come first.
        late, early = (float(np.median(half)) for half in np.array_split(steps, 2))
        if abs(late - early) > max(apart / 2, UNEVEN_RATIO * early):
            return (
                f" The time {side} is itself uneven: its first half {duration(early)} a step,"
                f" its second {duration(late)}."
            )
    return ""


def _found(reader: Reader, job: str, span: Span) -> _Found:
    return _Found(
        facts_in(reader, job, span),
        _steps(reader, job, span),
        _parts(reader, job, span)[0],
        _kernels(reader, job, span),
    )


def _steps(reader: Reader, job: str, span: Span) -> Float64:
    """The longest rank of each step, the latest steps."""
    found = reader.select(
        "SELECT max(s.max_ns) FROM longest_steps AS s WHERE tenant = {tenant:String} "
        "AND job = {job:String} AND s.time_ns >= {day_ns:Int64} AND s.time_ns < {to_ns:Int64} "
        "AND s.first_ns >= {from_ns:Int64} AND s.first_ns < {to_ns:Int64} "
        "GROUP BY attempt, step ORDER BY step DESC LIMIT {limit:UInt32}",
        job=job,
        day_ns=span.from_ns // DAY_NS * DAY_NS,
        from_ns=span.from_ns,
        to_ns=span.to_ns,
        limit=STEPS,
    )
    return np.array([float(row[0]) for row in found], np.float64)


def _parts(reader: Reader, job: str, span: Span) -> tuple[dict[str, float], int]:
    """Nanoseconds a step and rank, and how many of those there are."""
    total, count, *values = (
        int(value or 0)
        for value in reader.select(_SUMS, job=job, from_ns=span.from_ns, to_ns=span.to_ns)[0]
    )
    parts = {
        part.removesuffix("_ns"): value / max(count, 1)
        for part, value in zip(PARTS, values, strict=True)
        if value
    }
    left = total / max(count, 1) - sum(parts.values())
    return {**parts, "unknown": left} if left > 1000 else parts, count


def _kernels(reader: Reader, job: str, span: Span) -> dict[str, float]:
    """Long stretches have windows of minutes: those that lie in it whole, so that the time before
    and after does not count, and the steps of just these."""
    first, last = reader.select(_EXTENT, job=job, from_ns=span.from_ns, to_ns=span.to_ns)[0]
    if not last:
        return {}
    lived = Span(max(span.from_ns, int(first)), min(span.to_ns, int(last) + PERIODS_NS["10s"]))
    is_fine = span.length_ns <= SHORT_NS and reader.keeps("windows", span)
    period = "10s" if is_fine else period_for(lived, 600, "5m")
    whole = _inside(lived, PERIODS_NS[period])
    _, count = _parts(reader, job, whole)
    found = reader.select(
        _KERNELS.replace("{table}", "windows" if period == "10s" else f"windows_{period}"),
        job=job,
        from_ns=whole.from_ns,
        to_ns=whole.to_ns,
        limit=KERNELS,
    )
    text_of = texts(reader.select, (name for name, _ in found))
    return {text_of[name]: int(total) / max(count, 1) for name, total in found if name in text_of}


def _inside(span: Span, width_ns: int) -> Span:
    """Its whole windows; of a span without any, those that it touches."""
    begin, end = -(-span.from_ns // width_ns) * width_ns, span.to_ns // width_ns * width_ns
    if end > begin:
        return Span(begin, end)
    return Span(span.from_ns // width_ns * width_ns, -(-span.to_ns // width_ns) * width_ns)


def _differences(old: dict[str, float], new: dict[str, float]) -> list[answers.Difference]:
    return [
        answers.Difference(name, old.get(name, 0.0), new.get(name, 0.0)) for name in {**old, **new}
    ]


def _blocks(steps: Float64) -> Float64:
    """Means of neighbouring steps: neighbours resemble each other, and counting each of them as a
    witness of its own would make any difference look certain."""
    if steps.size <= BLOCKS:
        return steps
    return np.array([part.mean() for part in np.array_split(steps, BLOCKS)], np.float64)


def _mean(values: Float64) -> float:
    return float(values.mean()) if values.size else 0.0
