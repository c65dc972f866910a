"""Reads flight-recorder dumps: the last collectives of each rank and how far each group came."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotlight.errors import FormatError, NotFound
from pilotlight.recording.source import open_source
from pilotlight.trace.plain_pickle import load_plain
from pilotlight.trace.problem import Problem

MAX_DUMP_BYTES = 256 << 20
MAX_DUMPS = 100_000
MAX_GROUP_RANKS = 1_000_000
_RANK = re.compile(r"(\d{1,7})(?:\.(?:pkl|pickle|json|bin))?$")
_NOT_DUMPS = (".log", ".txt", ".md", ".py", ".yaml", ".gz")

_LONGEST = 200


@dataclass(frozen=True)
class Group:
    """A process group as one rank sees it."""

    name: str
    description: str
    ranks: tuple[int, ...]
    enqueued: int
    completed: int


@dataclass(frozen=True)
class Operation:
    """A collective or a send or receive that had not finished when the dump was made."""

    group: str
    sequence: int
    name: str
    is_p2p: bool
    sizes: str
    state: str


@dataclass(frozen=True)
class Dump:
    source: str
    rank: int
    version: str
    groups: dict[str, Group]
    pending: tuple[Operation, ...]


@dataclass(frozen=True)
class DumpSet:
    dumps: tuple[Dump, ...]
    problems: tuple[Problem, ...]
    unreadable: tuple[int, ...] = ()  # ranks whose dump is there and cannot be used


def read_dumps(folder: Path) -> DumpSet:
    """All dumps of a folder by rank, and a problem for each file that is none."""
    if folder.exists() and not folder.is_dir():
        raise NotFound(f"{folder}: a file: name the folder with the dumps of all ranks")
    if not folder.is_dir():
        raise NotFound(f"{folder}: no such folder")
    dumps: dict[int, Dump] = {}
    problems: list[Problem] = []
    tried: set[int] = set()
    files = sorted(path for path in folder.iterdir() if path.is_file() or path.is_symlink())
    for path in files[:MAX_DUMPS]:
        match = _RANK.search(path.name)
        if path.name.endswith(_NOT_DUMPS) or path.name.startswith("."):
            continue
        try:
            if match is None:
                raise FormatError(f"{path}: no rank at the end of the file's name")
            tried.add(int(match.group(1)))
            dump = read_dump(path, int(match.group(1)))
        except FormatError as error:
            problems.append(Problem(str(path), "", str(error).removeprefix(f"{path}: ")))
        except OSError as error:
            problems.append(Problem(str(path), "", error.strerror or str(error)))
        else:
            if dump.rank in dumps:
                text = f"rank {dump.rank} again, after {dumps[dump.rank].source}: left out"
                problems.append(Problem(str(path), "", text))
            else:
                dumps[dump.rank] = dump
    if not dumps and not problems:
        raise NotFound(f"{folder}: no flight-recorder dump in it")
    found = tuple(dumps[rank] for rank in sorted(dumps))
    return DumpSet(found, tuple(problems), tuple(sorted(tried - dumps.keys())))


def read_dump(path: Path, rank: int) -> Dump:
    with open_source(path) as file:
        content = file.read(MAX_DUMP_BYTES + 1)
    if len(content) > MAX_DUMP_BYTES:
        raise FormatError(f"{path}: longer than {MAX_DUMP_BYTES} bytes: refused")
    value = _json(content, path) if content[:1] == b"{" else load_plain(content, str(path))
    try:
        return _dump(value, str(path), rank)
    except KeyError as error:
        raise FormatError(f"{path}: not a flight-recorder dump: it has no {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: not a flight-recorder dump ({error})") from None


def _json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged JSON ({error})") from None


def _dump(value: Any, source: str, rank: int) -> Dump:
    entries = value["entries"]
    if not isinstance(entries, list):
        raise TypeError("entries is no list")
    configured = value["pg_config"]
    status = value.get("pg_status") or {}
    known = {_text(entry["pg_id"]): _group(entry) for entry in entries if "pg_id" in entry}
    name_of = _group_names(list(status), list(configured), known)
    groups = {}
    for key, name in name_of.items():
        config = configured.get(name, {})
        groups[name] = Group(
            name,
            _text(config.get("desc", "")),
            _rank_list(config.get("ranks", "[]")),
            int(status[key]["last_enqueued_collective"]),
            int(status[key]["last_completed_collective"]),
        )
    for name, (enqueued, completed) in _counted(entries).items():
        if name not in groups:
            config = configured.get(name, {})
            ranks = _rank_list(config.get("ranks", "[]"))
            description = _text(config.get("desc", ""))
            groups[name] = Group(name, description, ranks, enqueued, completed)
    pending = tuple(_operation(entry) for entry in entries if _is_pending(entry))
    return Dump(source, rank, _text(value.get("version", "")), groups, pending)


def _group(entry: Any) -> str:
    """The name of the entry's group; dumps before version 2.4 have only its number."""
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and group:
        return _text(group[0])
    return _text(group if group else entry["pg_id"])


def _counted(entries: list[Any]) -> dict[str, tuple[int, int]]:
    """Last entered and last finished collective of each group, for dumps without a status."""
    found: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if entry.get("is_p2p", False):
            continue
        sequence = int(entry.get("collective_seq_id", entry.get("seq_id", 0)))
        entered, finished = found.get(_group(entry), (sequence, sequence - 1))
        done = not _is_pending(entry)
        found[_group(entry)] = max(entered, sequence), max(finished, sequence if done else finished)
    return found


def _group_names(
    keys: Sequence[Any], names: Sequence[Any], known: dict[str, str]
) -> dict[Any, str]:
    """The status counts groups in the order of their making; so do the numbers in their names."""
    if set(keys) == set(names):
        return {key: str(key) for key in keys}
    found = {key: known[str(key)] for key in keys if str(key) in known}
    if len(keys) == len(names) and all(str(text).isdigit() for text in (*keys, *names)):
        by_order = dict(zip(sorted(keys, key=int), sorted(map(str, names), key=int), strict=True))
        if all(by_order[key] == name for key, name in found.items()):
            return by_order
    return found


def _rank_list(text: Any) -> tuple[int, ...]:
    ranks = json.loads(text) if isinstance(text, str) else list(text)
    if len(ranks) > MAX_GROUP_RANKS:
        raise ValueError("a group of too many ranks")
    return tuple(int(rank) for rank in ranks)


def _is_pending(entry: Any) -> bool:
    return entry.get("state") != "completed" and not entry.get("retired", False)


def _operation(entry: Any) -> Operation:
    is_p2p = bool(entry.get("is_p2p", False))
    old = entry.get("seq_id", 0)
    sequence = entry.get("p2p_seq_id" if is_p2p else "collective_seq_id", old)
    return Operation(
        _group(entry),
        int(sequence),
        _text(entry["profiling_name"]),
        is_p2p,
        " ".join(_text(entry.get(each), 500) for each in ("input_sizes", "input_dtypes"))[:500],
        _text(entry.get("state", "")),
    )


def _text(value: Any, longest: int = _LONGEST) -> str:
    """As str() has it, as far as it is wanted: lists may hold one another again and again."""
    if isinstance(value, str):
        return value[:longest]
    pieces: list[str] = []
    length = 0
    waiting: list[tuple[bool, Any]] = [(False, value)]
    while waiting and length < longest:
        is_sign, item = waiting.pop()
        if not is_sign and isinstance(item, (list, tuple)):
            first, last = "[]" if isinstance(item, list) else "()"
            inside = [(False, each) for each in item[:longest]]
            signs = [(True, ", ")] * len(inside)
            between = [one for pair in zip(inside, signs, strict=True) for one in pair][:-1]
            waiting += [(True, last), *reversed(between), (True, first)]
            continue
        plain = item[:longest] if isinstance(item, (str, bytes)) else item
        piece = item if is_sign else "{...}" if isinstance(item, dict) else repr(plain)
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces)[:longest]
