"""The look of every table in the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text


def titled(title: str) -> Table:
    """A table without columns yet."""
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2),
        collapse_padding=True,
        header_style="dim",
    )
