"""Opens the files of a recording, which anybody may have put there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from pilotlight.errors import FormatError


def open_source(path: Path) -> BinaryIO:
    """FormatError for what is not a plain file: to open a pipe could wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{path}: not a plain file")
    return os.fdopen(descriptor, "rb")
