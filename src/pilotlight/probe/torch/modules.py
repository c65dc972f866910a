"""Modules by name, and steps of inference.

Without an optimizer a step begins with each call of the module that was the first to be called a
second time from outside, or with each call of `generate`.
"""

from __future__ import annotations

import weakref

from pilotlight import _probe
from pilotlight.probe.torch.backward import Backward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

MOST_NAMED = 4096
# What wrappers put before the names of the module inside them.
_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")
_STEPS_BY_NAME = ("generate",)


class Names:
    """Names the modules of a model once, when it is first called."""

    def __init__(self) -> None:
        self._references: dict[int, tuple[Any, str]] = {}

    def describe(self, root: Any) -> None:
        inner = unwrapped(root)[-1]
        top = type(inner).__name__
        for count, (path, module) in enumerate(root.named_modules()):
            if count == MOST_NAMED:
                return
            self._name(module, _name_of(path, module, module is inner, top))

    def name(self, module: Any) -> str:
        _, name = self._references.get(id(module), (None, type(module).__name__))
        return name

    def _name(self, module: Any, name: str) -> None:
        address = id(module)
        _probe.name_module(module, name)

        def forget(_: Any) -> None:
            self._forget(address)

        self._references[address] = weakref.ref(module, forget), name

    def _forget(self, address: int) -> None:
        self._references.pop(address, None)
        _probe.forget_module(address)


def unwrapped(root: Any) -> list[Any]:
    """The module and what it wraps, the innermost last."""
    found = [root]
    while True:
        parts = dict(found[-1].named_children())
        held = next((parts[w[:-1]] for w in _WRAPPERS if w[:-1] in parts), None)
        if held is None or len(parts) != 1:
            return found
        found.append(held)


def _name_of(path: str, module: Any, is_inner: bool, top: str) -> str:
    if is_inner:
        return top
    known = True
    while known:
        known = False
        for wrapper in _WRAPPERS:
            if path.startswith(wrapper):
                path, known = path[len(wrapper) :], True
    if not path or f"{path}." in _WRAPPERS:
        return type(module).__name__
    return f"{top}.{path}"


def install(adapter: Adapter, torch: Any) -> None:
    module_class = torch.nn.Module
    names = Names()
    engine = torch.autograd.Variable._execution_engine
    backward = Backward(adapter, engine, names.name, lambda root: len(unwrapped(root)) - 1)
    adapter.replace(
        module_class,
        "__call__",
        lambda call: _probe.module_call(
            call, adapter.fault, names.describe, torch.is_grad_enabled, backward.returned
        ),
    )
    _install_generate(adapter, module_class)


def _install_generate(adapter: Adapter, module_class: Any) -> None:
    """Classes are looked at when they are made, so that the first call is a step already."""

    def see(made: Any) -> None:
        for name in _STEPS_BY_NAME:
            owner = next((c for c in made.__mro__ if name in vars(c)), None)
            if owner is None or owner is module_class:
                continue
            function = vars(owner)[name]
            if type(function) is _FUNCTION:
                adapter.replace(owner, name, lambda f: _probe.step_call(f, adapter.fault))

    guarded = adapter.guarded(see)

    def see_subclass(cls: Any, /, **options: Any) -> None:
        super(module_class, cls).__init_subclass__(**options)
        guarded(cls)

    waiting = list(module_class.__subclasses__())
    seen = set()
    while waiting:
        made = waiting.pop()
        if made not in seen:
            seen.add(made)
            waiting.extend(made.__subclasses__())
            guarded(made)
    if "__init_subclass__" not in vars(module_class):
        module_class.__init_subclass__ = classmethod(see_subclass)
        adapter.when_removed(lambda: delattr(module_class, "__init_subclass__"))


_FUNCTION = type(install)
