"""SGLang's scheduler: its event loop calls run_batch for each batch, of one kind each."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.imports import watch
from pilotlight.probe.serving.batch import DECODE, MIXED, PREFILL, Batch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, _: Any) -> None:
    def begins(scheduler: Any, batch: Any, *_: Any, **__: Any) -> Batch | None:
        mode = batch.forward_mode
        # One without requests, for the sake of other ranks that have some.
        if mode.is_idle():
            return None
        _probe.automatic_step(None)
        kind = DECODE if mode.is_decode() else MIXED if mode.is_mixed() else PREFILL
        requests = len(batch.reqs)
        tokens = requests if kind == DECODE else int(getattr(batch, "extend_num_tokens", 0) or 0)
        return Batch(kind, requests, tokens, scheduler.waiting_queue)

    def ends(batch: Batch, _: Any) -> None:
        batch.ends()

    def imported(module: Any) -> None:
        adapter.replace(
            module.Scheduler,
            "run_batch",
            lambda call: _probe.around_call(call, adapter.fault, begins, ends),
        )

    watch.when_imported("sglang.srt.managers.scheduler", adapter.guarded(imported))
