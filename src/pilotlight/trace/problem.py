"""What is wrong with an input, in one line that names the file and the place."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.printable import one_line


@dataclass(frozen=True)
class Problem:
    """Input that could not be used as it stands; the rest of the input still is."""

    source: str
    place: str
    text: str

    def __str__(self) -> str:
        where = f"{self.source}: {self.place}" if self.place else self.source
        return one_line(f"{where}: {self.text}")
