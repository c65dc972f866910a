"""Takes values out of JSON objects that nobody vouches for; what does not fit is a FormatError."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pilotlight.errors import FormatError
from pilotlight.recording.source import open_source

T = TypeVar("T")

JSON_LIMIT_BYTES = 16 << 20
_SURROGATE = re.compile(rb"(?i)\\ud[89a-f]")


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file of bounded size."""
    with open_source(path) as stream:
        data = stream.read(JSON_LIMIT_BYTES + 1)
    if len(data) > JSON_LIMIT_BYTES:
        raise FormatError(f"{path}: more than {JSON_LIMIT_BYTES} bytes")
    return parse_object(data, str(path))


def parse_json(data: bytes) -> object:
    """ValueError or RecursionError: it is none. Texts are Unicode that can be written again: the
    arguments of a command may be any bytes, which Python holds as lone surrogates."""
    content: object = json.loads(data.decode())
    if _SURROGATE.search(data):
        content = json.loads(to_json(content))
    return content


def to_json(content: object) -> bytes:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


def parse_object(data: bytes, place: str) -> dict[str, object]:
    try:
        content = parse_json(data)
    except (ValueError, RecursionError):
        raise FormatError(f"{place}: not JSON") from None
    if not isinstance(content, dict):
        raise FormatError(f"{place}: not a JSON object")
    return content


def check_version(content: Mapping[str, object], format: str, newest: int) -> None:
    """Whether an object is of this format, in a version that can be read."""
    if content.get("format") != format:
        raise FormatError(f"format is not {format}")
    version = take(content, "version", list)
    if not version or type(version[0]) is not int:
        raise FormatError("version is not a list of numbers")
    if version[0] > newest:
        raise FormatError(
            f"version {version[0]} is newer than this pilotlight reads ({newest}): "
            "install a newer pilotlight"
        )


def take(content: Mapping[str, object], key: str, kind: type[T]) -> T:
    """The value of a key that must be there."""
    value = content.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise FormatError(f"{key} is {_shown(value)} instead of {kind.__name__}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise FormatError(f"{key} is a number of more than 64 bits")
    return value


def take_or(content: Mapping[str, object], key: str, default: T) -> T:
    """The value of a key, or `default` where it is absent; of the type of `default` either way."""
    return default if key not in content else take(content, key, type(default))


def take_optional(content: Mapping[str, object], key: str, kind: type[T]) -> T | None:
    return None if content.get(key) is None else take(content, key, kind)


def take_texts(content: Mapping[str, object], key: str) -> tuple[str, ...]:
    values = take_or(content, key, list[object]())
    return tuple(take({key: value}, key, str) for value in values)


def _shown(value: object) -> str:
    return "missing" if value is None else f"{value!r:.40}"
