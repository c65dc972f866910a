"""Tokens at rest and at the door."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from pilotlight.collector.tokens import Tokens, create_token, read_tokens, revoke_token
from pilotlight.errors import NotFound, UsageError


def test_the_secret_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    secret, token = create_token(path, ["ingest"], "default", "nodes", 30)
    assert secret.split("_")[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Tokens(path).find(secret) == token


def test_a_wrong_an_unknown_and_an_expired_secret_open_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    secret, _ = create_token(path, ["read"], "default", "", 30)
    old, _ = create_token(path, ["read"], "default", "", 1e-12)
    tokens = Tokens(path)
    for wrong in (secret[:-1] + "x", "plk_000000000000_abc", "", "plk", old, secret + "_"):
        assert tokens.find(wrong) is None
    assert tokens.find(secret) is not None


def test_a_revoked_token_is_noticed_while_the_collector_runs(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    secret, token = create_token(path, ["read"], "default", "", 0)
    create_token(path, ["read"], "default", "other", 0)
    tokens = Tokens(path)
    assert tokens.find(secret) is not None
    revoke_token(path, token.id)
    time.sleep(0.6)
    assert tokens.find(secret) is None and tokens.are_demanded


def test_a_collector_for_others_stays_closed_when_its_last_token_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    _, token = create_token(path, ["ingest"], "default", "", 0)
    revoke_token(path, token.id)
    assert Tokens(path, always_demanded=True).are_demanded
    assert not Tokens(path).are_demanded


def test_a_file_that_cannot_be_understood_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text("{broken")
    tokens = Tokens(path)
    assert tokens.are_demanded and tokens.find("plk_a_b") is None and tokens.problem


def test_scopes_and_tenants_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    with pytest.raises(UsageError, match="scope"):
        create_token(path, ["root"], "default", "", 1)
    with pytest.raises(UsageError, match="tenant"):
        create_token(path, ["read"], "a b'", "", 1)
    with pytest.raises(NotFound):
        revoke_token(path, "nothing")
    assert read_tokens(path) == []
