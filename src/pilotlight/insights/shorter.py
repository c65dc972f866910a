"""What rules about single kernels ask of the replay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pilotlight.insights.finding import Remedy
from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import Kind


def shorter_kernels(
    view: RankView, lost_ns: Mapping[int, float], ranks: tuple[int, ...] = ()
) -> Remedy:
    """Kernels without what they lose, by name: all of one name become shorter by the same part."""
    kernels = view.device.take(view.device.kind == Kind.KERNEL)
    total_ns = np.bincount(kernels.name, kernels.duration_ns)
    factors = tuple(
        (view.trace.names[name], max(0.0, 1 - lost / total_ns[name]))
        for name, lost in lost_ns.items()
        if total_ns[name] > 0
    )
    return Remedy(kernels=factors, ranks=ranks)
