"""torch.profiler.record_function ranges.

The framework labels parts of every step by itself, which are told as phases already. So only the
names of new labels are looked at, until the program makes one of its own.
"""

from __future__ import annotations

from pilotlight import _probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, torch: Any) -> None:
    label = torch.autograd.profiler.record_function

    def listen() -> None:
        adapter.give_back(label, "__init__")
        adapter.replace(label, "__enter__", lambda call: _probe.enter_call(call, adapter.fault))
        adapter.replace(label, "__exit__", lambda call: _probe.exit_call(call, adapter.fault))

    adapter.replace(label, "__init__", lambda call: _probe.label_call(call, adapter.fault, listen))

    # TorchScript compiles the class from its source and needs plain functions for that.
    adapter.stand_aside(torch.jit._script, "script")
    adapter.replace(torch.jit, "script", lambda _: vars(torch.jit._script)["script"])
