"""Rules about inference servers: batch, prefill between decodes, cache, host, queue."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pilotlight.insights import signals
from pilotlight.insights.finding import NO_GPU, Finding, Verdict, milliseconds, percent
from pilotlight.insights.idle_time import Idle
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.model.hardware import find_gpu
from pilotlight.trace.trace import NONE, Bool, Int64, Kind

DECODE_IDLE_RATIO = 0.15
PREFILL_IDLE_RATIO = 0.30
LATENCY_RATIO = 3.0
CACHE_FULL_PERCENT = 95.0
QUEUE_RATIO = 0.5
BYTES_A_WEIGHT = 2.0
LEAST_STEPS = 3

_DECODE = re.compile(r"decode.*?bs[=_ ]?(\d+)|generation_(\d+)", re.IGNORECASE)
_PREFILL = re.compile(r"prefill|extend|context_[1-9]", re.IGNORECASE)


@dataclass(frozen=True)
class _Rounds:
    """Steps of the server: which decode, which hold a prefill, how many sequences."""

    start_ns: Int64
    end_ns: Int64
    prefills: Bool
    batch: Int64


def small_batch(job: Job) -> Verdict:
    """A40a: decoding reads all weights for few sequences."""
    found = _of_servers(job)
    if isinstance(found, str):
        return Verdict(missing=found)
    view, rounds = found
    gpu = find_gpu(view.trace.devices[0]) if view.trace.devices else None
    peak = (gpu.peak("bf16") or gpu.peak("fp16")) if gpu else None
    memory = gpu.peak("memory_gb_per_s") if gpu else None
    if not peak or not memory:
        return Verdict(missing=NO_GPU)
    knee = peak * 1e3 * BYTES_A_WEIGHT / (2 * memory)
    decoded = rounds.batch[~rounds.prefills]
    if not len(decoded):
        return Verdict(missing="no decode of a server in the trace, only prefills")
    batch = float(np.median(decoded))
    if not 0 < batch < knee / 2:
        return Verdict()
    gain = 1 - 2 * batch / knee
    return _one(
        view,
        "A40a",
        "small_batch",
        "Decoding runs with few sequences at once",
        (
            f"{batch:.0f} sequences in the median; this GPU becomes compute-bound at {knee:.0f}",
            "below that, more sequences cost hardly more time: throughput, not latency, gains",
        ),
        "more concurrent requests: a higher max_num_seqs, fewer replicas",
        (0.0, gain, "low"),
    )


def prefill_between(job: Job) -> Verdict:
    """A40b: long prompts hold up the tokens of the others."""
    found = _of_servers(job)
    if isinstance(found, str):
        return Verdict(missing=found)
    view, rounds = found
    lengths = rounds.end_ns - rounds.start_ns
    if not rounds.prefills.any() or (~rounds.prefills).sum() < LEAST_STEPS:
        return Verdict(missing="needs decodes and prefills in one trace")
    usual = float(np.median(lengths[~rounds.prefills]))
    slow = float(np.quantile(lengths, 0.99))
    if slow <= LATENCY_RATIO * usual or lengths[rounds.prefills].max() < slow:
        return Verdict()
    share = float((lengths[rounds.prefills] - usual).clip(min=0).sum() / lengths.sum())
    return _one(
        view,
        "A40b",
        "prefill",
        "Prefills hold up the decoding of other sequences",
        (
            f"a decode takes {milliseconds(usual)}, one in a hundred {milliseconds(slow)}: those"
            " with a prefill",
        ),
        "chunked prefill, or prefill on other devices",
        (0.0, share, "medium"),
    )


def cache_pressure(job: Job) -> Verdict:
    """A40c: sequences are put off because the cache of keys and values is full."""
    read = [
        (view, signals.mean(view, "kv_cache_usage"), signals.growth(view, "preemptions"))
        for view in job.ranks
    ]
    known = [row for row in read if row[1] is not None]
    if not known:
        return Verdict(missing="no counters of a server's cache")
    view, usage, preempted = max(known, key=lambda row: row[1] or 0.0)
    if (usage or 0.0) <= CACHE_FULL_PERCENT and preempted <= 0:
        return Verdict()
    return _one(
        view,
        "A40c",
        "kv_cache",
        "The cache of keys and values is full",
        (f"{usage:.0f} % used, {preempted:.0f} sequences put off",),
        "an fp8 cache, fewer sequences (max_num_seqs), more GPUs, prefix caching",
        (0.0, 0.1, "low"),
    )


def host_between(job: Job) -> Verdict:
    """A40d: the device idles between decodes while the host schedules."""
    found = _of_servers(job)
    if isinstance(found, str):
        return Verdict(missing=found)
    view, rounds = found
    start_ns, end_ns = _on_device(view, rounds)
    spans = end_ns - start_ns
    # What was launched and does not start is not the host's: A02q.
    busy = view.line.busy | view.line.idle[Idle.QUEUED]
    idle = spans - busy.within_ns(start_ns, end_ns)
    limit = np.where(rounds.prefills, PREFILL_IDLE_RATIO, DECODE_IDLE_RATIO)
    ratio = idle / np.maximum(spans, 1)
    over = ratio > limit
    if over.mean() < 0.5:
        return Verdict()
    gain = float(idle[over].sum() / max(1, spans.sum()))
    return _one(
        view,
        "A40d",
        "server_host",
        "The device idles while the server's host prepares the next step",
        (
            f"{percent(float(np.median(ratio)))} of a step in the median, over the limit in"
            f" {int(over.sum())} of {len(over)} steps",
        ),
        "CUDA graphs, asynchronous scheduling, less work between the steps",
        (0.5 * gain, gain, "medium"),
    )


def queued_requests(job: Job) -> Verdict:
    """A40e: requests spend most of the time to their first token in the queue."""
    read = [
        (view, signals.mean(view, "queue_time"), signals.mean(view, "time_to_first_token"))
        for view in job.ranks
    ]
    known = [(view, queue, first) for view, queue, first in read if queue is not None and first]
    if not known:
        return Verdict(missing="no counters of a server's queue")
    view, queue, first = max(known, key=lambda row: row[1] / row[2])
    share = queue / first
    if share <= QUEUE_RATIO:
        return Verdict()
    return _one(
        view,
        "A40e",
        "queue",
        "Requests wait in the queue for most of the time to their first token",
        (f"{percent(share)} of the time to the first token",),
        "more replicas, routing by load",
        (0.0, share, "medium"),
    )


def _of_servers(job: Job) -> tuple[RankView, _Rounds] | str:
    """The first rank with rounds of a server, or why there is none."""
    for view in job.ranks:
        spans = view.trace.of_kind(Kind.ANNOTATION, Kind.OPERATOR, Kind.OTHER)
        batch = np.zeros(len(view.trace.names), np.int64)
        prefills = np.zeros(len(view.trace.names), np.bool_)
        for i in np.flatnonzero(np.bincount(spans.name)).tolist():
            name = view.trace.names[i]
            match = _DECODE.search(name[:200])
            prefills[i] = bool(_PREFILL.search(name[:200])) and "python" not in name
            if match:
                batch[i] = int((match.group(1) or match.group(2))[:9])
        chosen = spans.take(
            (batch[spans.name] > 0) | (prefills[spans.name] & (spans.kind == Kind.ANNOTATION))
        )
        if not (batch[chosen.name] > 0).any():
            continue
        rounds = _outermost(
            chosen.start_ns, chosen.end_ns, prefills[chosen.name], batch[chosen.name]
        )
        return view, rounds
    return "no steps of a server (decode, prefill) in the trace"


def _on_device(view: RankView, rounds: _Rounds) -> tuple[Int64, Int64]:
    """When the device ran each round: from the first span launched in it to that of the next, for a
    server that schedules ahead has left the round long before. As on the host where no launches
    are known."""
    known = np.flatnonzero(view.launch != NONE)
    launched_ns = view.calls.start_ns[view.launch[known]]
    number = np.searchsorted(rounds.start_ns, launched_ns, side="right") - 1
    inside = (number >= 0) & (launched_ns < rounds.end_ns[number.clip(min=0)])
    number, known = number[inside], known[inside]
    if len(np.unique(number)) < len(rounds.start_ns):
        return rounds.start_ns, rounds.end_ns
    first_ns = np.full(len(rounds.start_ns), np.iinfo(np.int64).max)
    last_ns = np.zeros(len(rounds.start_ns), np.int64)
    np.minimum.at(first_ns, number, view.device.start_ns[known])
    np.maximum.at(last_ns, number, view.device.end_ns[known])
    return first_ns, np.maximum(last_ns, np.append(first_ns[1:], 0))


def _outermost(start_ns: Int64, end_ns: Int64, prefills: Bool, batch: Int64) -> _Rounds:
    """Servers and their engines both name their steps; one within another counts once."""
    order = np.lexsort((-end_ns, start_ns))
    last = np.maximum.accumulate(end_ns[order])
    keep = np.concatenate(([True], start_ns[order][1:] >= last[:-1]))
    rows = order[keep]
    return _Rounds(start_ns[rows], end_ns[rows], prefills[rows], batch[rows])


def _one(
    view: RankView,
    rule: str,
    cause: str,
    title: str,
    evidence: tuple[str, ...],
    fix: str,
    gain: tuple[float, float, str],
) -> Verdict:
    low, high, confidence = gain
    finding = Finding(
        rule=rule,
        cause=cause,
        title=title,
        rank=view.rank,
        place="server",
        evidence=evidence,
        fix=fix,
        gain_low_ratio=low,
        gain_high_ratio=high,
        confidence=confidence,
    )
    return Verdict((finding,))
