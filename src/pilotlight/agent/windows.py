"""The chunk that is kept for the whole job: 10 s sums and steps."""

from __future__ import annotations

from collections.abc import Sequence
from errno import EDQUOT, ENOSPC
from pathlib import Path

from pilotlight.agent.detail import COMMIT_KEY
from pilotlight.agent.spool import Spool
from pilotlight.agent.sums import merge_sums
from pilotlight.agent.tables import Tables
from pilotlight.errors import FormatError
from pilotlight.recording.chunk import ChunkWriter, last_positions
from pilotlight.recording.schema import WINDOW_NS

_WAITING_BYTES = 4 << 20


class Windows:
    """Sums arrive with every commit and go to the chunk every 10 s; until then the spool has them,
    so that an agent that takes over finds all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "windows"
        self._spool = Spool(folder / "windows.spool")
        self._writer: ChunkWriter | None = None
        self._waiting: list[Tables] = []
        self._waiting_bytes = 0
        self._due_ns = 0
        self._commit = 0
        self.rows_dropped = 0

    @property
    def bytes(self) -> int:
        return self._writer.committed_bytes if self._writer else 0

    def take_over(self, detail_commit: int) -> None:
        """Adds the sums of commits that the detail has and the chunk has not."""
        done = last_positions(self._folder).get(COMMIT_KEY)
        # Not only passed over: the next commits have their numbers.
        self._spool.cut_after(detail_commit)
        for commit, parts in self._spool.entries():
            if (done if isinstance(done, int) else 0) < commit <= detail_commit:
                self._hold(commit, parts)
        self.write()

    def add(self, commit: int, parts: Sequence[Tables]) -> str | None:
        """Takes the sums of one commit; returns what went wrong with the spool, if anything."""
        parts = [part for part in parts if part]
        if not parts:
            return None
        self._hold(commit, parts)
        try:
            self._spool.append(commit, parts)
        except OSError as error:
            # The sums are kept by their chunk, which takes less room: it gets them now.
            self._due_ns = 0
            return f"windows.spool: {error.strerror or error}"
        return None

    def is_due(self, now_ns: int) -> bool:
        return bool(self._waiting) and (
            now_ns >= self._due_ns or self._waiting_bytes > _WAITING_BYTES
        )

    def write(self, now_ns: int = 0) -> None:
        """Puts what waits into the chunk. OSError: it goes on waiting, within bounds."""
        self._due_ns = now_ns + WINDOW_NS
        if not self._waiting:
            return
        merged = merge_sums(self._waiting)
        try:
            self._put(merged)
        except OSError:
            if self._waiting_bytes > _WAITING_BYTES:
                self.drop_waiting()
            raise
        self._forget_waiting()

    def _put(self, merged: Sequence[Tables]) -> None:
        try:
            self._append(merged)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            # The spool has the same sums in more bytes: its room is enough for them.
            self._spool.clear()
            self._append(merged)
        self._spool.clear()

    def _append(self, merged: Sequence[Tables]) -> None:
        writer = self._open()
        for part in merged:
            for table, (rows, columns) in part.items():
                writer.append(table, rows, columns)
        writer.commit({COMMIT_KEY: self._commit})

    def drop_waiting(self) -> None:
        """Gives up what waits; counted."""
        self.rows_dropped += sum(rows for part in self._waiting for rows, _ in part.values())
        self._forget_waiting()
        self._spool.clear()

    def close(self) -> None:
        """Writes what waits and ends the chunk. OSError: what it did not take is counted."""
        try:
            self.write()
        except OSError:
            self.drop_waiting()
            raise
        finally:
            self._spool.remove()
            if self._writer is not None:
                writer, self._writer = self._writer, None
                writer.close()

    def forget(self) -> None:
        """The folder was taken away under us; what waits is still to be written."""
        self._spool.close()
        self._writer = None

    def _hold(self, commit: int, parts: Sequence[Tables]) -> None:
        self._waiting.extend(parts)
        self._waiting_bytes += sum(
            len(data) for part in parts for _, columns in part.values() for data in columns.values()
        )
        self._commit = commit

    def _forget_waiting(self) -> None:
        self._waiting = []
        self._waiting_bytes = 0

    def _open(self) -> ChunkWriter:
        if self._writer is None:
            try:
                self._writer = ChunkWriter(self._folder)
            except FormatError as error:
                raise OSError(str(error)) from None
        return self._writer
