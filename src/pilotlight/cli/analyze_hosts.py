"""The part of `pilotlight analyze` for traces without device activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilotlight.printable import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from pilotlight.analysis import Analysis

SHOWN_RANKS = 16
SHOWN_OPERATORS = 10
SHOWN_FUNCTIONS = 5
TOLD_REST_RATIO = 0.1


def print_hosts(found: Analysis, console: Console) -> None:
    """How the hosts spent their time, and their operators."""
    rows = found.table("hosts")
    if not rows:
        console.print("No spans of a host either.")
        return
    console.print("The time of the hosts:")
    _print_parts(rows, console)
    operators = found.table("host_operators")
    if operators:
        has_operators = any(row["operators_ns"] for row in rows)
        _print_operators(operators, "operators" if has_operators else "spans", console)
    windows_ns = sum(row["window_ns"] for row in rows)
    if sum(row["rest_ns"] for row in rows) > TOLD_REST_RATIO * windows_ns:
        _print_functions(found.table("host_functions"), windows_ns, console)


def step_line(steps: int, step_ns: float) -> str:
    if steps == 1:
        return f"1 step of {step_ns / 1e6:.2f} ms"
    return f"{steps} steps, {step_ns / 1e6:.2f} ms each (median)"


def _print_parts(rows: list[dict[str, Any]], console: Console) -> None:
    from rich.table import Table

    known = [name for name in rows[0]["parts_ns"] if any(row["parts_ns"][name] for row in rows)]
    table = Table(box=None, pad_edge=False)
    for head in ("rank", "steps", "step", "time", "operators", *known, "Python and waiting"):
        table.add_column(head, justify="right")
    for row in rows[:SHOWN_RANKS]:
        whole = row["window_ns"] or 1
        shares = (row["operators_ns"], *(row["parts_ns"][name] for name in known), row["rest_ns"])
        table.add_row(
            str(row["rank"]),
            str(row["steps"] or ""),
            "" if row["step_ns"] is None else f"{row['step_ns'] / 1e6:.2f} ms",
            f"{row['window_ns'] / 1e6:.1f} ms",
            *(f"{100 * share / whole:.1f} %" for share in shares),
        )
    console.print(table)
    if len(rows) > SHOWN_RANKS:
        console.print(f"... and {len(rows) - SHOWN_RANKS} ranks more (--table hosts)")


def _print_operators(rows: list[dict[str, Any]], what: str, console: Console) -> None:
    from rich.table import Table

    ranks = len({row["rank"] for row in rows})
    rows = _by_name(rows)
    whole = sum(row["self_ns"] for row in rows) or 1
    of_ranks = f" of {ranks} ranks" if ranks > 1 else ""
    console.print(f"\n{what} by their own time, {whole / 1e6:.1f} ms{of_ranks} together:")
    table = Table(box=None, pad_edge=False)
    for head in ("own", "total", "calls", what[:-1]):
        table.add_column(head, justify="left" if head == what[:-1] else "right", overflow="fold")
    for row in rows[:SHOWN_OPERATORS]:
        table.add_row(
            f"{100 * row['self_ns'] / whole:.1f} %",
            f"{row['total_ns'] / 1e6:.2f} ms",
            str(row["count"]),
            one_line(row["operator"][:100]),
        )
    console.print(table)
    if len(rows) > SHOWN_OPERATORS:
        console.print(f"... and {len(rows) - SHOWN_OPERATORS} more (--table host_operators)")


def _print_functions(rows: list[dict[str, Any]], windows_ns: int, console: Console) -> None:
    """What the host did where it was in no operator, if the trace has Python's stacks."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["function"]] = totals.get(row["function"], 0) + row["self_ns"]
    longest = sorted(totals.items(), key=lambda item: -item[1])[:SHOWN_FUNCTIONS]
    if longest:
        console.print("\nPython and waiting, by function:")
    for name, self_ns in longest:
        share = f"{100 * self_ns / windows_ns:.1f} %"
        console.print(f"{share:>7}  {one_line(name[:100])}", highlight=False, markup=False)


def _by_name(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of all ranks together."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(
            row["operator"],
            {"operator": row["operator"], "count": 0, "total_ns": 0, "self_ns": 0},
        )
        for key in ("count", "total_ns", "self_ns"):
            known[key] += row[key]
    return sorted(found.values(), key=lambda row: -row["self_ns"])
