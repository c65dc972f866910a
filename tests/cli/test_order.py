"""Words may come before and after options."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.cli.main import main


def test_a_word_that_may_be_absent_is_found_after_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("chdb", reason="tokens are the collector's: pilotlight[server]")
    store = str(tmp_path / "store")
    assert main(["token", "create", "--store", store, "--scope", "read"]) == 0
    id = capsys.readouterr().out.split("_")[1]
    assert main(["token", "revoke", "--store", store, id]) == 0
    assert capsys.readouterr().out == f"{id} is revoked\n"


def test_a_word_too_many_is_still_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "list", "--json", "one", "two"]) == 2
    assert capsys.readouterr().err == (
        "pilotlight token: unrecognized arguments: two; `pilotlight token --help` has those that"
        " there are\n"
    )
