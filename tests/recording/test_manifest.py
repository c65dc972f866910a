from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from example import MANIFEST

from pilotlight.errors import FormatError
from pilotlight.recording.manifest import Lost, Manifest, read_manifest, write_manifest


def change(folder: Path, **values: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    manifest = replace(MANIFEST, signal=9, exit_code=None, lost=Lost(1, 2, ("disk full",)))
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_a_newer_major_version_is_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    change(tmp_path, version=[2, 0])
    with pytest.raises(FormatError, match=r"manifest\.json: version 2 is newer"):
        read_manifest(tmp_path)


def test_a_newer_minor_version_with_more_keys_is_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    change(tmp_path, version=[1, 7], news={"a": 1})
    assert read_manifest(tmp_path) == MANIFEST


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", "other", "format is not"),
        ("version", "1", "version is '1'"),
        ("job", 7, "job is 7 instead of str"),
        ("created_ns", True, "created_ns is True"),
        ("created_ns", 1.5, "created_ns is 1.5"),
        ("clocks", [], "clocks is empty"),
        ("clocks", [{"monotonic_ns": 1}], "realtime_ns is missing"),
        ("agent", {}, "pid is missing"),
        ("command", [1], "command is 1"),
        ("state", "asleep", "state is 'asleep'"),
        ("range_ns", [1], "range_ns is not two times"),
        ("range_ns", [1, "x"], "range_ns is 'x'"),
        ("lost", {"write_errors": "x"}, "write_errors is 'x'"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, key: str, value: object, message: str) -> None:
    write_manifest(tmp_path, MANIFEST)
    change(tmp_path, **{key: value})
    with pytest.raises(FormatError, match=message):
        read_manifest(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "[" * 100_000])
def test_what_is_not_a_json_object_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(FormatError, match=r"manifest\.json: not"):
        read_manifest(tmp_path)


def test_a_folder_without_manifest_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a recording"):
        read_manifest(tmp_path)


def test_a_pipe_in_place_of_the_manifest_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(FormatError, match="not a plain file"):
        read_manifest(tmp_path)


def test_from_json_reads_what_to_json_wrote() -> None:
    assert Manifest.from_json(json.loads(MANIFEST.to_json())) == MANIFEST


def test_a_manifest_that_is_not_json_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("x")
    with pytest.raises(FormatError) as raised:
        read_manifest(tmp_path)
    assert str(raised.value) == f"{path}: not JSON"
