"""The statements for a cluster by the real engine's parser, and the pages that name tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.collector.config import Config, read_config
from pilotlight.errors import UsageError
from pilotlight.store.ddl import statements
from pilotlight.store.place import parse_place
from pilotlight.store.schema import TABLES
from pilotlight.store.store import Store

DOCS = Path(__file__).parents[2] / "docs"


def test_the_engine_understands_every_statement_for_a_cluster(store: Store) -> None:
    found = list(statements("prod", {}))
    assert sum("ReplicatedMergeTree" in one for one in found) > 3
    assert sum("Distributed(prod" in one for one in found) == len(TABLES)
    for one in found:
        assert store.syntax_tree(one)


def test_a_cluster_has_a_plain_name() -> None:
    with pytest.raises(UsageError, match="letters"):
        list(statements("a; DROP", {}))


def test_every_table_and_every_setting_is_documented() -> None:
    page = (DOCS / "store.md").read_text()
    for table in TABLES.values():
        assert f"| {table.name} | {', '.join(table.column_names)} |" in page, table.name
    settings = (DOCS / "operations.md").read_text()
    for section in Config.__struct_fields__:
        inner = getattr(Config(), section)
        for name in getattr(inner, "__struct_fields__", ()):
            assert f"{section}.{name}" in settings, f"{section}.{name}"


def test_a_dsn_says_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTLIGHT_STORE_PASSWORD", "secret")
    place = parse_place("clickhouses://ann@db:9443/metrics?cluster=prod")
    server = place.server
    assert server is not None and server.is_secure and server.password == "secret"
    assert (server.host, server.port, server.database, server.cluster) == (
        "db", 9443, "metrics", "prod",
    )  # fmt: skip
    assert "secret" not in str(place)
    for wrong in ("mysql://x/y", "clickhouse://", "clickhouse://h:x/y", "clickhouse://h/d?a=1"):
        with pytest.raises(UsageError):
            parse_place(wrong)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense = 1", "nonsense"),
        ("[listen]\nport = 99999", "port"),
        ("[keep.days]\nstpes = 3", "no table stpes"),
        ("[alerts]\nleast_severity = 'loud'", "least_severity"),
        ("[listen]\ncertificate = '/none'", "belong together"),
        ("[captures", "Expected"),
        ("[watch]\nevery_s = inf", "watch.every_s"),
        ("[watch]\nprice_per_gpu_hour = inf", "price_per_gpu_hour"),
        ("[alerts]\nslack = 'http://'", "alerts.slack: not an address"),
        ("[alerts]\nwebhook = 'http://a b/'", "alerts.webhook: not an address"),
        ("[alerts]\nalertmanager = 'http://a:99999/'", "alerts.alertmanager: not an address"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "collector.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=reason):
        read_config(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[listen]\nprot = 1", "no setting listen.prot; docs/operations.md lists them"),
        ("lisen = 1", "no setting lisen; docs/operations.md lists them"),
        ("[listen]\nport = 'x'", "listen.port: Expected int, got str"),
        ("keep.days = { steps = -1 }", "keep.days.steps: from 0 (for ever) to 36500"),
        ("log.level = 'loud'", "log.level is debug, info, warning or error"),
        ("alerts.command = ['/none/mail']", "alerts.command: no program /none/mail"),
    ],
)
def test_what_is_wrong_begins_with_the_key_as_it_stands_in_the_file(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "collector.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_config(path)
    assert str(raised.value) == f"{path}: {said}"


def test_days_of_keeping_are_those_of_the_configuration_at_each_start(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path / "store"))
    Store(place).close()
    for _ in range(2):
        with Store(place, {"steps": 3, "windows": 0}) as store:
            kept = store.kept_days()
            assert (kept["steps"], kept["windows"], kept["names"]) == (3, 0, 430)
    with Store(place) as store:
        assert store.kept_days()["steps"] == 3, "a verb that only looks changes nothing"
    with Store(place, {"windows": 0}) as store:
        assert store.kept_days()["steps"] == TABLES["steps"].keep_days


def test_a_new_store_may_keep_a_table_for_ever(tmp_path: Path) -> None:
    with Store(parse_place(str(tmp_path / "store")), {"steps": 0}) as store:
        assert store.kept_days()["steps"] == 0


def test_an_insert_is_in_the_tables_when_it_is_done_and_is_known_by_its_token(store: Store) -> None:
    (found,) = store.select("SELECT getSetting('async_insert'), getSetting('insert_deduplicate')")
    assert tuple(map(int, found)) == (0, 1)


def test_tables_of_days_drop_whole_days_and_replicas_know_a_token_for_a_week() -> None:
    made = {one.split()[5]: one for one in statements("prod", {}) if "ReplicatedMergeTree" in one}
    assert "ttl_only_drop_parts = 1" in made["steps_local"]
    assert "ttl_only_drop_parts" not in made["losses_local"]
    assert all("replicated_deduplication_window_seconds = 604800" in one for one in made.values())
