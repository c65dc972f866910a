"""Installs an adapter part by part."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pilotlight.probe.adapter import Adapter


def install_parts(adapter: Adapter, framework: Any, parts: Sequence[Any]) -> None:
    """Each for itself: one that this version has no place for leaves the others, and is told."""
    missing = []
    for part in parts:
        try:
            part.install(adapter, framework)
        except Exception as error:
            name = part.__name__.rsplit(".", 1)[-1]
            missing.append(f"{name}: {type(error).__name__}: {error}"[:200])
    if missing:
        adapter.facts["parts_missing"] = missing
