"""Steps of JAX.

jax.profiler.StepTraceAnnotation tells them. Without it a step begins with each call of the jitted
function (or pmapped, or compiled ahead) that was the first to be called a second time from outside
any other.
"""

from __future__ import annotations

from pilotlight import _probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, jax: Any) -> None:
    _install_annotations(adapter, jax.profiler)
    _install_jit(adapter, jax)


def _install_jit(adapter: Adapter, jax: Any) -> None:
    """Dispatch itself is C++ and tells nobody: what jit and pmap return is wrapped, and what was
    compiled ahead of its calls."""
    import functools

    def watched(made: Any) -> Any:
        if hasattr(made, "lower"):
            return _probe.function_call(made, adapter.fault)
        # With options alone it returns another decorator.
        return wrap(made) if callable(made) else made

    def wrap(jit: Any) -> Any:
        def jitted(*args: Any, **kwargs: Any) -> Any:
            return watched(jit(*args, **kwargs))

        if hasattr(jit, "__name__"):
            functools.update_wrapper(jitted, jit)
        jitted.__pilotlight__ = True  # type: ignore[attr-defined]
        return jitted

    for maker in ("jit", "pmap"):
        adapter.replace(jax, maker, wrap)
    adapter.replace(
        jax.stages.Compiled, "__call__", lambda call: _probe.method_call(call, adapter.fault)
    )


def _install_annotations(adapter: Adapter, profiler: Any) -> None:
    def named(annotation: Any, name: str, **options: Any) -> None:
        annotation.name = name
        annotation.step_number = options.get("step_num")

    def begins(annotation: Any) -> None:
        number = getattr(annotation, "step_number", None)
        _probe.automatic_step(number if isinstance(number, int) else None)

    def ends(_: Any, *__: Any) -> None:
        _probe.automatic_step_ends()

    def nothing(_: Any, __: Any) -> None:
        """The hooks before answer None, so that this is not called."""

    step, range_ = profiler.StepTraceAnnotation, profiler.TraceAnnotation
    for owner in (step, range_):
        adapter.replace(
            owner, "__init__", lambda call: _probe.around_call(call, adapter.fault, named, nothing)
        )
    adapter.replace(
        step, "__enter__", lambda call: _probe.around_call(call, adapter.fault, begins, nothing)
    )
    # Before that of ranges, which it would inherit.
    adapter.replace(
        step, "__exit__", lambda call: _probe.around_call(call, adapter.fault, ends, nothing)
    )
    adapter.replace(range_, "__enter__", lambda call: _probe.enter_call(call, adapter.fault))
    adapter.replace(range_, "__exit__", lambda call: _probe.exit_call(call, adapter.fault))
