"""A store on a server: clickhouse-connect speaks HTTP, the real engine answers (server.py)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.conftest import fill
from tests.store.test_sandbox import PRYING

from pilotlight.cli.main import main
from pilotlight.errors import StoreError, UsageError
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store import queries
from pilotlight.store.batch import Clock, decode
from pilotlight.store.ddl import local_name
from pilotlight.store.place import StorePlace, parse_place
from pilotlight.store.queries import Reader, last
from pilotlight.store.sandbox import query
from pilotlight.store.store import Passing, Store
from pilotlight.store.transfer import stats
from pilotlight.store.writer import Writer

JOB = FleetJob("train", 1, 2)
PASSWORD = "pass word"


class RunningServer:
    """Starts it, kills it, starts it again on the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.port = 0

    def start(self, dead_shard: str = "", port: int = 0) -> None:
        words = [sys.executable, "-m", "tests.store.server"]
        self.process = subprocess.Popen(
            [*words, str(self._folder), PASSWORD, dead_shard, str(port)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PILOTLIGHT": "0"},
        )
        assert self.process.stdout is not None
        self.port = json.loads(self.process.stdout.readline())["port"]

    def kill(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def place(self, folder: Path, options: str = "") -> StorePlace:
        return parse_place(f"clickhouse://default@127.0.0.1:{self.port}/fleet{options}", folder)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    monkeypatch.setenv("PILOTLIGHT_STORE_PASSWORD", PASSWORD)
    started = RunningServer(tmp_path / "server")
    started.start()
    yield started
    if started.process is not None and started.process.poll() is None:
        started.kill()


def test_a_server_answers_as_the_embedded_store_it_was_copied_from(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span = last(10**15)
    with Store(parse_place(str(tmp_path / "one"))) as store:
        fill(store, JOB, 3)
        before = _answers(Reader(store, now_ns=1), span)
    dsn = f"clickhouse://default@127.0.0.1:{server.port}/fleet"
    assert main(["store", "copy", str(tmp_path / "one"), dsn]) == 0, capsys.readouterr().err
    with Store(server.place(tmp_path / "folder")) as store:
        assert _answers(Reader(store, now_ns=1), span) == before
        fill(store, FleetJob("later", 1, 1), 2)
        assert len(queries.jobs(Reader(store), last(10**15))) == 2


def _answers(reader: Reader, span: queries.Span) -> list[object]:
    return [
        queries.jobs(reader, span),
        queries.job(reader, "train"),
        queries.ranks(reader, "train", span),
        queries.step_series(reader, "train", span),
        queries.kernels(reader, "train", span),
        queries.collectives(reader, "train", span),
        queries.nodes(reader, span),
    ]


def test_a_cluster_takes_rows_once_keeps_tenants_apart_and_says_when_a_shard_is_down(
    server: RunningServer, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    with Store(server.place(folder, "?cluster=prod")) as store:
        fill(store, JOB, 3)
        fill(store, JOB, 2, tenant="other")
        assert {one.table: one.rows for one in stats(store)}["steps"] == 100
        reader = Reader(store)
        assert queries.job(reader, "train").row.ranks == 2
        assert not reader.is_partial
        assert query(store, "other", "SELECT tenant, count() FROM steps GROUP BY tenant").rows == [
            ("other", 40)
        ]
        cut = query(store, "default", "SELECT step FROM steps", 5)
        assert len(cut.rows) == 5 and cut.is_cut and not cut.is_partial
        for sql in ("SELECT * FROM steps_local", "SELECT * FROM url('http://x/', 'TSV')"):
            with pytest.raises(UsageError):
                query(store, "other", sql)
    server.kill()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        server.start(dead_shard=str(nobody.getsockname()[1]))
        with Store(server.place(folder, "?cluster=prod")) as store:
            reader = Reader(store)
            assert queries.job(reader, "train").row.ranks == 2
            assert reader.is_partial
            asked = query(store, "other", "SELECT count() FROM steps")
            assert asked.is_partial and asked.rows == [(40,)]
            # What a dead shard should have waits for it: it is neither lost nor kept aside.
            with pytest.raises(Passing):
                fill_rows(store, 200)


@pytest.mark.parametrize("options", ["", "?cluster=prod"])
def test_nothing_that_a_tenant_asks_of_a_server_is_reckoned_of_rows_of_others(
    server: RunningServer, tmp_path: Path, options: str
) -> None:
    with Store(server.place(tmp_path / "folder", options)) as store:
        fill(store, JOB, 2)
        fill(store, FleetJob("train", 1, 1), 2, tenant="other")
        for table in ("steps", "ranks"):
            store.command(f"OPTIMIZE TABLE {local_name(table, options[9:])} FINAL")
        for sql in PRYING:
            assert query(store, "other", sql).rows, sql


def fill_rows(store: Store, ranks: int) -> None:
    """So many that both shards get some."""
    from pilotlight.store.rows import arrow_tables

    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    body = SimulatedAgent(FleetJob("wide", 1, ranks), 0, 1).batch(now_ns - WINDOW_NS, now_ns)
    tables = arrow_tables([decode("default", body, Clock(), now_ns)])
    store.insert("steps", tables["steps"], "wide/steps")


def test_what_was_acknowledged_is_there_once_though_the_server_is_killed_again_and_again(
    server: RunningServer, tmp_path: Path
) -> None:
    first_ns = time.time_ns() // WINDOW_NS * WINDOW_NS - 30 * WINDOW_NS
    agent = SimulatedAgent(JOB, 0, first_ns)
    with Store(server.place(tmp_path / "folder")) as store:
        writer = Writer(store)
        for number in range(30):
            begin_ns = first_ns + number * WINDOW_NS
            body = agent.batch(begin_ns, begin_ns + WINDOW_NS)
            writer.submit(body, decode("default", body, Clock(), time.time_ns())).result(60)
            if number % 10 == 5:
                # Some of it is in the tables, some is being inserted, some waits.
                time.sleep(number / 10)
                server.kill()
                server.start(port=server.port)
        assert writer.flush(120)
        writer.close()
        assert writer.taken.aside == 0 and writer.taken.inserted_batches == 30
        assert store.select("SELECT count(), uniqExact(sequence) FROM batches") == [(30, 30)]
        assert store.select("SELECT count() FROM steps") == [(600,)]
        for rollup in ("steps_1d", "job_totals", "step_histogram_1d"):
            assert store.select(f"SELECT sum(s.count) FROM {rollup} AS s") == [(600,)], rollup


def test_a_server_that_is_away_or_refuses_is_named(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_STORE_PASSWORD", "wrong")
    with pytest.raises(StoreError, match="Authentication failed"):
        Store(server.place(tmp_path / "folder"))
    server.kill()
    with pytest.raises(Passing, match=r"127\.0\.0\.1"):
        Store(server.place(tmp_path / "folder"))


def test_a_server_that_is_not_there_is_said_in_a_few_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    place = parse_place(f"clickhouse://default@127.0.0.1:{port}/fleet", tmp_path)
    with pytest.raises(Passing) as said:
        Store(place)
    assert str(said.value) == f"no ClickHouse server at 127.0.0.1:{port} (Connection refused)"
