"""Which of the processes of jax.distributed this is; launchers rarely say."""

from __future__ import annotations

import sys

from pilotlight import _probe
from pilotlight.probe.adapters import number_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, jax: Any) -> None:
    distributed = sys.modules["jax._src.distributed"]

    def before(state: Any, *_: Any, **__: Any) -> Any:
        return state

    def after(state: Any, _: Any) -> None:
        if state.client is not None:
            number_rank(int(state.process_id), int(state.num_processes))

    # Below jax.distributed.initialize, which reads the cluster's own variables.
    adapter.replace(
        distributed.State,
        "initialize",
        lambda call: _probe.around_call(call, adapter.fault, before, after),
    )
    after(distributed.global_state, None)
