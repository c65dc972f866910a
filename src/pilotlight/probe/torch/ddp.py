"""DistributedDataParallel: C++ reduces its gradients, so its wait is seen from autograd's side.

When the gradients of a rank are all there autograd calls back, first us and then the reducer, which
waits for the other ranks; after it us again. In between lies what this rank waits for the others
and for the network: the communication that no computation hides.

To be called back costs some 30 µs, more where the cache has forgotten us, so it is done at most ten
times in a second of the process's CPU time: of backwards that follow each other faster every
second, fourth, eighth ... is told. The sequence counts them all, so those that two ranks tell still
match.
"""

from __future__ import annotations

import time
import weakref

from pilotlight import _probe
from pilotlight.probe.phases import COMMUNICATION
from pilotlight.probe.torch.collectives import WAIT_KNOWN, group_name
from pilotlight.probe.torch.node import first_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

ALL_TOLD = 32
LEAST_APART_NS = 100_000_000
_STATISTICS_EVERY_NS = 10_000_000_000
_STATISTICS = {
    "avg_backward_comm_time": "ddp.communication_ns",
    "avg_backward_compute_comm_overlap_time": "ddp.overlap_ns",
    "avg_backward_compute_time": "ddp.backward_ns",
}


class Reducer:
    """The reductions of one DDP module; its hooks run inside autograd and never raise."""

    def __init__(self, adapter: Adapter, engine: Any, module: Any, of: Any) -> None:
        group = module.process_group
        self.of = of
        self._engine = engine
        self._group = group_name(group)
        self._rank, self._world = group.rank(), group.size()
        trained = [each for each in module.parameters() if each.requires_grad]
        self._bytes = sum(each.numel() * each.element_size() for each in trained)
        self._dtype = str(trained[0].dtype).replace("torch.", "") if trained else ""
        self._sequence = self._told = 0
        self._every = 1
        self._told_ns = time.process_time_ns()
        self._start = 0
        self._is_armed = False
        self._entered = False
        self._statistics_ns = time.monotonic_ns() + _STATISTICS_EVERY_NS
        self.on_backward = adapter.guarded(self._on_backward)
        self._on_gradients = adapter.guarded(self._gradients)
        self._on_reduced = adapter.guarded(self._reduced)

    def is_wanted(self) -> bool:
        """Counts one more backward; whether it is to be told."""
        self._sequence += 1
        if self._sequence <= ALL_TOLD:
            return True
        if self._sequence % self._every:
            return False
        now_ns = time.process_time_ns()
        apart_ns = (now_ns - self._told_ns) // max(1, self._sequence - self._told)
        self._every = 1
        while self._every * max(apart_ns, 1000) < LEAST_APART_NS:
            self._every *= 2
        self._told, self._told_ns = self._sequence, now_ns
        return self._sequence % self._every == 0

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
            self._sequence,
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


# By the address of the module. Kept when the adapter is put in again, so that the sequence goes on.
_reducers: dict[int, Reducer] = {}


def install(adapter: Adapter, torch: Any) -> None:
    if not torch.distributed.is_available():
        return
    parallel = torch.nn.parallel.DistributedDataParallel
    engine = torch.autograd.Variable._execution_engine
    is_grad_enabled = torch.is_grad_enabled

    def made(module: Any) -> Reducer:
        key = id(module)
        of = weakref.ref(module, lambda _: _reducers.pop(key, None))
        return _reducers.setdefault(key, Reducer(adapter, engine, module, of))

    def before(module: Any, *_: Any) -> Any:
        if not (module.require_backward_grad_sync and is_grad_enabled()):
            return None
        reducer = _reducers.get(id(module)) or made(module)
        return (reducer, module) if reducer.is_wanted() else None

    def after(token: tuple[Reducer, Any], output: Any) -> None:
        reducer, module = token
        node = first_node(output)
        if node is not None:
            node.register_prehook(reducer.on_backward)
            reducer.statistics(module)

    adapter.replace(
        parallel,
        "_post_forward",
        lambda call: _probe.around_call(call, adapter.fault, before, after),
    )
