from __future__ import annotations

import os
from pathlib import Path

import pytest
from example import write_head

from pilotlight.errors import NotFound, PilotlightError, UsageError
from pilotlight.recording import places
from pilotlight.recording.places import find_recording, recordings_root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(tmp_path))
    for age_s, name in enumerate(["llama-b", "llama-a", "vit"]):
        write_head(tmp_path / "recordings" / name, job=name)
        manifest = tmp_path / "recordings" / name / "manifest.json"
        os.utime(manifest, (1_000 - age_s, 1_000 - age_s))
    return tmp_path / "recordings"


def test_the_data_dir_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PILOTLIGHT_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert recordings_root() == tmp_path / "xdg" / "pilotlight" / "recordings"
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(tmp_path / "own"))
    assert recordings_root() == tmp_path / "own" / "recordings"


def test_the_home_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("PILOTLIGHT_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert recordings_root() == tmp_path / ".local/share/pilotlight/recordings"


def test_a_home_that_cannot_be_written_falls_back_to_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PILOTLIGHT_DATA_DIR", raising=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    root = recordings_root()
    assert root == Path(f"/tmp/pilotlight-{os.geteuid()}/recordings")
    assert root.parent.stat().st_mode & 0o077 == 0


def test_a_fallback_that_others_may_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    monkeypatch.setattr(places, "Path", lambda _: shared)
    with pytest.raises(PilotlightError, match="this user alone"):
        places._fallback()


def test_no_name_means_the_newest(root: Path) -> None:
    assert find_recording(None) == root / "llama-b"


def test_a_recording_is_found_by_path_name_and_unique_beginning(root: Path) -> None:
    assert find_recording(str(root / "vit")) == root / "vit"
    assert find_recording(str(root / "vit" / "manifest.json")) == root / "vit"
    assert find_recording("llama-a") == root / "llama-a"
    assert find_recording("v") == root / "vit"


def test_of_several_recordings_of_a_job_its_name_means_the_newest(root: Path) -> None:
    for age_s, name in ((-3, "vit-2"), (-2, "vit-3")):
        write_head(root / name, job="vit")
        os.utime(root / name / "manifest.json", (1_000 + age_s, 1_000 + age_s))
    assert find_recording("vit") == root / "vit-3"
    assert find_recording("vit-2") == root / "vit-2"
    assert find_recording("vi") == root / "vit-3"


def test_an_ambiguous_beginning_names_the_candidates(root: Path) -> None:
    with pytest.raises(UsageError, match="llama could be llama-b, llama-a"):
        find_recording("llama")


def test_an_unknown_name_names_what_exists(root: Path) -> None:
    with pytest.raises(NotFound, match=r"no recording bert .* there is llama-b, llama-a, vit"):
        find_recording("bert")


def test_nothing_recorded_yet_says_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(tmp_path))
    with pytest.raises(NotFound, match="pilotlight run"):
        find_recording(None)
