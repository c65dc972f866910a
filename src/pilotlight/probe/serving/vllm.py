"""vLLM's engine (V1): EngineCore.step asks Scheduler.schedule for a batch and executes it."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.imports import watch
from pilotlight.probe.serving.batch import Batch, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, _: Any) -> None:
    under_way: list[Batch] = []

    def step_begins(*_: Any, **__: Any) -> bool:
        under_way.clear()
        _probe.automatic_step(None)
        return True

    def step_ends(_: bool, __: Any) -> None:
        while under_way:
            under_way.pop().ends()

    def schedules(scheduler: Any, *_: Any, **__: Any) -> Any:
        return scheduler

    def scheduled(scheduler: Any, output: Any) -> None:
        tokens = list(output.num_scheduled_tokens.values())
        if tokens:
            kind = kind_of(tokens, len(output.scheduled_new_reqs))
            under_way.append(Batch(kind, len(tokens), sum(tokens), scheduler.waiting))

    def engine(module: Any) -> None:
        for name in ("step", "step_with_batch_queue"):
            adapter.replace(
                module.EngineCore,
                name,
                lambda call: _probe.around_call(call, adapter.fault, step_begins, step_ends),
            )

    def scheduling(module: Any) -> None:
        adapter.replace(
            module.Scheduler,
            "schedule",
            lambda call: _probe.around_call(call, adapter.fault, schedules, scheduled),
        )

    watch.when_imported("vllm.v1.engine.core", adapter.guarded(engine))
    watch.when_imported("vllm.v1.core.sched.scheduler", adapter.guarded(scheduling))
