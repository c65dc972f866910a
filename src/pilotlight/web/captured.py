"""The captures of a collector as traces of the page."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from starlette.requests import Request

from pilotlight.collector.answer import reader_of
from pilotlight.errors import NotFound
from pilotlight.store import queries
from pilotlight.web.library import Library

_LIBRARIES: OrderedDict[str, Library] = OrderedDict()
TENANTS_KEPT = 16


def captured_library(request: Request) -> Library:
    """What the one who asks may open: captures of the own tenant that have arrived."""
    reader = reader_of(request)
    folder = Path(request.app.state.collector.store.place.folder) / "captures"
    key = f"{folder}\0{reader.tenant}"
    library = _LIBRARIES.setdefault(key, Library({}))
    _LIBRARIES.move_to_end(key)
    while len(_LIBRARIES) > TENANTS_KEPT:
        _LIBRARIES.popitem(last=False)
    wanted = request.path_params.get("id")
    if wanted is not None and not library.has(wanted):
        row = next((row for row in queries.captures(reader) if row.id == wanted), None)
        place = folder / wanted
        if row is None or place.parent != folder or not place.is_dir():
            raise NotFound(f"no capture {wanted!r} has arrived here")
        library.add(wanted, f"{row.job}, {row.reason}", sorted(place.iterdir()))
    return library
