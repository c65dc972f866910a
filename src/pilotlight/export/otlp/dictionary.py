"""The tables that the profiles of a message share; number 0 of each is its empty value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilotlight.export.protobuf import integer, message, packed, text
from pilotlight.ship.frame import split_line

# profiles.proto, version v1development: ProfilesDictionary, then the messages in it.
_MAPPING, _LOCATION, _FUNCTION, _LINK, _STRING, _ATTRIBUTE, _STACK = 1, 2, 3, 4, 5, 6, 7
_LOCATION_LINE, _LOCATION_ATTRIBUTES, _LINE_FUNCTION, _LINE_NUMBER = 3, 4, 1, 2
_FUNCTION_NAME, _FUNCTION_FILE = 1, 3
_KEY, _VALUE, _VALUE_TEXT = 1, 2, 1
_LINK_TRACE, _LINK_SPAN = 1, 2
_FRAME_TYPE = "profile.frame.type"


class Dictionary:
    """Every method gives a number that samples and profiles refer to."""

    def __init__(self) -> None:
        self._strings = {"": 0}
        self._attributes: dict[tuple[str, str], int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[tuple[int, int, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}

    def string(self, value: str) -> int:
        return self._strings.setdefault(value, len(self._strings))

    def attribute(self, key: str, value: str) -> int:
        self.string(key)
        return self._attributes.setdefault((key, value), len(self._attributes) + 1)

    def stack(self, frames: Sequence[str], language: str) -> int:
        """`frames` from the outermost to the innermost; "" for `language`: it is none."""
        kind = self.attribute(_FRAME_TYPE, language) if language else 0
        inner_first = tuple(self._location(frame, kind) for frame in reversed(frames))
        return self._stacks.setdefault(inner_first, len(self._stacks) + 1)

    def encoded(self) -> Iterator[bytes]:
        """The fields of a ProfilesDictionary."""
        yield message(_MAPPING)
        yield message(_LOCATION)
        for function, number, kind in self._locations:
            line = message(
                _LOCATION_LINE, integer(_LINE_FUNCTION, function), integer(_LINE_NUMBER, number)
            )
            yield message(_LOCATION, line, packed(_LOCATION_ATTRIBUTES, [kind] if kind else []))
        yield message(_FUNCTION)
        for name, file in self._functions:
            yield message(
                _FUNCTION,
                integer(_FUNCTION_NAME, self._strings[name]),
                integer(_FUNCTION_FILE, self._strings[file]),
            )
        yield message(_LINK, message(_LINK_TRACE, bytes(16)), message(_LINK_SPAN, bytes(8)))
        yield message(_ATTRIBUTE)
        for key, value in self._attributes:
            told = message(_VALUE, text(_VALUE_TEXT, value))
            yield message(_ATTRIBUTE, integer(_KEY, self._strings[key]), told)
        yield message(_STACK)
        for locations in self._stacks:
            yield message(_STACK, packed(1, locations))
        yield from (text(_STRING, value) for value in self._strings)

    def _location(self, frame: str, kind: int) -> int:
        plain, line = split_line(frame)
        name, file = _parts(plain)
        self.string(name)
        self.string(file)
        function = self._functions.setdefault((name, file), len(self._functions) + 1)
        return self._locations.setdefault((function, line, kind), len(self._locations) + 1)


def _parts(frame: str) -> tuple[str, str]:
    """`function (file)`, as agents write frames; the file is "" where there is none."""
    name, is_frame, file = frame.rpartition(" (")
    return (name, file[:-1]) if is_frame and file.endswith(")") else (frame, "")
