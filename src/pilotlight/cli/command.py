"""What a verb of the command line is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Protocol


class Command(Protocol):
    """One file in this folder; listed in main.VERBS."""

    @property
    def name(self) -> str: ...

    @property
    def help(self) -> str: ...

    @property
    def examples(self) -> Sequence[str]: ...

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the verb's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Does it; the exit code. PilotlightError is printed as one line by main."""
