"""The caching allocator: how much is in use, how often it had to give back and ask again."""

from __future__ import annotations

from pilotlight import _probe
from pilotlight.probe.adapters import each_second

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

STATISTICS = {
    "allocated_bytes.all.current": "allocator.allocated_bytes",
    "allocated_bytes.all.peak": "allocator.peak_bytes",
    "reserved_bytes.all.current": "allocator.reserved_bytes",
    "active_bytes.all.current": "allocator.active_bytes",
    "num_alloc_retries": "allocator.retries",
    "num_ooms": "allocator.out_of_memory",
}


def install(adapter: Adapter, torch: Any) -> None:
    look = _Look(torch)
    if getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None):
        each_second(adapter, look.after_step)
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            look.attach = lambda: attach(adapter.guarded(out_of_memory))


class _Look:
    """Once a second, after a step, and only where a device is in use already."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self.attach: Any = None

    def after_step(self) -> None:
        if not self._cuda.is_initialized():
            return
        if self.attach is not None:
            attach, self.attach = self.attach, None
            attach()
        statistics = self._cuda.memory_stats()
        for key, name in STATISTICS.items():
            if key in statistics:
                _probe.counter(name, statistics[key])


def out_of_memory(device: int, asked: int, allocated: int, free: int) -> None:
    """Called by the allocator before it raises."""
    _probe.mark(f"out of memory on device {device}: {free} bytes free", asked)
