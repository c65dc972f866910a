"""Steps, and the phases backward and optimizer.

A training step is over when every optimizer in use has stepped once since the last step ended; one
that has not stepped while another stepped 16 times is not in use any more. A step that a gradient
scaler leaves out counts. The first step begins with the first data, forward or backward.
"""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.phases import BACKWARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, torch: Any) -> None:
    def phase(function: Any) -> _probe.Wrapped:
        return _probe.phase_call(function, adapter.fault, BACKWARD)

    # Below Tensor.backward, autograd.backward and autograd.grad, which compilers know by name.
    if not adapter.replace(torch.autograd, "_engine_run_backward", phase):
        adapter.replace(torch.autograd, "backward", phase)
    _install_optimizers(adapter, torch.optim.Optimizer)
    _install_scaler(adapter, torch)


def _install_optimizers(adapter: Adapter, optimizer_class: Any) -> None:
    """The step of a class of optimizers, when the first of its kind is made.

    Not by hooks of optimizers: a compiled step would have to go through them.
    """

    def see(made: Any) -> None:
        for owner in made.__mro__:
            if "step" in vars(owner) and owner is not optimizer_class:
                adapter.replace(owner, "step", lambda s: _probe.optimizer_call(s, adapter.fault))

    def before(optimizer: Any) -> Any:
        _probe.optimizer_made(optimizer)
        return type(optimizer)

    def after(made: Any, _: Any) -> None:
        see(made)

    # Called at the end of Optimizer.__init__, and when one is unpickled.
    adapter.replace(
        optimizer_class,
        "_patch_step_function",
        lambda call: _probe.around_call(call, adapter.fault, before, after),
    )
    waiting = list(optimizer_class.__subclasses__())
    while waiting:
        made = waiting.pop()
        waiting.extend(made.__subclasses__())
        if getattr(vars(made).get("step"), "hooked", False):
            see(made)


def _install_scaler(adapter: Adapter, torch: Any) -> None:
    def before(scaler: Any, optimizer: Any, *_: Any, **__: Any) -> tuple[int, Any]:
        return _probe.optimizer_calls(), optimizer

    def after(token: tuple[int, Any], _: Any) -> None:
        calls, optimizer = token
        if _probe.optimizer_calls() == calls:
            _probe.optimizer_skipped(optimizer)

    adapter.replace(
        torch.amp.GradScaler,
        "step",
        lambda step: _probe.around_call(step, adapter.fault, before, after),
    )
