"""pilotlight: the profiler that stays on.

    pilotlight run -- python train.py

needs no change of the program. For more detail, from inside it:

    pilotlight.start()              start the probe, if PILOTLIGHT=1 has not
    pilotlight.step()               a step begins now
    pilotlight.annotate("name")     a named range: with statement or decorator
    pilotlight.counter(name, value) a number over time
    pilotlight.subscribe()          live messages of the agent, for tools
    pilotlight.analyze(paths)       findings from traces and recordings

Without a running probe the calls cost a few nanoseconds and do nothing.
"""

# Spelled out: importing `typing` would cost every Python of a job five milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilotlight.analysis import analyze
    from pilotlight.probe.annotate import annotate
    from pilotlight.probe.calls import counter, start, step
    from pilotlight.subscribe import subscribe

__version__ = "0.1.0"
__all__ = ["analyze", "annotate", "counter", "start", "step", "subscribe"]

_PLACES = {
    "analyze": "pilotlight.analysis",
    "annotate": "pilotlight.probe.annotate",
    "counter": "pilotlight.probe.calls",
    "start": "pilotlight.probe.calls",
    "step": "pilotlight.probe.calls",
    "subscribe": "pilotlight.subscribe",
}


def __getattr__(name: str) -> object:
    # Loaded on first use: the probe starts in every Python of a job and has to stay light.
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'pilotlight' has no attribute {name!r}")
    import sys

    __import__(place)
    found: object = getattr(sys.modules[place], name)
    # Found at once from here on: a call in a step has no time for this.
    globals()[name] = found
    return found
