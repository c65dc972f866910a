from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from archived import brought

pytest.importorskip("starlette", reason="the page needs pilotlight[server]")
from pilotlight.agent.bringing import pack
from pilotlight.capture.manifest import Captured, CaptureManifest
from pilotlight.capture.request import Answered
from pilotlight.errors import FormatError, NotFound
from pilotlight.recording.zstd import ZstdCompressor
from pilotlight.web import archive as archives
from pilotlight.web.archive import unpack
from pilotlight.web.captured import read_capture


def test_a_capture_opens_as_a_trace(tmp_path: Path) -> None:
    found, stalls = read_capture([brought(tmp_path / "a", 0)])
    assert stalls == []
    (trace,) = found.job.traces
    assert len(trace.spans) == 6 and len(trace.steps) == 6
    assert "forward" in trace.names


def test_of_traces_that_hold_nothing_the_recording_is_shown_and_why_is_told(
    tmp_path: Path,
) -> None:
    process = {
        "pid": 1, "world_size": 2, "role": "rank", "how": "kineto", "file": None, "steps": 5,
        "start_ns": None, "stacks": None, "flight_recorder": None, "rank": 1, "state": "failed",
        "reason": "it has not polled for 19 s",
    }  # fmt: skip
    hung = Captured(Answered.from_json(process), "n", None)
    manifest = CaptureManifest("job", 1, {}, None, (hung,))
    besides = {
        "traces/rank0.json.gz": gzip.compress(b'{"traceEvents": []}'),
        "traces/capture.json": manifest.to_json().encode(),
    }
    found, _ = read_capture([brought(tmp_path / "a", 0, besides)])
    (trace,) = found.job.traces
    assert len(trace.spans) == 6
    why, unusable = map(str, found.problems)
    assert why == "rank 1: its steps were not traced: it has not polled for 19 s"
    assert unusable.startswith("capture-0/traces/rank0.json.gz: ")


def test_a_capture_without_a_recording_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    pack(tmp_path / "empty", tmp_path / "e.tar.zst")
    with pytest.raises(NotFound, match="no recording"):
        read_capture([tmp_path / "e.tar.zst"])


def sealed(path: Path, *members: tarfile.TarInfo) -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    compressor = ZstdCompressor()
    path.write_bytes(compressor.compress(plain.getvalue()) + compressor.flush())
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 3) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size if kind == tarfile.REGTYPE else 0
    made.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
    return made


def test_nothing_is_written_outside_and_no_link_is_made(tmp_path: Path) -> None:
    hostile = sealed(
        tmp_path / "h.tar.zst",
        member("../outside"),
        member("/absolute"),
        member("link", tarfile.SYMTYPE),
        member("hard", tarfile.LNKTYPE),
        member("good/file"),
    )
    folder = tmp_path / "into"
    folder.mkdir()
    unpack(hostile, folder)
    found = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert found == ["files/good/file"]
    assert not (tmp_path / "outside").exists()


def test_limits_and_damage_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sealed(tmp_path / "w.tar.zst", *(member(f"f{n}") for n in range(9)))
    cut = tmp_path / "cut.tar.zst"
    cut.write_bytes(whole.read_bytes()[:-8])
    junk = tmp_path / "junk.tar.zst"
    junk.write_bytes(b"not at all")
    for path, word in ((cut, "cut off"), (junk, "not zstd")):
        with pytest.raises(FormatError, match=word):
            unpack(path, tmp_path)
    monkeypatch.setattr(archives, "FILES_LIMIT", 3)
    with pytest.raises(FormatError, match="more than 3 files"):
        unpack(whole, tmp_path)
    monkeypatch.setattr(archives, "BYTES_LIMIT", 1000)
    with pytest.raises(FormatError, match="bytes unpacked"):
        unpack(whole, tmp_path)
