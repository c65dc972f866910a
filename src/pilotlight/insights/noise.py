"""How much the compute of a step varies by chance."""

from __future__ import annotations

import numpy as np

from pilotlight.insights.kernel import Category, category
from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import Kind


def launch_noise(view: RankView) -> float:
    """The standard deviation of a step's compute, relative to it, if launches vary on their own:
    from how launches at the same place of two steps differ beyond what they all do. 0 where the
    steps do not launch the same."""
    own = np.array([category(n) is not Category.COMMUNICATION for n in view.trace.names], np.bool_)
    kernels = view.device.take((view.device.kind == Kind.KERNEL) & own[view.device.name])
    kernels = kernels.take(np.argsort(kernels.start_ns, kind="stable"))
    start_ns, end_ns = view.steady_bounds()
    begins = np.searchsorted(kernels.start_ns, start_ns)
    ends = np.searchsorted(kernels.start_ns, end_ns)
    found = []
    for (a, b), (c, d) in zip(
        zip(begins[:-1], ends[:-1], strict=True),
        zip(begins[1:], ends[1:], strict=True),
        strict=True,
    ):
        if b - a != d - c or b == a or (kernels.name[a:b] != kernels.name[c:d]).any():
            continue
        before, after = (np.maximum(kernels.duration_ns[i:j], 1) for i, j in ((a, b), (c, d)))
        ratios = np.log(after / before)
        each = 1.4826 * float(np.median(np.abs(ratios - np.median(ratios)))) / np.sqrt(2)
        found.append(each * float(np.sqrt((after.astype(np.float64) ** 2).sum()) / after.sum()))
    return float(np.median(found)) if found else 0.0
