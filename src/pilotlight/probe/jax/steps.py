"""Steps of JAX.

jax.profiler.StepTraceAnnotation tells them. Without it a step begins with each call of the jitted
function that was the first to be called a second time from outside any other.
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
    """Dispatch itself is C++ and tells nobody: what jit returns is wrapped."""
    import functools

    def wrap(jit: Any) -> Any:
        @functools.wraps(jit)
        def jitted(*args: Any, **kwargs: Any) -> Any:
            made = jit(*args, **kwargs)
            # Called with options alone it returns another decorator.
            return _probe.function_call(made, adapter.fault) if hasattr(made, "lower") else made

        jitted.__pilotlight__ = True  # type: ignore[attr-defined]
        return jitted

    adapter.replace(jax, "jit", wrap)


def _install_annotations(adapter: Adapter, profiler: Any) -> None:
    def named(annotation: Any, name: str, **options: Any) -> None:
        annotation.name = name
        annotation.step_number = options.get("step_num")

    def begins(annotation: Any) -> None:
        number = getattr(annotation, "step_number", None)
        _probe.automatic_step(number if isinstance(number, int) else None)

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
    adapter.replace(range_, "__enter__", lambda call: _probe.enter_call(call, adapter.fault))
    adapter.replace(range_, "__exit__", lambda call: _probe.exit_call(call, adapter.fault))
