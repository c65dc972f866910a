"""What pilotlight does inside the user's process. Every call is cheap and safe at any time."""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

_R = TypeVar("_R", bound="Range")

class Status(TypedDict):
    started: bool
    collecting: bool
    agent_pid: int
    refused: int
    period_ns: int
    off: str | None

class Range:
    """A named range as a context manager; may be nested, re-entered and shared by threads."""

    def __new__(cls: type[_R], name: str, kind: int = 1, /) -> _R:
        """`kind` is one of recording.schema.SpanKind."""
    def __enter__(self: _R) -> _R: ...
    def __exit__(self, *exception: object) -> bool: ...
    @property
    def name(self) -> str: ...

def start(socket: str, identity: bytes, period_ns: int, folder: str | None) -> str | None:
    """Starts the probe; None, or in one line why not."""

def stop(exception: str | None) -> None: ...
def turn_off(reason: str) -> None: ...
def set_identity(identity: bytes) -> None: ...
def status() -> Status: ...
def event(a: int, b: int) -> None: ...
def counter(name: str, value: float) -> None: ...
def mark(name: str, value: int) -> None: ...
def ticks() -> int:
    """Now, on the clock of records; 0 while the probe is off."""

def collective(
    op: str,
    group: str,
    sequence: int,
    bytes: int,
    dtype: str,
    rank: int,
    world: int,
    start_ticks: int,
    end_ticks: int,
    wait_ticks: int,
    flags: int,
    /,
) -> None:
    """A collective that is over; flags are recording.schema.CollectiveFlag."""

def step(number: int | None = None) -> None: ...
def name_thread(tid: int | None, name: str) -> None:
    """Any thread of this process; what makes no sense is left out."""

def gc_callback(phase: str, info: Mapping[str, int]) -> None: ...

# For the adapters of frameworks. `fault` is called with an exception that a hook of ours raised.
class Wrapped:
    """Looks like the function that it holds, and leaves no frame on the stack."""

    __wrapped__: Callable[..., Any]
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: object = None) -> Any: ...

_Fault = Callable[[BaseException], object]

def phase_call(function: Callable[..., Any], fault: _Fault, phase: int, /) -> Wrapped: ...
def module_call(
    function: Callable[..., Any],
    fault: _Fault,
    describe: Callable[[Any], object],
    is_grad_enabled: Callable[[], bool],
    output: Callable[[int, Any, Any], object],
    /,
) -> Wrapped: ...
def around_call(
    function: Callable[..., Any],
    fault: _Fault,
    before: Callable[..., object],
    after: Callable[[Any, Any], object],
    /,
) -> Wrapped:
    """after(before(*args), result); a `before` that answers None is enough."""

def counted_call(
    function: Callable[..., Any], fault: _Fault, due: Callable[[Any, int], int], /
) -> Wrapped:
    """due(first argument, number of its call); it answers after how many it is asked again."""

def counted(address: int, /) -> int: ...
def forget_counted(address: int, /) -> None: ...
def woken_call(
    function: Callable[..., Any], fault: _Fault, after: Callable[[Any, Any], object], /
) -> Wrapped:
    """after(first argument, result), once after each wake()."""

def wake(wrapped: Wrapped, /) -> None: ...
def call_under_way() -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """This thread's outermost function_call or method_call."""

def range_call(function: Callable[..., Any], fault: _Fault, name: str, kind: int, /) -> Wrapped: ...
def optimizer_call(function: Callable[..., Any], fault: _Fault, /) -> Wrapped: ...
def step_call(function: Callable[..., Any], fault: _Fault, /) -> Wrapped: ...
def function_call(function: Callable[..., Any], fault: _Fault, /) -> Wrapped: ...
def method_call(function: Callable[..., Any], fault: _Fault, /) -> Wrapped: ...
def label_call(
    function: Callable[..., Any], fault: _Fault, on_label: Callable[[], object], /
) -> Wrapped:
    """on_label() when a label is made that is not the framework's own."""

def enter_call(function: Callable[..., Any], fault: _Fault, /) -> Wrapped: ...
def exit_call(function: Callable[..., Any], fault: _Fault, /) -> Wrapped: ...
def optimizer_skipped(optimizer: object, /) -> None: ...
def optimizer_calls() -> int: ...
def optimizer_made(optimizer: object, /) -> None: ...
def enter_phase(phase: int, /) -> bool: ...
def enter_compiled() -> bool: ...
def leave_phase(phase: int, /) -> None: ...
def each_second(function: Callable[[], object] | None, /) -> None: ...
def automatic_step(number: int | None, /) -> None: ...
def automatic_step_ends() -> None: ...
def name_module(module: object, name: str, /) -> None: ...
def forget_module(address: int, /) -> None: ...
def span(name: str, kind: int, start_ticks: int, end_ticks: int, /) -> None: ...
