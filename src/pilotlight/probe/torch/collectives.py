"""torch.distributed: every collective that Python asks a process group for, and its wait.

Hooked below torch.distributed.all_reduce and its like, at ProcessGroup and Work: compilers know the
functions by name, and FSDP, DTensor and users all end there. What C++ asks for itself (the
gradients of DistributedDataParallel) is told by ddp.py.
"""

from __future__ import annotations

import weakref

from pilotlight import _probe
from pilotlight.probe.phases import COMMUNICATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pilotlight.probe.adapter import Adapter

OPERATIONS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
}
ASYNCHRONOUS, WAIT_KNOWN = 1, 2
_MOST_PENDING = 4096
_MOST_TENSORS = 1024


class Issued:
    """A collective that was asked for; `work` is a weak reference to its Work."""

    __slots__ = ("bytes", "dtype", "flags", "group", "operation", "rank", "sequence", "start",
                 "work", "world")  # fmt: skip

    def __init__(self, operation: str, group: Any, arguments: tuple[Any, ...]) -> None:
        self.operation = operation
        self.group = group_name(group)
        self.rank = group.rank()
        self.world = group.size()
        self.bytes, self.dtype = message_of(arguments)
        options = arguments[-1] if arguments else None
        self.flags = ASYNCHRONOUS if getattr(options, "asyncOp", False) is True else 0
        self.sequence = 0
        self.work: Any = None
        self.start = _probe.ticks()

    def tell(self, end: int, wait: int, flags: int) -> None:
        _probe.collective(
            self.operation,
            self.group,
            self.sequence,
            self.bytes,
            self.dtype,
            self.rank,
            self.world,
            self.start,
            end,
            wait,
            self.flags | flags,
        )


def group_name(group: Any) -> str:
    """The same on every rank: c10d's name of the group, and what its maker called it."""
    name, description = group.group_name, group.group_desc
    return name if description in ("", "undefined") else f"{name} {description}"


def message_of(arguments: tuple[Any, ...]) -> tuple[int, str]:
    """Bytes and type: of what goes in or what comes out, whichever is more."""
    most, dtype = 0, ""
    for argument in arguments[:2]:
        size = 0
        waiting = [argument]
        seen = 0
        while waiting and seen < _MOST_TENSORS:
            item = waiting.pop()
            if isinstance(item, (list, tuple)):
                waiting.extend(item)
            elif hasattr(item, "element_size"):
                seen += 1
                size += item.numel() * item.element_size()
                dtype = dtype or str(item.dtype).replace("torch.", "")
        most = max(most, size)
    return most, dtype


class Pending:
    """Collectives whose Work nobody has waited for yet."""

    def __init__(self) -> None:
        self._issued: dict[int, Issued] = {}

    def add(self, work: Any, issued: Issued) -> None:
        if len(self._issued) >= _MOST_PENDING:
            self._never_waited(next(iter(self._issued)))
        key = id(work)
        issued.work = weakref.ref(work, lambda _: self._never_waited(key))
        self._issued[key] = issued

    def take(self, work: Any) -> Issued | None:
        issued = self._issued.get(id(work))
        if issued is None or issued.work() is not work:
            return None
        return self._issued.pop(id(work))

    def _never_waited(self, key: int) -> None:
        issued = self._issued.pop(key, None)
        if issued is not None:
            issued.tell(issued.start, 0, ASYNCHRONOUS)


def install(adapter: Adapter, torch: Any) -> None:
    if not torch.distributed.is_available():
        return
    c10d = torch._C._distributed_c10d
    pending = Pending()

    def wrapped(operation: str) -> Callable[[Any], _probe.Wrapped]:
        def before(group: Any, *arguments: Any, **named: Any) -> tuple[Issued, bool]:
            issued = Issued(operation, group, (*arguments, *named.values()))
            return issued, _probe.enter_phase(COMMUNICATION)

        def after(token: tuple[Issued, bool], work: Any) -> None:
            issued, entered = token
            if entered:
                _probe.leave_phase(COMMUNICATION)
            issued.sequence = _sequence(issued)
            if isinstance(work, c10d.Work):
                pending.add(work, issued)
            else:
                end = _probe.ticks()
                issued.tell(end, end - issued.start, WAIT_KNOWN)

        return lambda function: _probe.around_call(function, adapter.fault, before, after)

    sequences: dict[str, int] = {}

    def _sequence(issued: Issued) -> int:
        # Counted here: the group's own number means other things with other backends.
        key = (
            f"{issued.group} {issued.operation}"
            if issued.operation in ("send", "recv")
            else (issued.group)
        )
        sequences[key] = sequences.get(key, 0) + 1
        return sequences[key]

    for method, operation in OPERATIONS.items():
        if method in vars(c10d.ProcessGroup):
            adapter.replace(c10d.ProcessGroup, method, wrapped(operation))
    # C++ of its own: DDP's buffers (of BatchNorm) before each forward, where ranks wait as well.
    adapter.replace(torch.distributed, "_broadcast_coalesced", wrapped("broadcast"))

    def before_wait(work: Any, *_: Any, **__: Any) -> tuple[Issued, int, bool] | None:
        issued = pending.take(work)
        if issued is None:
            return None
        return issued, _probe.ticks(), _probe.enter_phase(COMMUNICATION)

    def after_wait(token: tuple[Issued, int, bool], _: Any) -> None:
        issued, start, entered = token
        if entered:
            _probe.leave_phase(COMMUNICATION)
        end = _probe.ticks()
        issued.tell(end, end - start, WAIT_KNOWN)

    adapter.replace(
        c10d.Work,
        "wait",
        lambda wait: _probe.around_call(wait, adapter.fault, before_wait, after_wait),
    )
