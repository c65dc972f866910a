"""torch.compile: what was compiled, what had to be compiled again and why, where graphs break.

A compiler reads the program's functions and must find the framework's own: while it works our
patches are taken out.

A compiled function that is called outside any phase is called as a module is: no module may be left
of it. In a training that is so with gradients on; else it may be anything. The compiler calls hooks
of its own around each call; one of ours is put to them.
"""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.imports import watch
from pilotlight.probe.phases import COMPILE, FORWARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pilotlight.probe.adapter import Adapter

_LONGEST = 400
_MOST_REASONS = 64


def install(adapter: Adapter, torch: Any) -> None:
    def imported(dynamo: Any) -> None:
        ours = vars(torch.nn.Module)["__call__"]
        if isinstance(ours, _probe.Wrapped):
            # Where the compiler has kept what it found there when it was imported.
            for module in (dynamo.utils, dynamo.variables.nn_module):
                if vars(module).get("unpatched_nn_module_call") is ours:
                    module.unpatched_nn_module_call = ours.__wrapped__
        # After a graph break it would compile what runs then, our hooks too.
        dynamo.trace_rules.add("pilotlight.probe")
        compiler = Compiler(adapter, dynamo.utils)
        if not adapter.replace(
            dynamo.convert_frame,
            "_compile",
            lambda call: _probe.around_call(call, adapter.fault, compiler.begin, compiler.end),
        ):
            adapter.turn_off("this version's compiler would stumble over our patches")
            return
        # Whole graphs, for an export or ahead of time, are read without a compilation around it.
        adapter.stand_aside(dynamo.convert_frame, "compile_frame")
        _install_functions(adapter, torch, dynamo)

    def imported_or_off(dynamo: Any) -> None:
        try:
            imported(dynamo)
        except Exception as error:
            adapter.turn_off(f"the compiler would stumble over our patches ({error})")

    watch.when_imported("torch._dynamo", imported_or_off)


def _install_functions(adapter: Adapter, torch: Any, dynamo: Any) -> None:
    is_grad_enabled = torch.is_grad_enabled
    enter_compiled, leave_phase = _probe.enter_compiled, _probe.leave_phase

    def leave() -> None:
        leave_phase(FORWARD)

    def nothing() -> None:
        """Nothing was entered."""

    class Enter:
        def __call__(self) -> Callable[[], None]:
            if adapter.is_off or not enter_compiled(self, is_grad_enabled()):
                return nothing
            return leave

    def before(context: Any, function: Any = None, *_: Any, **__: Any) -> None:
        hooks = getattr(context, "enter_exit_hooks", None)
        is_update = isinstance(getattr(function, "__self__", None), torch.optim.Optimizer)
        if is_update or not isinstance(hooks, list):
            return
        if not any(isinstance(hook, Enter) for hook in hooks):
            hooks.append(Enter())

    def after(_: Any, __: Any) -> None:
        """The hook before answers None, so that this is not called."""

    context = getattr(dynamo.eval_frame, "_TorchDynamoContext", None)
    if context is not None:
        adapter.replace(
            context,
            "__call__",
            lambda call: _probe.around_call(call, adapter.fault, before, after),
        )


class Compiler:
    def __init__(self, adapter: Adapter, utils: Any) -> None:
        self._adapter = adapter
        self._utils = utils
        self._breaks: dict[str, int] = {}

    def begin(self, code: Any, *_: Any, **__: Any) -> tuple[str, int, Any]:
        place = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
        metrics = self._utils.get_compilation_metrics()
        token = (f"{code.co_name} ({place})", _probe.ticks(), metrics[-1] if metrics else None)
        # Last: if anything above fails, nobody would put the patches back.
        self._adapter.take_out()
        return token

    def end(self, token: tuple[str, int, Any], _: Any) -> None:
        name, start, before = token
        self._adapter.put_back()
        _probe.span(f"compile {name}", COMPILE, start, _probe.ticks())
        metrics = self._utils.get_compilation_metrics()
        last = metrics[-1] if metrics else None
        if last is not None and last is not before:
            reason = getattr(last, "recompile_reason", None)
            if reason:
                _probe.mark(f"recompile {name}: {_one_line(reason)}", 1)
            if getattr(last, "fail_reason", None):
                _probe.mark(f"compile failed {name}: {_one_line(last.fail_reason)}", 1)
        self._graph_breaks()

    def _graph_breaks(self) -> None:
        for reason, count in list(self._utils.counters["graph_break"].items())[:_MOST_REASONS]:
            before = self._breaks.get(reason, 0)
            if count > before:
                _probe.mark(f"graph break: {_one_line(reason)}", count - before)
            self._breaks[reason] = count


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:_LONGEST]
