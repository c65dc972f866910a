"""torch.compile: what was compiled, what had to be compiled again and why, where graphs break.

A compiler reads the program's functions and must find the framework's own: while it works our
patches are taken out.
"""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.imports import watch
from pilotlight.probe.phases import COMPILE

TYPE_CHECKING = False
if TYPE_CHECKING:
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

    def imported_or_off(dynamo: Any) -> None:
        try:
            imported(dynamo)
        except Exception as error:
            adapter.turn_off(f"the compiler would stumble over our patches ({error})")

    watch.when_imported("torch._dynamo", imported_or_off)


class Compiler:
    def __init__(self, adapter: Adapter, utils: Any) -> None:
        self._adapter = adapter
        self._utils = utils
        self._breaks: dict[str, int] = {}

    def begin(self, code: Any, *_: Any, **__: Any) -> tuple[str, int, Any]:
        self._adapter.take_out()
        place = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
        metrics = self._utils.get_compilation_metrics()
        return f"{code.co_name} ({place})", _probe.ticks(), metrics[-1] if metrics else None

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
