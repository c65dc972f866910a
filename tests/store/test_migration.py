"""A store that an earlier pilotlight made, opened by this one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.conftest import fill

from pilotlight.simulate.fleet import FleetJob
from pilotlight.store import ddl, queries
from pilotlight.store.migration import filled_since, without_rollups
from pilotlight.store.place import StorePlace, parse_place
from pilotlight.store.queries import Reader, last
from pilotlight.store.schema import TABLES
from pilotlight.store.store import Store

# What version 1 had instead: its orders, and none of the rollups that came after.
_ORDERS = {
    "steps": ("tenant", "job", "rank", "start_ns"),
    "counters": ("tenant", "node", "gpu", "name", "time_ns", "job", "rank"),
    "counters_5m": ("tenant", "node", "gpu", "name", "time_ns", "job", "rank", "attempt"),
}
JOB = FleetJob("job", 1, 2)


def made_old(place: StorePlace) -> dict[str, object]:
    """Turns a store into one of version 1; what it has to answer afterwards."""
    with Store(place) as store:
        fill(store, JOB, 3)
        before = answers(store)
        for statement in without_rollups(""):
            store.command(statement)
        for name in filled_since(1):
            store.command(f"DROP TABLE {name}")
        for name, order in _ORDERS.items():
            (created,) = ddl.create_table(TABLES[name], "")
            head, _, tail = created.partition(" ORDER BY (")
            tail = tail[tail.index(" TTL") :]
            store.command(f"RENAME TABLE {name} TO {name}_new")
            store.command(f"{head} ORDER BY ({', '.join(order)}){tail}")
            store.command(f"INSERT INTO {name} SELECT * FROM {name}_new")
            store.command(f"DROP TABLE {name}_new")
        store.command("TRUNCATE TABLE schema_version")
        store.command("INSERT INTO schema_version VALUES (1, 1)")
    return before


def answers(store: Store) -> dict[str, object]:
    reader = Reader(store, now_ns=1)
    whole = last(10**15)
    detail = queries.job(reader, "job")
    return {
        "jobs": queries.jobs(reader, whole),
        "waste": detail.waste,
        "steps": (detail.first_step, detail.last_step),
        "quantiles": detail.quantiles_ns,
        "map": queries.step_map(reader, "job", 0, "wait", detail.first_step,
                                detail.last_step + 1, 7).cells.tobytes(),
        "trends": queries.trends(reader, whole, 24),
        "counters": store.select("SELECT name, sum(c.sum) FROM counters_5m AS c GROUP BY name "
                                 "ORDER BY name"),
        "longest": store.select("SELECT step, max(s.max_ns) FROM longest_steps AS s GROUP BY step "
                                "ORDER BY step"),
        "latest": store.select("SELECT * FROM counters_latest FINAL ORDER BY ALL"),
    }  # fmt: skip


def test_an_old_store_keeps_its_rows_and_answers_as_before(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path / "store"))
    before = made_old(place)
    said: list[str] = []
    with Store(place, progress=said.append) as store:
        assert answers(store) == before
        assert "laying out steps anew" in said
        # The rollups go on: what comes now is added once.
        fill(store, FleetJob("later", 1, 1), 2)
        ((raw,),) = store.select("SELECT count() FROM steps")
        for rollup in ("steps_1d", "job_steps_1d", "job_totals", "steps_x4096"):
            assert store.select(f"SELECT sum(s.count) FROM {rollup} AS s") == [(raw,)]
        assert not store.select("SELECT name FROM system.tables WHERE name LIKE '%before%'")
    said.clear()
    Store(place, progress=said.append).close()
    assert said == []


def test_a_migration_that_was_killed_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = parse_place(str(tmp_path / "store"))
    before = made_old(place)
    whole = Store.command
    for survived in (*range(24, 44, 3), 56, 80):
        left = [survived]

        def killed(store: Store, sql: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            whole(store, sql)

        monkeypatch.setattr(Store, "command", killed)
        with pytest.raises(KeyboardInterrupt):
            Store(place)
    monkeypatch.setattr(Store, "command", whole)
    with Store(place) as store:
        assert answers(store) == before


def test_a_table_that_came_without_a_new_version_is_made(tmp_path: Path) -> None:
    place = parse_place(str(tmp_path))
    with Store(place) as store:
        store.command("DROP TABLE doctor")
    with Store(place) as store:
        assert store.select("SELECT count() FROM doctor") == [(0,)]
