"""The look of every table in the terminal."""

from __future__ import annotations

from collections.abc import Collection

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pilotlight.report import units


def titled(title: str, *columns: str, wide: Collection[str] = ()) -> Table:
    """Columns are numbers, to the right; those in `wide` are text and take what room is left."""
    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2),
        collapse_padding=True,
        header_style="dim",
    )
    for column in columns:
        if column in wide:
            # Where there is too little room rich narrows those first that may wrap; no cell does.
            table.add_column(column, justify="left", overflow="ellipsis", ratio=1)
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def add_row(table: Table, *cells: str) -> None:
    table.add_row(
        *(Text(units.printable(cell), no_wrap=True, overflow="ellipsis") for cell in cells)
    )


def print_table(console: Console, table: Table) -> None:
    """Numbers keep their width on a narrow terminal; text gives way."""
    for column in table.columns:
        if not column.ratio:
            column.min_width = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
    console.print(table)
