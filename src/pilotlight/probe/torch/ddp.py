"""DistributedDataParallel: C++ reduces its gradients, so its wait is seen from autograd's side.

When the gradients of a rank are all there autograd calls back, first us and then the reducer, which
waits for the other ranks; after it us again. In between lies what this rank waits for the others
and for the network: the communication that no computation hides.

To be called back costs some 30 µs, more where the cache has forgotten us, so it is done at most ten
times in a second of the process's CPU time: of backwards that follow each other faster every
second, fourth, eighth ... is told. They are counted in C++, by `prepare_for_backward` of the C++
reducer, which DDP calls after each forward whose gradients it will reduce. The sequence counts them
all, so those that two ranks tell still match. How many there were is told once a second and at the
end, as the counter `ddp.reductions GROUP`: those after the last that was told are known by it.
"""

from __future__ import annotations

import atexit
import time
import weakref
from _thread import get_ident

from pilotlight import _probe
from pilotlight.probe.adapters import each_second
from pilotlight.probe.phases import COMMUNICATION
from pilotlight.probe.torch.collectives import WAIT_KNOWN, group_name
from pilotlight.probe.torch.node import first_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

COUNTER = "ddp.reductions"
ALL_TOLD = 32
MOST_NAMED = 64
LEAST_APART_NS = 100_000_000
_STATISTICS_EVERY_NS = 10_000_000_000
_STATISTICS = {
    "avg_backward_comm_time": "ddp.communication_ns",
    "avg_backward_compute_comm_overlap_time": "ddp.overlap_ns",
    "avg_backward_compute_time": "ddp.backward_ns",
}


class Pace:
    """Which of a reducer's backwards are told."""

    def __init__(self) -> None:
        self.group = ""
        self.reduction: Reduction | None = None
        self._told = 0
        self._told_ns = time.process_time_ns()

    def every(self, sequence: int) -> int:
        """Those whose number this divides."""
        if sequence <= ALL_TOLD:
            return 1
        now_ns = time.process_time_ns()
        apart_ns = (now_ns - self._told_ns) // max(1, sequence - self._told)
        self._told, self._told_ns = sequence, now_ns
        every = 1
        while every * max(apart_ns, 1000) < LEAST_APART_NS:
            every *= 2
        return every


class Reduction:
    """The reductions of one DDP module; its hooks run inside autograd and never raise."""

    def __init__(self, adapter: Adapter, engine: Any, module: Any, group_text: str) -> None:
        group = module.process_group
        self._engine = engine
        self._group = group_text
        self._rank, self._world = group.rank(), group.size()
        trained = [each for each in module.parameters() if each.requires_grad]
        self._bytes = sum(each.numel() * each.element_size() for each in trained)
        self._dtype = str(trained[0].dtype).replace("torch.", "") if trained else ""
        self.sequence = 0
        self._start = 0
        self._is_armed = False
        self._entered = False
        self._statistics_ns = time.monotonic_ns() + _STATISTICS_EVERY_NS
        self.on_backward = adapter.guarded(self._on_backward)
        self._on_gradients = adapter.guarded(self._gradients)
        self._on_reduced = adapter.guarded(self._reduced)

    def _on_backward(self, *_: Any) -> None:
        # Several outputs, or a module that is called twice: once a backward is enough.
        if not self._is_armed:
            self._is_armed = True
            self._engine.queue_callback(self._on_gradients)

    def _gradients(self) -> None:
        self._is_armed = False
        self._start = _probe.ticks()
        self._entered = _probe.enter_phase(COMMUNICATION)
        self._engine.queue_callback(self._on_reduced)

    def _reduced(self) -> None:
        if self._entered:
            _probe.leave_phase(COMMUNICATION)
        end = _probe.ticks()
        _probe.collective(
            "ddp.all_reduce",
            self._group,
            self.sequence,
            self._bytes,
            self._dtype,
            self._rank,
            self._world,
            self._start,
            end,
            end - self._start,
            WAIT_KNOWN,
        )

    def statistics(self, module: Any) -> None:
        """What the reducer itself measures now and then: how much of it was hidden."""
        now_ns = time.monotonic_ns()
        if now_ns < self._statistics_ns:
            return
        self._statistics_ns = now_ns + _STATISTICS_EVERY_NS
        measured = module._get_ddp_logging_data()
        for key, name in _STATISTICS.items():
            value = measured.get(key)
            if isinstance(value, int) and value > 0:
                _probe.counter(name, value)


class Groups:
    """Each module counts its reductions by itself, so each has a name of its own in its group.

    All ranks call them for the first time in the same order, so these are the same on all.
    """

    def __init__(self) -> None:
        self._modules: dict[str, int] = {}

    def name(self, module: Any) -> str:
        group = group_name(module.process_group)
        number = self._modules[group] = self._modules.get(group, 0) + 1
        return group if number == 1 else f"{group} module {min(number, MOST_NAMED)}"


# By the address of the C++ reducer. Kept when the adapter is put in again.
_paces: dict[int, tuple[Any, Pace]] = {}


def install(adapter: Adapter, torch: Any) -> None:
    if not torch.distributed.is_available():
        return
    parallel = torch.nn.parallel.DistributedDataParallel
    engine = torch.autograd.Variable._execution_engine
    groups = Groups()
    woken: list[_probe.Wrapped] = []
    wanted: dict[int, int] = {}  # by thread: the sequence of the forward that is to be told

    def due(reducer: Any, sequence: int) -> int:
        every = _pace(reducer).every(sequence)
        if sequence % every == 0:
            wanted[get_ident()] = sequence
            _probe.wake(woken[0])
        return every - sequence % every

    def after(module: Any, output: Any) -> None:
        sequence = wanted.pop(get_ident(), None)
        node = first_node(output)
        if sequence is None or node is None:
            return
        pace = _pace(module.reducer)
        reduction = pace.reduction
        if reduction is None:
            pace.group = groups.name(module)
            reduction = pace.reduction = Reduction(adapter, engine, module, pace.group)
        reduction.sequence = sequence
        node.register_prehook(reduction.on_backward)
        reduction.statistics(module)

    def post_forward(call: Any) -> _probe.Wrapped:
        woken.append(_probe.woken_call(call, adapter.fault, after))
        return woken[0]

    if adapter.replace(parallel, "_post_forward", post_forward):
        adapter.replace(
            torch._C._distributed_c10d.Reducer,
            "prepare_for_backward",
            lambda call: _probe.counted_call(call, adapter.fault, due),
        )
        each_second(adapter, _tell_counts)
        at_end = adapter.guarded(_tell_counts)
        atexit.register(at_end)
        adapter.when_removed(lambda: atexit.unregister(at_end))


def _pace(reducer: Any) -> Pace:
    key = id(reducer)
    if key not in _paces:

        def forget(_: Any) -> None:
            _tell_count(key)
            _paces.pop(key, None)
            _probe.forget_counted(key)

        _paces[key] = weakref.ref(reducer, forget), Pace()
    return _paces[key][1]


def _tell_counts() -> None:
    for key in tuple(_paces):
        _tell_count(key)


def _tell_count(key: int) -> None:
    group = _paces[key][1].group if key in _paces else ""
    if group:
        _probe.counter(f"{COUNTER} {group}", _probe.counted(key))
