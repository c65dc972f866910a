"""What all adapters have in common: patches that can be taken back, faults that are counted."""

from __future__ import annotations

from pilotlight import _probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_FAULTS = 10
_LONGEST = 200
_GONE = object()


class Adapter:
    """One framework. It is turned off when its hooks have raised ten times.

    `tell` is called when what the agent should know of this adapter has changed.
    """

    def __init__(self, name: str, tell: Callable[[], None]) -> None:
        self.name = name
        self.facts: dict[str, object] = {}
        self.faults = 0
        self.last_fault = ""
        self.is_off = False
        self._tell = tell
        self._patches: list[tuple[Any, str, Any, Any]] = []
        self._staying: set[tuple[int, str]] = set()
        self._removers: list[Callable[[], object]] = []
        self._taken_out = 0
        self._out: list[tuple[Any, str, Any, Any]] = []

    def replace(
        self, owner: Any, attribute: str, wrap: Callable[[Any], Any], stays: bool = False
    ) -> bool:
        """Puts wrap(original) in its place; False if there is none or it is ours already.

        `stays`: also while the others are taken out.
        """
        original = _own(owner, attribute)
        if original is _GONE:
            original = getattr(owner, attribute, _GONE)
        if original is _GONE or isinstance(original, _probe.Wrapped):
            return False
        if getattr(original, "__pilotlight__", False):
            return False
        wrapped = wrap(original)
        setattr(owner, attribute, wrapped)
        self._patches.append((owner, attribute, original, wrapped))
        if stays:
            self._staying.add((id(owner), attribute))
        return True

    def give_back(self, owner: Any, attribute: str) -> None:
        """Takes one patch back for good, if it is still as we left it."""
        for patch in [p for p in self._patches if p[0] is owner and p[1] == attribute]:
            self._patches.remove(patch)
            if _own(owner, attribute) is patch[3]:
                setattr(owner, attribute, patch[2])

    def when_removed(self, call: Callable[[], object]) -> None:
        """For hooks that are no patches."""
        self._removers.append(call)

    def remove(self) -> None:
        """Takes everything back that is still as we left it."""
        for owner, attribute, original, wrapped in reversed(self._patches):
            try:
                if _own(owner, attribute) is wrapped:
                    setattr(owner, attribute, original)
            except Exception as error:
                self.last_fault = _described(error)
        for call in self._removers:
            try:
                call()
            except Exception as error:
                self.last_fault = _described(error)
        self._patches, self._removers = [], []

    def take_out(self) -> None:
        """For somebody who reads the framework's functions and must find them as they came."""
        self._taken_out += 1
        if self._taken_out == 1:
            self._out = [
                (owner, attribute, original, wrapped)
                for owner, attribute, original, wrapped in self._patches
                if _own(owner, attribute) is wrapped and (id(owner), attribute) not in self._staying
            ]
            for owner, attribute, original, _ in reversed(self._out):
                setattr(owner, attribute, original)

    def put_back(self) -> None:
        self._taken_out -= 1
        if self._taken_out == 0 and not self.is_off:
            for owner, attribute, original, wrapped in self._out:
                if _own(owner, attribute) is original:
                    setattr(owner, attribute, wrapped)

    def stand_aside(self, owner: Any, attribute: str) -> None:
        """While that function runs, which reads the framework's own, the others are taken out."""

        def before(*_: Any, **__: Any) -> bool:
            self.take_out()
            return True

        def after(_: bool, __: Any) -> None:
            self.put_back()

        self.replace(
            owner, attribute, lambda call: _probe.around_call(call, self.fault, before, after)
        )

    def changed_by_others(self) -> list[str]:
        """Patches that somebody replaced or removed."""
        return [
            f"{getattr(owner, '__name__', owner)}.{attribute}"
            for owner, attribute, _, wrapped in self._patches
            if _own(owner, attribute) is not wrapped
        ]

    def fault(self, error: BaseException) -> None:
        """A hook of ours raised. Never raises itself."""
        try:
            self.faults += 1
            self.last_fault = _described(error)
            if self.faults == MOST_FAULTS and not self.is_off:
                self.turn_off(f"its hooks raised {MOST_FAULTS} times, last {self.last_fault}")
            elif self.faults <= MOST_FAULTS:
                self._tell()
        except Exception as error:
            self.last_fault = _described(error)

    def turn_off(self, reason: str) -> None:
        self.is_off = True
        self.facts["off"] = reason[:_LONGEST]
        self.remove()
        _probe.mark(f"adapter {self.name} off: {reason}"[:_LONGEST], self.faults)
        self._tell()

    def guarded(self, call: Callable[..., object]) -> Callable[..., object]:
        """The call with its exceptions counted and not raised."""

        def guard(*args: Any, **kwargs: Any) -> object:
            if self.is_off:
                return None
            try:
                return call(*args, **kwargs)
            except Exception as error:
                self.fault(error)
                return None

        return guard

    def told(self) -> dict[str, object]:
        """For the identity: everything that is worth knowing."""
        told = dict(self.facts)
        if self.faults:
            told["faults"] = self.faults
            told["last_fault"] = self.last_fault
        changed = [] if self.is_off else self.changed_by_others()
        if changed:
            told["changed_by_others"] = changed[:8]
        return told


def _own(owner: Any, attribute: str) -> Any:
    """What the owner itself has under that name: not bound, not inherited."""
    return vars(owner).get(attribute, _GONE) if hasattr(owner, "__dict__") else _GONE


def _described(error: BaseException) -> str:
    place = ""
    traceback = error.__traceback__
    while traceback is not None:
        place = (
            f" at {traceback.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno}"
        )
        traceback = traceback.tb_next
    return f"{type(error).__name__}: {error}{place}"[:_LONGEST]
