"""Data loaders: how long the step waits for them, their queue, and what their workers do."""

from __future__ import annotations

import time

from pilotlight import _probe
from pilotlight.probe.phases import DATA, LOADER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

_QUEUE_EVERY_NS = 100_000_000


def install(adapter: Adapter, torch: Any) -> None:
    dataloader = torch.utils.data.dataloader
    # To begin an epoch is to start its workers, unless they are kept.
    for owner, name in (
        (dataloader.DataLoader, "__iter__"),
        (dataloader._BaseDataLoaderIter, "__next__"),
    ):
        adapter.replace(owner, name, lambda call: _probe.phase_call(call, adapter.fault, DATA))
    adapter.replace(
        dataloader._MultiProcessingDataLoaderIter,
        "_next_data",
        lambda following: _probe.around_call(following, adapter.fault, _Queue().look, _nothing),
    )
    fetch = torch.utils.data._utils.fetch
    for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        adapter.replace(
            fetcher,
            "fetch",
            lambda function: _probe.range_call(function, adapter.fault, "loader.fetch", LOADER),
        )


class _Queue:
    """How many batches are ready when the step asks for one, ten times a second."""

    def __init__(self) -> None:
        self._next_ns = 0

    def look(self, iterator: Any) -> None:
        now_ns = time.monotonic_ns()
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + _QUEUE_EVERY_NS
        # A task has two parts in its entry when its data came out of order and wait for their turn.
        ready = sum(len(task) == 2 for task in iterator._task_info.values())
        try:
            ready += iterator._data_queue.qsize()
        except (AttributeError, NotImplementedError):
            return
        _probe.counter("loader.queue", ready)
        _probe.counter("loader.workers", iterator._num_workers)


def _nothing(_: Any, __: Any) -> None:
    """around_call wants one; `look` answers None, so it is not called."""
