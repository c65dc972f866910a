"""torch.profiler.record_function ranges."""

from __future__ import annotations

from pilotlight import _probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, torch: Any) -> None:
    annotation = torch.autograd.profiler.record_function
    enter, leave = vars(annotation)["__enter__"], vars(annotation)["__exit__"]

    adapter.replace(annotation, "__enter__", lambda call: _probe.enter_call(call, adapter.fault))
    adapter.replace(annotation, "__exit__", lambda call: _probe.exit_call(call, adapter.fault))
    ours = vars(annotation)["__enter__"], vars(annotation)["__exit__"]

    # TorchScript compiles the class from its source and needs plain functions for that.
    def before(*_: Any, **__: Any) -> bool:
        annotation.__enter__, annotation.__exit__ = enter, leave
        return True

    def after(_: bool, __: Any) -> None:
        if not adapter.is_off:
            annotation.__enter__, annotation.__exit__ = ours

    adapter.replace(
        torch.jit._script,
        "script",
        lambda call: _probe.around_call(call, adapter.fault, before, after),
    )
    adapter.replace(torch.jit, "script", lambda _: vars(torch.jit._script)["script"])
