"""Arrays of numpy within the budget of memory: beyond it they are in files without a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pilotlight import _scan


def bound_arrays() -> Any:
    """For all arrays that this thread makes from now on, temporary ones too."""
    return _scan.bound_arrays(_numpy_functions())


@contextmanager
def bounded() -> Iterator[None]:
    """For the arrays that this thread makes meanwhile, as long as they live."""
    before = bound_arrays()
    try:
        yield
    finally:
        _scan.set_handler(_numpy_functions(), before)


def _numpy_functions() -> Any:
    core = getattr(np, "_core", None) or np.core
    return core._multiarray_umath._ARRAY_API
