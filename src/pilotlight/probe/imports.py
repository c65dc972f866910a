"""Tells adapters when a framework has been imported: late, in a thread, or a second time."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Imported = Callable[[ModuleType], object]


class ImportWatch:
    """A finder that finds nothing itself: it asks the others and watches what they load."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[Imported]] = {}
        self._before: dict[str, Callable[[ModuleSpec], object]] = {}

    def before_import(self, name: str, call: "Callable[[ModuleSpec], object]") -> None:
        """Calls just before it is loaded, if somebody also waits for it to be imported."""
        self._before[name] = call

    def when_imported(self, name: str, call: "Imported") -> None:
        """Calls at once if it is there already, and again whenever it is loaded anew."""
        self._wanted.setdefault(name, []).append(call)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        module = sys.modules.get(name)
        if module is not None and not getattr(
            getattr(module, "__spec__", None), "_initializing", False
        ):
            call(module)

    def stop(self) -> None:
        self._wanted.clear()
        self._before.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in self._wanted:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                return self._watched(spec)
        return None

    def _watched(self, spec: "ModuleSpec") -> "ModuleSpec":
        loader: Any = spec.loader
        load = getattr(loader, "exec_module", None)
        if load is None:
            return spec

        def exec_module(module: "ModuleType") -> None:
            # As it was, before the framework or anybody else looks at it.
            del loader.exec_module
            if spec.name in self._before:
                self._before[spec.name](spec)
            load(module)
            for call in self._wanted.get(spec.name, ()):
                call(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return spec
        return spec


watch = ImportWatch()
