"""Where recordings live, and how a person names one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pilotlight.errors import FormatError, NotFound, PilotlightError, UsageError
from pilotlight.recording.manifest import MANIFEST_FILE, read_manifest

_LISTED = 8


def recordings_root() -> Path:
    """The folder of all recordings of this user; it need not exist yet."""
    chosen = os.environ.get("PILOTLIGHT_DATA_DIR")
    if chosen:
        return Path(chosen).absolute() / "recordings"
    shared = os.environ.get("XDG_DATA_HOME")
    home = Path(shared) if shared else Path("~/.local/share").expanduser()
    root = home.absolute() / "pilotlight" / "recordings"
    return root if _can_be_written(root) else _fallback()


def _can_be_written(folder: Path) -> bool:
    there = next((place for place in (folder, *folder.parents) if place.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _fallback() -> Path:
    """In /tmp, where anybody could have made a folder of that name before us."""
    folder = Path(f"/tmp/pilotlight-{os.geteuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise PilotlightError(f"{folder}: {error.strerror}; set PILOTLIGHT_DATA_DIR") from None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not private or found.st_uid != os.geteuid():
        raise PilotlightError(f"{folder}: not a folder of this user alone; set PILOTLIGHT_DATA_DIR")
    return folder / "recordings"


def all_recordings(root: Path) -> list[Path]:
    """Oldest first."""
    try:
        found = [(_manifest_time(folder), folder) for folder in root.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder for time, folder in sorted(found) if time >= 0]


def _manifest_time(folder: Path) -> float:
    try:
        return (folder / MANIFEST_FILE).stat().st_mtime
    except OSError:
        return -1.0


def find_recording(name: str | None) -> Path:
    """By path, by job (its newest), by folder, or by the beginning of one; None: the newest."""
    if name is not None and (Path(name) / MANIFEST_FILE).is_file():
        return Path(name)
    if name is not None and (Path(name).name == MANIFEST_FILE) and Path(name).is_file():
        return Path(name).parent
    root = recordings_root()
    recordings = all_recordings(root)
    if not recordings:
        wanted = "no recording yet" if name is None else f"no recording {name}"
        raise NotFound(f"{wanted}: {root} is empty; make one with `pilotlight run -- COMMAND`")
    if name is None:
        return recordings[-1]
    jobs = {folder: _job(folder) for folder in recordings}
    for matches in (
        [folder for folder in recordings if jobs[folder] == name],
        [folder for folder in recordings if folder.name == name],
        [folder for folder in recordings if folder.name.startswith(name)],
    ):
        if len({jobs[folder] for folder in matches}) == 1:
            return matches[-1]
        if matches:
            raise UsageError(f"{name} could be {_list(matches)}")
    raise NotFound(f"no recording {name} in {root}; there is {_list(recordings)}")


def _job(folder: Path) -> str:
    try:
        return read_manifest(folder).job
    except (OSError, FormatError):
        return folder.name


def _list(recordings: list[Path]) -> str:
    names = [folder.name for folder in reversed(recordings)]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
