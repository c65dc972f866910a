"""The watch for imports: late, in a thread, again, and with errors."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pilotlight.probe.adapter import MOST_FAULTS, Adapter
from pilotlight.probe.imports import ImportWatch


@pytest.fixture
def watch() -> Iterator[ImportWatch]:
    made = ImportWatch()
    yield made
    made.stop()


@pytest.fixture
def made_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "made_framework.py").write_text("value = 1\n")
    (tmp_path / "made_broken.py").write_text("raise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "made_framework"
    sys.modules.pop("made_framework", None)


def test_it_calls_after_an_import_and_again_after_a_reload(
    watch: ImportWatch, made_module: str
) -> None:
    seen: list[int] = []
    watch.when_imported(made_module, lambda module: seen.append(module.value))
    module = importlib.import_module(made_module)
    assert seen == [1]
    importlib.reload(module)
    assert seen == [1, 1]
    del sys.modules[made_module]
    importlib.import_module(made_module)
    assert seen == [1, 1, 1]


def test_it_calls_at_once_for_what_is_there(watch: ImportWatch) -> None:
    seen: list[ModuleType] = []
    watch.when_imported("threading", seen.append)
    assert seen == [threading]


def test_it_calls_for_an_import_in_a_thread(watch: ImportWatch, made_module: str) -> None:
    seen: list[str] = []
    watch.when_imported(made_module, lambda _: seen.append(threading.current_thread().name))
    thread = threading.Thread(target=importlib.import_module, args=(made_module,), name="late")
    thread.start()
    thread.join()
    assert seen == ["late"]


def test_an_import_that_fails_fails_as_ever(watch: ImportWatch, made_module: str) -> None:
    watch.when_imported("made_broken", lambda _: pytest.fail("it was not imported"))
    with pytest.raises(RuntimeError, match="broken"):
        importlib.import_module("made_broken")
    watch.when_imported("not_there_at_all", lambda _: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("not_there_at_all")


def test_what_others_replaced_is_not_taken_back() -> None:
    class Owner:
        def mine(self) -> int:
            return 1

        def theirs(self) -> int:
            return 2

    adapter = Adapter("test", lambda: None)
    for name in ("mine", "theirs"):
        adapter.replace(Owner, name, lambda call: lambda self: 10 * call(self))
    Owner.theirs = lambda self: 99  # type: ignore[method-assign]
    assert adapter.changed_by_others() == ["Owner.theirs"]
    adapter.remove()
    assert (Owner().mine(), Owner().theirs()) == (1, 99)


def test_ten_faults_turn_an_adapter_off_and_no_more_are_counted_twice() -> None:
    told: list[int] = []
    adapter = Adapter("test", lambda: told.append(1))

    def broken() -> None:
        raise ValueError("x")

    call = adapter.guarded(broken)
    for _ in range(MOST_FAULTS + 5):
        call()
    assert (adapter.is_off, adapter.faults) == (True, MOST_FAULTS)
    assert "ValueError: x at test_imports.py" in str(adapter.told()["last_fault"])
    assert len(told) == MOST_FAULTS
