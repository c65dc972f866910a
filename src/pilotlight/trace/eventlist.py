"""The event list of a Chrome trace, cut into decodable pieces without holding the file.

The list is cut where it looks like the border of two events. That this is no border inside an
event or a string needs no scanner: a prefix cut anywhere else does not decode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pilotlight.errors import FormatError
from pilotlight.trace.problem import Problem

MAX_EVENT_BYTES = 64 << 20
MAX_METADATA_BYTES = 64 << 20
BORDER_ATTEMPTS = 3

_LIST_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}\s*,\s*\{")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


@dataclass
class EventList:
    """Decodes the events of one file; `metadata` and `problems` are whole after the last piece."""

    source: str
    decoder: msgspec.json.Decoder[Any]
    document_decoder: msgspec.json.Decoder[Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    malformed: int = 0
    _first_malformed: str = ""
    _bare: bool = False
    _whole: bool = False

    def pieces(self, blocks: Iterator[bytes]) -> Iterator[list[Any]]:
        head, pending, offset = self._head(blocks)
        self._bare = not head
        self._keep_metadata(head + b'"traceEvents":0}' if head else b"{}")
        while True:
            block = next(blocks, b"")
            pending += block
            events, used, closed = self._decoded(pending, offset, last=not block)
            if events:
                yield events
            pending = pending[used:]
            offset += used
            if closed:
                if not self._whole:
                    self._tail(pending, blocks)
                break
            if not block and used:
                continue
            if not block:
                if not self._bare or pending.strip(b" \t\r\n,"):
                    self._cut(offset)
                break
            if len(pending) > MAX_EVENT_BYTES:
                raise FormatError(
                    f"{self.source}: byte {offset}: an event longer than {MAX_EVENT_BYTES} bytes"
                )
        if self.malformed:
            self.problems.append(
                Problem(
                    self.source,
                    self._first_malformed,
                    f"{self.malformed} malformed events left out, this is the first",
                )
            )

    def _head(self, blocks: Iterator[bytes]) -> tuple[bytes, bytes, int]:
        """What comes before the list, what of the list was read with it, and where that begins."""
        text = b""
        searched = 0
        for block in blocks:
            text += block
            if text[:3] == b"\xef\xbb\xbf":
                text = text[3:]
            opening = text.lstrip()[:1]
            if opening == b"[":
                start = text.index(b"[") + 1
                return b"", text[start:], start
            if opening not in (b"{", b""):
                raise FormatError(f"{self.source}: byte 0: neither JSON nor another known format")
            for match in _LIST_KEY.finditer(text, searched):
                head = text[: match.start()]
                if _is_object(head + b'"traceEvents":0}'):
                    return head, text[match.end() :], match.end()
            searched = max(0, len(text) - 64)
            if len(text) > MAX_METADATA_BYTES:
                break
        raise FormatError(f"{self.source}: no traceEvents: not a Chrome or Kineto trace")

    def _decoded(self, pending: bytes, offset: int, *, last: bool) -> tuple[list[Any], int, bool]:
        """Events, how many bytes they took, and whether the list was closed after them."""
        if last and not self._bare:
            try:
                document = self.document_decoder.decode(b'{"traceEvents":[' + pending)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
            else:
                self.metadata.update(document.metadata())
                self._whole = True
                return document.traceEvents, len(pending), True
        cut = len(pending)
        for _ in range(BORDER_ATTEMPTS):
            cut = _last_border(pending, cut)
            if cut < 0:
                break
            piece = b"".join((b"[", memoryview(pending)[: cut + 1], b"]"))
            try:
                events: list[Any] = self.decoder.decode(piece)
                return events, pending.index(b",", cut) + 1, False
            except msgspec.ValidationError:
                return self._scanned(pending, offset)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                trailing = _TRAILING.search(str(error))
                if trailing:
                    # `piece` has one bracket more than `pending` in front.
                    closing = pending.rindex(b"]", 0, int(trailing.group(1)) - 1)
                    return self.decoder.decode(piece[: closing + 2]), closing + 1, True
        if cut < 0 and not last:
            return [], 0, False
        return self._scanned(pending, offset)

    def _scanned(self, pending: bytes, offset: int) -> tuple[list[Any], int, bool]:
        """The slow and exact way, event by event, for pieces with something wrong in them."""
        events: list[Any] = []
        depth = begin = used = 0
        for token in _TOKEN.finditer(pending):
            mark = token.group()
            if mark == b'"':
                break
            if mark in (b"{", b"["):
                if depth == 0:
                    begin = token.start()
                depth += 1
            elif mark in (b"}", b"]"):
                depth -= 1
                if depth < 0:
                    return events, token.end(), True
                if depth == 0:
                    event = self._single(pending[begin : token.end()], offset + begin)
                    if event is not None:
                        events.append(event)
                    used = token.end()
        return events, used, False

    def _single(self, text: bytes, place: int) -> Any:
        try:
            return self.decoder.decode(b"[" + text + b"]")[0]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error)
        try:
            # Some writers cut names in the middle of a character, or print NaN and Infinity.
            value = json.loads(text.decode("utf-8", "replace"), strict=False)
            return msgspec.convert([value], self.decoder.type, strict=False)[0]
        except (ValueError, RecursionError):
            if not self.malformed:
                self._first_malformed = f"byte {place} ({reason})"
            self.malformed += 1
            return None

    def _tail(self, pending: bytes, blocks: Iterator[bytes]) -> None:
        text = pending
        for block in blocks:
            if len(text) < MAX_METADATA_BYTES:
                text += block
        if self._bare:
            return
        if not text.strip():
            self.problems.append(Problem(self.source, "end", "the closing brace is missing"))
            return
        rest = text.lstrip()
        self._keep_metadata(b"{" + rest[1:] if rest[:1] == b"," else b"{" + rest)

    def _keep_metadata(self, text: bytes) -> None:
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.problems.append(Problem(self.source, "metadata after the events", str(error)))
            return
        if isinstance(found, dict):
            self.metadata.update(found)
            self.metadata.pop("traceEvents", None)

    def _cut(self, offset: int) -> None:
        text = "the file ends inside the event list; what came before is used"
        self.problems.append(Problem(self.source, f"byte {offset}", text))


def _last_border(text: bytes, before: int) -> int:
    """Position of the brace that closes the last event but one before `before`, or -1."""
    reach = 1 << 12
    while True:
        start = max(0, before - reach)
        found = -1
        for match in _BORDER.finditer(text, start, before):
            found = match.start()
        if found >= 0 or start == 0:
            return found
        reach *= 8


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
