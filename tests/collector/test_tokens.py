"""Tokens at rest and at the door."""

from __future__ import annotations

import hashlib
import hmac
import stat
import time
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from starlette.testclient import TestClient

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.tokens import Tokens, create_token, read_tokens, revoke_token
from pilotlight.errors import NotFound, UsageError
from pilotlight.store.place import parse_place


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


def test_every_secret_is_compared_in_constant_time_whether_its_id_is_known_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Header, cookie and login; the secret itself meets no comparison but that of its hash."""
    place = parse_place(str(tmp_path))
    secret, token = create_token(place.tokens, ["read"], "default", "", 1)
    id, rest = secret.split("_")[1:]
    compared: list[tuple[str, str]] = []

    def compare(given: str, expected: str) -> bool:
        compared.append((given, expected))
        return given == expected

    monkeypatch.setattr(hmac, "compare_digest", compare)
    collector = Collector(place)
    try:
        client = TestClient(make_app(collector))
        for one in (secret, f"plk_{id}_wrong", f"plk_000000000000_{rest}", "nonsense"):
            hashed = hashlib.sha256(
                one.split("_")[2].encode() if one.startswith("plk_") else b""
            ).hexdigest()
            is_right = one == secret
            for ask in (
                lambda one=one: client.get("/v1/jobs", headers={"authorization": f"Bearer {one}"}),
                lambda one=one: client.get("/v1/jobs", headers={"cookie": f"pilotlight={one}"}),
                lambda one=one: client.post("/v1/login", json={"token": one}),
            ):
                compared.clear()
                client.cookies.clear()
                assert (ask().status_code < 300) is is_right
                (given, expected) = compared[-1]
                assert len(compared) == 1 and given == hashed
                assert len(expected) == len(hashed)
                assert (expected == token.hash) is (id in one)
    finally:
        collector.close()


@pytest.mark.parametrize("days", [-1.0, float("nan"), float("inf"), 1e300])
def test_a_token_is_for_a_time_that_there_is(tmp_path: Path, days: float) -> None:
    with pytest.raises(UsageError, match="days"):
        create_token(tmp_path / "tokens.json", ["read"], "default", "", days)
    _, token = create_token(tmp_path / "tokens.json", ["read"], "default", "", 0)
    assert token.is_valid_at(1 << 62)


@pytest.mark.parametrize("tenant", ["", "lab\u00e9", "a b", "a'", "x" * 101])
def test_a_tenant_is_one_that_every_question_takes(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(UsageError, match="letters"):
        create_token(tmp_path / "tokens.json", ["read"], tenant, "", 1)
