from __future__ import annotations

from array import array

from pilotlight.agent.functions import Functions
from pilotlight.agent.tables import Columns, Tables, packed
from pilotlight.recording.schema import State

SECOND = 1_000_000_000


def text_columns(name: str, values: list[str]) -> Columns:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value.encode()))
    return {name: "".join(values).encode(), f"{name}:offsets": array("i", ends).tobytes()}


def definitions() -> Tables:
    functions = ["outer", "inner"]
    frames: Columns = {
        **text_columns("function", functions),
        **text_columns("file", ["f.py"] * 2),
        "process": bytes(8),
        "id": array("I", [10, 11]).tobytes(),
        "line": bytes(8),
        "first_line": bytes(8),
    }
    names: Columns = {
        **text_columns("text", ["load"]),
        "process": bytes(4),
        "id": array("I", [5]).tobytes(),
    }
    stacks = packed("stacks", [(0, 20, 0, 10), (0, 21, 20, 11)])
    return {"frames": (2, frames), "names": (1, names), "stacks": stacks}


def samples(*rows: tuple[int, State, int]) -> Tables:
    values = [(0, 1, stack, state, 0, 0, weight_ns) for stack, state, weight_ns in rows]
    return {"samples": packed("samples", values)}


def test_the_innermost_functions_that_ran_are_ranked_by_time() -> None:
    functions = Functions()
    functions.see(definitions(), 0)
    functions.see(
        samples((20, State.RUNNING, 1), (21, State.RUNNING, 3), (20, State.WAITING, 100)), SECOND
    )
    assert functions.top(3) == [("inner", 0.75), ("outer", 0.25)]
    assert (functions.name(5), functions.function(21)) == ("load", "inner")


def test_what_ran_long_ago_is_forgotten() -> None:
    functions = Functions()
    functions.see(definitions(), 0)
    functions.see(samples((20, State.RUNNING, 1)), SECOND)
    functions.see(samples((21, State.RUNNING, 1)), 12 * SECOND)
    assert functions.top(3) == [("inner", 1.0)]


def test_ids_that_nobody_defined_are_unknown() -> None:
    functions = Functions()
    functions.see(samples((99, State.RUNNING, 1)), 0)
    assert functions.top(1) == [("?", 1.0)]
    assert functions.name(99) == functions.function(99) == "?"
