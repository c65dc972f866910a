"""Backup, restore and sizes, on the real engine."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.store.conftest import fill

from pilotlight.cli.main import main
from pilotlight.errors import FormatError, UsageError
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store import queries
from pilotlight.store.place import parse_place
from pilotlight.store.queries import Reader, last
from pilotlight.store.spool import Entry, Segment, segments
from pilotlight.store.store import Store
from pilotlight.store.transfer import backup, restore, stats


def counts(store: Store) -> dict[str, int]:
    return {
        name: store.select(f"SELECT count() FROM {name}")[0][0] for name in ("steps", "batches")
    }


def test_a_restored_store_answers_as_the_first_one_did(tmp_path: Path) -> None:
    with Store(parse_place(str(tmp_path / "one"))) as store:
        fill(store, FleetJob("job", 1, 2), 3)
        before, jobs = counts(store), queries.jobs(Reader(store, now_ns=1), last(10**15))
        assert backup(store, tmp_path / "backup", lambda table: None) > 0
    with Store(parse_place(str(tmp_path / "two"))) as store:
        restore(tmp_path / "backup", store, lambda table: None)
        assert counts(store) == before
        assert queries.jobs(Reader(store, now_ns=1), last(10**15)) == jobs
        with pytest.raises(UsageError, match="has rows already"):
            restore(tmp_path / "backup", store, lambda table: None)
        # The engine goes on adding up what comes after.
        fill(store, FleetJob("later", 1, 1), 2)
        ((raw,),) = store.select("SELECT count() FROM steps")
        ((rolled,),) = store.select("SELECT sum(s.count) FROM steps_1d AS s")
        assert raw == rolled == before["steps"] + 20


def test_what_is_kept_longer_than_usual_is_there_in_the_restored_store(tmp_path: Path) -> None:
    with Store(parse_place(str(tmp_path / "one")), {"steps": 365}) as store:
        # A step a day: more days than a block may have without being told so.
        store.command(
            "INSERT INTO steps (job, start_ns, duration_ns) SELECT 'job', "
            "toUnixTimestamp64Nano(now64(9)) - number * 86400000000000, 1 FROM numbers(200) "
            "SETTINGS max_partitions_per_insert_block = 0"
        )
        backup(store, tmp_path / "backup", lambda table: None)
    with Store(parse_place(str(tmp_path / "two"))) as store:
        restore(tmp_path / "backup", store, lambda table: None)
        store.command("OPTIMIZE TABLE steps FINAL")
        assert store.select("SELECT count() FROM steps") == [(200,)]
        assert store.kept_days()["steps"] == 365


def test_a_backup_with_days_that_are_none_is_refused(tmp_path: Path) -> None:
    with Store(parse_place(str(tmp_path / "one"))) as store:
        backup(store, tmp_path / "backup", lambda table: None)
    manifest = tmp_path / "backup" / "backup.json"
    manifest.write_text(
        json.dumps({**json.loads(manifest.read_text()), "keep_days": {"steps": -1}})
    )
    with (
        Store(parse_place(str(tmp_path / "two"))) as store,
        pytest.raises(FormatError, match="keep_days"),
    ):
        restore(tmp_path / "backup", store, lambda table: None)


def test_sizes_are_told_by_table(store: Store) -> None:
    fill(store, FleetJob("job", 1, 2), 2)
    found = {one.table: one for one in stats(store)}
    assert found["steps"].rows == 40 and found["steps"].bytes > 0
    assert found["steps"].oldest_ns <= found["steps"].newest_ns


def test_the_verb_tells_sizes_and_refuses_what_is_no_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = str(tmp_path / "one")
    with Store(parse_place(one)) as store:
        fill(store, FleetJob("job", 1, 1), 1)
    assert main(["store", "stats", "--store", one]) == 0
    assert "steps " in capsys.readouterr().out
    assert main(["store", "backup", "--store", one]) == 2
    assert main(["store", "restore", str(tmp_path), "--store", one]) == 2


def test_a_backup_has_what_a_killed_collector_had_acknowledged(tmp_path: Path) -> None:
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    body = SimulatedAgent(FleetJob("job", 1, 2), 0, 1).batch(now_ns - WINDOW_NS, now_ns)
    with Store(parse_place(str(tmp_path / "one"))) as store:
        store.place.spool.mkdir()
        segment = Segment(store.place.spool)
        segment.append([Entry("default", now_ns, 0, 0, body)])
        segment.close()
        backup(store, tmp_path / "backup", lambda table: None)
        assert not segments(store.place.spool)
    with Store(parse_place(str(tmp_path / "two"))) as store:
        restore(tmp_path / "backup", store, lambda table: None)
        assert counts(store) == {"steps": 20, "batches": 1}


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "--store", "{none}"),
        ("backup", "{folder}", "--store", "{none}"),
        ("copy", "{none}", "{folder}"),
    ],
)
def test_a_folder_without_a_store_is_named_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    places = {"none": tmp_path / "none", "folder": tmp_path / "folder"}
    assert main(["store", *(word.format(**places) for word in words)]) == 2
    assert f"{places['none']}: no store there" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
