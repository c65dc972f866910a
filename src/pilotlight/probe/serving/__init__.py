"""The adapter of inference engines: vLLM and SGLang, by their step functions and their metrics.

Neither package is installed where this is tested: the tests run stand-ins with the same call shapes
and the same metrics.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install(adapter: Adapter, package: Any) -> None:
    from pilotlight.probe.parts import install_parts
    from pilotlight.probe.serving import endpoint, sglang, vllm

    engine = vllm if package.__name__ == "vllm" else sglang
    adapter.facts[package.__name__] = str(getattr(package, "__version__", "unknown"))
    install_parts(adapter, package, (engine, endpoint))
