"""Every query runs on the real engine, over data whose sums are known."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest
from tests.store.conftest import JOB, WINDOWS

from pilotlight.errors import NotFound, UsageError
from pilotlight.simulate.fleet import rank_steps
from pilotlight.store import queries
from pilotlight.store.queries import Reader, Span, last
from pilotlight.store.queries.detail import bucket_ns, quantile_ns
from pilotlight.store.queries.reader import HOUR_NS, bounded
from pilotlight.store.store import ShardDown, Store


def hour() -> Span:
    """Up to now: the tests may run long after they were collected."""
    return last(3_600 * 10**9)


@pytest.fixture
def reader(filled: Store) -> Reader:
    return Reader(filled)


def test_a_job_has_its_ranks_nodes_and_steps(reader: Reader) -> None:
    (row,) = queries.jobs(reader, hour())
    assert (row.job, row.state, row.nodes, row.ranks) == ("train-7b", "running", 2, 8)
    assert row.steps == 10 * WINDOWS
    assert row.busy_ratio is not None and 0.8 < row.busy_ratio < 0.87


def test_an_unknown_job_is_named_together_with_those_that_there_are(reader: Reader) -> None:
    with pytest.raises(NotFound, match="no job nothing; there are: train-7b"):
        queries.job(reader, "nothing")


def test_hours_add_up_to_the_time_of_the_ranks(reader: Reader) -> None:
    waste = queries.job(reader, "train-7b").waste
    whole = waste.busy_hours + sum(waste.wasted_hours.values())
    whole += waste.unknown_hours + waste.outside_hours
    assert whole == pytest.approx(waste.gpu_hours, rel=1e-6)
    assert set(waste.wasted_hours) == {"communication", "copy", "loader", "host"}


def test_quantiles_come_from_the_histogram_within_an_eighth(reader: Reader) -> None:
    (raw,) = reader.select(
        "SELECT quantileExact(0.5)(duration_ns) FROM steps WHERE tenant = 'default'"
    )
    found = queries.step_quantiles(reader, "train-7b")
    assert raw[0] / 1.125 <= found["p50"] <= raw[0] * 1.125


def test_no_quantile_is_beyond_the_shortest_or_the_longest_step(reader: Reader) -> None:
    ((least, most),) = reader.select(
        "SELECT min(duration_ns), max(duration_ns) FROM steps WHERE tenant = 'default'"
    )
    found = queries.step_quantiles(reader, "train-7b", (0.0, 0.5, 0.9, 0.999))
    told = list(found.values())
    assert int(least) <= told[0] <= told[1] <= told[2] <= told[3] <= int(most)


def test_a_quantile_lies_within_its_bucket_as_far_as_steps_are_counted() -> None:
    even = [(bucket, bucket_ns(bucket)[1] - bucket_ns(bucket)[0] + 1) for bucket in range(64, 72)]
    first, last_ns = bucket_ns(64)[0], bucket_ns(71)[1]
    for quantile in (0.01, 0.1, 0.5, 0.9, 0.99, 1.0):
        exact = first + quantile * (last_ns - first)
        assert quantile_ns(even, quantile) == pytest.approx(exact, rel=0.001)
    assert [bucket_ns(bucket) for bucket in (3, 8, 15, 16)] == [(3, 3), (8, 8), (15, 15), (16, 17)]


def test_rollups_of_every_level_have_the_same_sums_as_the_steps(reader: Reader) -> None:
    (raw,) = reader.select(
        "SELECT count(), sum(duration_ns), sum(compute_ns) FROM steps WHERE tenant = 'default'"
    )
    for table in (
        "steps_10s", "steps_5m", "steps_1h", "steps_1d", "job_steps_10s", "job_steps_5m",
        "job_steps_1h", "job_steps_1d", "job_totals",
    ):  # fmt: skip
        (rolled,) = reader.select(
            f"SELECT sum(s.count), sum(s.total_ns), sum(s.compute_ns) FROM {table} AS s "
            "WHERE tenant = 'default'"
        )
        assert rolled == raw, table


def test_steps_of_a_rank_are_those_that_its_agent_sent(reader: Reader, filled: Store) -> None:
    rows = queries.recent_steps(reader, "train-7b", hour(), rank=3, limit=5)
    assert [row.rank for row in rows] == [3] * 5
    newest = rows[0]
    end_ns = newest.start_ns + newest.duration_ns
    (expected,) = rank_steps(JOB, 3, end_ns, end_ns + 1)
    assert (newest.step, newest.start_ns, newest.duration_ns) == tuple(expected[:3])
    assert newest.parts_ns["compute"] == expected[3]


def test_the_series_of_a_job_and_of_a_rank_count_their_steps(reader: Reader) -> None:
    assert sum(queries.step_series(reader, "train-7b", hour()).count) == 8 * 10 * WINDOWS
    assert sum(queries.step_series(reader, "train-7b", hour(), rank=5).count) == 10 * WINDOWS


def test_few_points_give_a_coarser_level(reader: Reader) -> None:
    assert queries.step_series(reader, "train-7b", hour(), points=600).period_ns == 10 * 10**9
    assert queries.step_series(reader, "train-7b", hour(), points=100).period_ns == 300 * 10**9
    assert queries.step_series(reader, "train-7b", hour(), points=1).period_ns == 2 * 3600 * 10**9


def test_the_breakdown_adds_up_to_the_step_time(reader: Reader) -> None:
    found = queries.breakdown(reader, "train-7b", hour())
    sums = [sum(values) for values in zip(*found.parts_ns.values(), strict=True)]
    assert sums == found.total_ns and sums


def test_the_heatmap_has_a_cell_for_every_rank(reader: Reader) -> None:
    found = queries.step_heatmap(reader, "train-7b", hour())
    assert set(found.rank) == set(range(8)) and not found.is_cut
    few = queries.step_heatmap(reader, "train-7b", hour(), ranks=[2, 3])
    assert set(few.rank) == {2, 3}


def test_kernels_ranges_functions_have_names_and_shares(reader: Reader) -> None:
    kernels = queries.kernels(reader, "train-7b", hour())
    assert kernels[0].name.startswith("nvjet_tst_192x192_64x4_qkv_TNN")
    assert kernels[0].kind == "kernel"
    assert sum(one.ratio for one in kernels) == pytest.approx(1.0)
    assert {one.name for one in queries.ranges(reader, "train-7b", hour())} >= {
        "forward",
        "backward",
    }
    functions = {
        one.name.partition(":")[0] for one in queries.functions(reader, "train-7b", hour())
    }
    assert "Tensor.backward (torch/_tensor.py" in functions and len(functions) == 4


def test_stacks_of_one_rank_are_a_part_of_all(reader: Reader) -> None:
    whole = sum(one.total_ns for one in queries.stacks(reader, "train-7b", hour()))
    of_ranks = [
        sum(one.total_ns for one in queries.stacks(reader, "train-7b", hour(), rank=rank))
        for rank in range(8)
    ]
    assert sum(of_ranks) == whole and min(of_ranks) > 0


def test_device_time_stands_below_the_code_that_launched_it(reader: Reader) -> None:
    found = queries.device_stacks(reader, "train-7b", hour())
    (frames,) = (one.frames for one in found if one.frames[-1].startswith("nvjet_tst_192x192"))
    assert frames[:2] == ("main (llama/train.py:141)", "train (llama/train.py:88)")
    assert frames[-2] == "attn"
    assert {one.state for one in found} == {"kernel"}
    whole = sum(one.total_ns for one in found)
    by_rank = [
        sum(one.total_ns for one in queries.device_stacks(reader, "train-7b", hour(), rank=rank))
        for rank in range(8)
    ]
    assert sum(by_rank) == whole


def test_kernels_stand_alone_where_no_agent_told_their_launch(filled: Store) -> None:
    now_ns = time.time_ns()
    row = {"tenant": "old", "job": "old", "attempt": 0, "node": "n", "rank": 0, "kind": 5}
    row |= {"time_ns": now_ns, "state": 1, "name": 7, "count": 2, "total_ns": 30, "min_ns": 10}
    filled.insert_rows("windows", [{**row, "max_ns": 20}, {**row, "state": 4, "max_ns": 20}])
    name = {"tenant": "old", "id": 7, "kind": 1, "text": "gemm", "seen_ns": now_ns}
    filled.insert_rows("names", [name])
    for span in (hour(), Span(now_ns - 10**9, now_ns + 10**9)):
        (found,) = queries.device_stacks(Reader(filled, "old"), "old", span)
        assert (found.frames, found.state, found.total_ns) == (("gemm",), "kernel", 30)


@pytest.mark.parametrize("length_s", [3_600, 3 * 3_600])
def test_phases_and_what_none_covers_are_the_steps(reader: Reader, length_s: int) -> None:
    found = queries.phases(reader, "train-7b", last(length_s * 10**9))
    assert set(found.phases_ns) == {"forward", "backward", "optimizer", "data", "other"}
    sums = {name: sum(values) for name, values in found.phases_ns.items()}
    assert sums["backward"] > sums["forward"] > sums["optimizer"] > sums["data"] > 0
    assert sum(sums.values()) >= sum(found.total_ns) > 0
    assert queries.phases(reader, "nothing", hour()).time_ns == []


@pytest.mark.parametrize("off_ns", [-160_000, 95_000])
def test_phases_meet_their_steps_although_a_clock_was_corrected(filled: Store, off_ns: int) -> None:
    """Windows are a node's, moved to the collector's clock; steps are counted by round times."""
    tenant, now_ns = f"phases {off_ns}", time.time_ns() // 10**10 * 10**10 - 10**10
    row = {
        "tenant": tenant,
        "job": "j",
        "attempt": 0,
        "node": "n",
        "rank": 0,
        "kind": 1,
        "state": 3,
    }
    row |= {"time_ns": now_ns + off_ns, "name": 7, "count": 2, "total_ns": 30, "min_ns": 10}
    filled.insert_rows("windows", [{**row, "max_ns": 20}])
    name = {"tenant": tenant, "id": 7, "kind": 1, "text": "forward", "seen_ns": now_ns}
    filled.insert_rows("names", [name])
    steps = {"tenant": tenant, "job": "j", "attempt": 0, "time_ns": now_ns, "count": 2}
    filled.insert_rows("job_steps_10s", [{**steps, "total_ns": 50}])
    found = queries.phases(Reader(filled, tenant), "j", hour())
    assert found.phases_ns == {"forward": [30], "other": [20]}


def test_the_doctor_is_told_the_worst_first_and_only_what_was_seen_last(filled: Store) -> None:
    now_ns = time.time_ns()  # older rows would leave the table
    row = {"tenant": "ill", "agent": "a", "node": "n", "detail": "", "fix": "do", "seen_ns": now_ns}
    rows = [{"what": "clock", "state": "ok"}, {"what": "disk", "state": "broken"}]
    filled.insert_rows(
        "doctor", [{**row, "what": "gone", "state": "broken", "seen_ns": now_ns - 1}]
    )
    filled.insert_rows("doctor", [{**row, **each} for each in rows])
    found = queries.doctor(Reader(filled, "ill"))
    assert [(one.what, one.state) for one in found] == [("disk", "broken"), ("clock", "ok")]
    assert {one.agent for one in queries.doctor(Reader(filled, "other"))} == {"sim-train-7b-0"}


def test_collectives_tell_waiting_from_moving(reader: Reader) -> None:
    (row,) = queries.collectives(reader, "train-7b", hour())
    assert (row.operation, row.group, row.ranks) == ("all_reduce", "dp", 8)
    assert 0 < row.wait_ns < row.total_ns
    assert row.gigabytes_per_s == pytest.approx(row.bytes / (row.total_ns - row.wait_ns))


def test_collectives_that_tell_only_their_wait_have_no_rate(filled: Store) -> None:
    """DDP's reductions: what the backward does not hide of them is all waiting."""
    row = {
        "tenant": "ddp", "job": "j", "node": "n", "rank": 0, "time_ns": hour().to_ns - HOUR_NS // 2,
        "operation": "ddp.all_reduce", "group": "0", "count": 9, "total_ns": 500, "wait_ns": 500,
        "bytes": 1 << 20, "max_ns": 90,
    }  # fmt: skip
    filled.insert_rows("collectives", [row])
    (found,) = queries.collectives(Reader(filled, "ddp"), "j", hour())
    assert found.bytes == 1 << 20 and found.gigabytes_per_s is None


def test_machines_and_counters(reader: Reader) -> None:
    nodes = queries.nodes(reader, hour())
    assert [(node.node, node.gpus, node.ranks) for node in nodes] == [
        ("node0000", 4, 4),
        ("node0001", 4, 4),
    ]
    assert "gpu.power_w" in {one.name for one in queries.counter_names(reader, hour())}
    series = queries.counters(reader, "gpu.sm_clock_mhz", hour(), node="node0001")
    assert len(series) == 4 and set(series[0].mean) == {1980.0}
    assert len(queries.agents(reader)) == 2


def test_of_more_gpus_than_asked_for_the_rank_that_is_named_is_told_whole(reader: Reader) -> None:
    whole = queries.counters(reader, "gpu.power_w", hour(), job="train-7b")
    few = queries.counters(reader, "gpu.power_w", hour(), job="train-7b", limit=3, rank=6)
    assert len(whole) == 8 and len(few) == 3
    assert 6 in {one.rank for one in few}
    assert all(one in whole for one in few)


def test_an_agent_without_a_job_may_be_silent_for_longer(filled: Store) -> None:
    """It sends once a minute."""
    now_ns = time.time_ns()
    agent = {"tenant": "idle", "node": "n", "seen_ns": now_ns - 61 * 10**9}
    for name, jobs in (("busy", ["train"]), ("idle", [])):
        filled.insert_rows("agents", [{**agent, "agent": name, "jobs": jobs}])
    states = {one.agent: one.state for one in queries.agents(Reader(filled, "idle"))}
    assert states == {"busy": "silent", "idle": "up"}


def test_a_tenant_sees_its_own_rows_alone(filled: Store) -> None:
    other = Reader(filled, "other")
    (row,) = queries.jobs(other, hour())
    assert row.ranks == 1
    assert [one.rank for one in queries.ranks(other, "train-7b", hour())] == [0]
    assert len(queries.agents(other)) == 1
    assert queries.jobs(Reader(filled, "nobody"), hour()) == []
    assert queries.findings(other) == [] and queries.captures(other) == []


@pytest.mark.parametrize("value", ["longest", "wait"])
@pytest.mark.parametrize("columns", [120, 13, 1])
def test_the_map_has_the_steps_of_every_rank(reader: Reader, value: str, columns: int) -> None:
    """120 steps: one a column, blocks of four in columns of ten, blocks of 64 in one column."""
    detail = queries.job(reader, "train-7b")
    first, last_step = detail.first_step, detail.last_step + 1
    found = queries.step_map(reader, "train-7b", 0, value, first, last_step, columns)
    assert found.cells.shape == (8, columns) and found.block <= found.width
    rows = reader.select(
        "SELECT rank, max(duration_ns), avg(wait_ns), sum(wait_ns) FROM steps "
        "WHERE tenant = 'default' GROUP BY rank ORDER BY rank"
    )
    for rank, longest, mean, _ in rows:
        known = found.cells[rank][~np.isnan(found.cells[rank])]
        if value == "longest":
            assert known.max() == pytest.approx(longest, rel=1e-6)
        else:
            assert known.mean() == pytest.approx(mean, rel=0.05)


def test_a_map_of_a_part_reads_that_part_alone(reader: Reader) -> None:
    detail = queries.job(reader, "train-7b")
    found = queries.step_map(
        reader, "train-7b", 0, "longest", detail.first_step + 3, detail.first_step + 8, 5
    )
    (rows,) = reader.select(
        "SELECT groupArray(duration_ns) FROM (SELECT duration_ns FROM steps WHERE rank = 2 "
        "AND tenant = 'default' AND step >= {a:Int64} AND step < {b:Int64} ORDER BY step)",
        a=detail.first_step + 3,
        b=detail.first_step + 8,
    )
    assert found.cells[2].tolist() == pytest.approx(list(rows[0]), rel=1e-6)


def test_a_map_of_nothing_is_empty_and_a_wrong_one_is_refused(reader: Reader) -> None:
    assert queries.step_map(reader, "nothing", 0, "wait", 0, 9, 3).cells.shape == (0, 3)
    for wrong in (("wait", 5, 5, 3), ("wait", 0, 9, 0), ("height", 0, 9, 3)):
        with pytest.raises(UsageError):
            queries.step_map(reader, "train-7b", 0, *wrong)


def test_costs_are_those_of_the_process_with_the_most(filled: Store) -> None:
    now_ns = time.time_ns()
    row = {"tenant": "dear", "agent": "a", "job": "j", "tier": "records", "seen_ns": now_ns}
    row |= {"launches_ratio": 1.0, "spent_ratio": 0.004, "rate_hz": 100.0}
    nan = float("nan")
    filled.insert_rows(
        "costs",
        [
            {**row, "rank": rank, "process": rank, "records_ratio": part, "sampler_ratio": own,
             "overhead_low": low, "overhead_high": high}
            for rank, part, own, low, high in (
                (0, 0.1, 0.005, 0.001, 0.003),
                (1, 0.3, nan, 0.002, 0.006),
                (2, 0.2, 0.004, nan, nan),
            )
        ],
    )  # fmt: skip
    filled.insert_rows("costs", [{**row, "rank": 9, "process": 9, "seen_ns": now_ns - 10**12}])
    budget = {"cpu_ceiling_ratio": 0.02, "memory_ceiling_bytes": 1 << 27, "level": 2}
    filled.insert_rows("budgets", [{"tenant": "dear", "agent": "a", "seen_ns": now_ns, **budget}])
    (found,) = queries.agent_costs(Reader(filled, "dear", now_ns))
    assert (found.cpu_ceiling_ratio, found.memory_ceiling_bytes, found.level) == (0.02, 1 << 27, 2)
    cost = found.cost
    assert (cost.processes, cost.measured, cost.tiers) == (3, 2, ("records",))
    assert (cost.overhead_low, cost.overhead_high) == (0.002, 0.006)
    assert (cost.sampler_ratio, cost.records_ratio) == pytest.approx((0.005, 0.2))
    assert queries.job_cost(Reader(filled, "dear", now_ns), "j") == cost
    nothing = queries.job_cost(Reader(filled, "dear", now_ns), "other")
    assert (nothing.processes, nothing.overhead_high) == (0, None)


def test_a_trend_has_the_means_and_the_parts_of_the_steps(reader: Reader) -> None:
    (trend,) = queries.trends(reader, hour(), 24).values()
    (raw,) = reader.select(
        "SELECT avg(duration_ns), sum(duration_ns), sum(compute_ns) FROM steps "
        "WHERE tenant = 'default'"
    )
    known = [value for value in trend.mean_ns if value is not None]
    # No point is shorter than the five minutes of a window; the edges are rounded to whole ones.
    assert 12 <= len(trend.mean_ns) <= 14 and known
    assert sum(known) / len(known) == pytest.approx(raw[0], rel=0.02)
    assert (trend.total_ns, trend.parts_ns["compute"]) == (raw[1], raw[2])


def test_the_engine_skips_the_stretches_of_time_that_nobody_asked_for(reader: Reader) -> None:
    for table, column, stretch in (
        ("steps", "start_ns", "intDiv(start_ns, 60000000000)"),
        ("counters", "time_ns", "intDiv(time_ns, 3600000000000)"),
        ("counters_5m", "time_ns", "intDiv(time_ns, 86400000000000)"),
    ):
        span = hour()
        plan = reader.select(
            f"EXPLAIN indexes = 1 SELECT sum(rank) FROM {table} WHERE tenant = {{tenant:String}} "
            f"AND {bounded(table, column)}",
            from_ns=span.from_ns,
            to_ns=span.to_ns,
        )
        lines = [row[0].strip() for row in plan]
        keys = lines[lines.index("PrimaryKey") :]
        assert stretch in keys[: next(n for n, line in enumerate(keys) if "Condition" in line)]


def test_the_newest_counters_of_every_gpu_are_at_hand(reader: Reader) -> None:
    found = queries.gpus_now(reader, hour().to_ns)
    assert [(gpu.node, gpu.gpu) for gpu in found] == [
        (f"node{node:04d}", gpu) for node in range(2) for gpu in range(4)
    ]
    (newest,) = reader.select(
        "SELECT argMax(sum / count, time_ns) FROM counters WHERE node = 'node0001' AND gpu = 3 "
        "AND name = 'gpu.power_w' AND tenant = 'default'"
    )
    assert found[-1].counters["gpu.power_w"] == pytest.approx(newest[0])


def test_a_shard_that_is_down_makes_the_answer_partial(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two shards of the real engine: itself, and an address at which nobody listens."""
    monkeypatch.setattr(Store, "is_distributed", True)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        shards = f"127.0.0.1,127.0.0.1:{nobody.getsockname()[1]}"
        counted = f"SELECT count() FROM remote('{shards}', 'default', 'steps') WHERE tenant = "
        counted += "{tenant:String}"
        with pytest.raises(ShardDown):
            filled.select(counted, {"tenant": "default"}, {"skip_unavailable_shards": 0})
        reader = Reader(filled)
        assert reader.select(counted) == [(8 * 10 * WINDOWS,)]
        assert reader.is_partial
        assert reader.select_arrow(counted).num_rows == 1


def test_a_launcher_is_no_rank_once_its_ranks_are_there(filled: Store) -> None:
    """Its first batch told it as the only process of the job."""
    now_ns = time.time_ns()
    who = {"tenant": "default", "job": "launched", "attempt": 0, "node": "n", "updated_ns": now_ns}
    rows = [("main", 0, 0), ("launcher", -1, 0), ("rank", 0, 1), ("rank", 1, 2)]
    for role, rank, process in rows:
        filled.insert_rows("ranks", [{**who, "role": role, "rank": rank, "process": process}])
    found = queries.ranks(Reader(filled), "launched", hour())
    assert [(one.role, one.rank) for one in found] == [("rank", 0), ("rank", 1)]


def test_the_launcher_of_a_node_without_rank_0_is_counted_nowhere(filled: Store) -> None:
    """It was told as rank 0 at first, for a while and an hour before the ranks came."""
    now_ns = time.time_ns()
    who = {"tenant": "default", "job": "second", "attempt": 0, "node": "n1", "updated_ns": now_ns}
    filled.insert_rows(
        "jobs",
        [{**who, "started_ns": now_ns - 2 * HOUR_NS, "state": "running", "command": "torchrun"}],
    )
    for role, rank, process, began_h in [
        ("main", 0, 0, 2),
        ("launcher", -1, 0, 2),
        ("rank", 2, 1, 1),
        ("rank", 3, 2, 1),
    ]:
        place = {"role": role, "rank": rank, "process": process, "gpu": -1}
        filled.insert_rows("ranks", [{**who, **place, "started_ns": now_ns - began_h * HOUR_NS}])
    row = queries.job(Reader(filled), "second").row
    assert (row.ranks, round(row.gpu_hours, 3), row.has_gpus) == (2, 2.0, False)
    day = Span(now_ns - 24 * HOUR_NS, now_ns + HOUR_NS)
    (listed,) = (one for one in queries.jobs(Reader(filled), day) if one.job == "second")
    assert (listed.ranks, round(listed.gpu_hours, 3), listed.has_gpus) == (2, 2.0, False)


def _restarted(store: Store, tenant: str, began_ns: tuple[int, int]) -> Reader:
    """The only job of a tenant, in two attempts of one rank: 30 steps of 3 s, then 60 of 1 s."""
    for attempt, (start_ns, count, step_ns) in enumerate(
        [(began_ns[0], 30, 3 * 10**9), (began_ns[1], 60, 10**9)]
    ):
        who = {"tenant": tenant, "job": "again", "attempt": attempt, "node": "n"}
        end_ns = start_ns + count * step_ns
        times = {"started_ns": start_ns, "updated_ns": end_ns, "ended_ns": end_ns}
        store.insert_rows("jobs", [{**who, **times, "state": "finished", "command": "x"}])
        store.insert_rows("ranks", [{**who, **times, "rank": 0, "role": "rank", "gpu": -1}])
        steps = [
            {**who, "rank": 0, "step": n, "start_ns": start_ns + n * step_ns} for n in range(count)
        ]
        store.insert_rows("steps", [{**one, "duration_ns": step_ns} for one in steps])
    return Reader(store, tenant)


def test_ranks_have_the_steps_of_their_own_attempt_alone(filled: Store) -> None:
    now_ns = time.time_ns()
    reader = _restarted(filled, "ranks", (now_ns - 600 * 10**9, now_ns - 120 * 10**9))
    for attempt, steps, step_ns in ((None, 60, 10**9), (1, 60, 10**9), (0, 30, 3 * 10**9)):
        (row,) = queries.ranks(reader, "again", hour(), attempt)
        assert (row.steps, row.step_ns, row.slowest_ns) == (steps, step_ns, step_ns)


def test_a_job_with_news_is_listed_with_its_attempts_of_long_ago(filled: Store) -> None:
    now_ns = time.time_ns()
    began_ns = now_ns - 30 * HOUR_NS
    reader = _restarted(filled, "listed", (began_ns, now_ns - 120 * 10**9))
    (listed,) = queries.jobs(reader, hour())
    assert listed == queries.job(reader, "again").row
    assert (listed.attempts, listed.started_ns, listed.steps) == (2, began_ns, 90)
    assert not queries.jobs(reader, Span(0, began_ns))


@pytest.mark.parametrize("days", [1, 5, 20, 90])
def test_a_short_job_of_long_ago_is_told_from_what_is_still_kept_of_it(
    filled: Store, days: int
) -> None:
    """Fine windows are kept for days, coarse ones for months."""
    began_ns = time.time_ns() - days * 24 * HOUR_NS
    reader = _restarted(filled, f"days{days}", (began_ns, began_ns + 300 * 10**9))
    for kept in ("steps", "steps_10s", "job_steps_10s"):
        filled.command(f"OPTIMIZE TABLE {kept} FINAL")
    span = Span(began_ns, began_ns + 360 * 10**9)
    assert sum(queries.step_series(reader, "again", span).count) == 90
    assert sum(queries.step_series(reader, "again", span, rank=0).count) == 90
    assert sum(queries.breakdown(reader, "again", span).total_ns) == 150 * 10**9
    assert queries.step_heatmap(reader, "again", span).mean_ns
    assert queries.ranks(reader, "again", span)[0].steps == 60


def test_what_took_the_time_long_ago_is_told_from_what_is_still_kept_of_it(filled: Store) -> None:
    then_ns = time.time_ns() - 20 * 24 * HOUR_NS
    who = {"tenant": "past", "job": "old", "attempt": 0, "node": "n", "time_ns": then_ns}
    window = {**who, "rank": 0, "kind": 5, "state": 1, "name": 7, "count": 2, "total_ns": 30}
    filled.insert_rows("windows", [{**window, "min_ns": 10, "max_ns": 20}])
    sums = {"operation": "all_reduce", "group": "g", "count": 2, "total_ns": 30, "bytes": 0}
    filled.insert_rows("collectives", [{**who, "rank": 0, **sums, "size": 2, "max_ns": 20}])
    counter = {**who, "rank": 0, "gpu": 0, "name": "gpu.power_w", "count": 2, "sum": 9.0}
    filled.insert_rows("counters", [{**counter, "min": 4.0, "max": 5.0, "last": 5.0}])
    for kept in ("windows", "collectives", "counters"):
        filled.command(f"OPTIMIZE TABLE {kept} FINAL")
    reader, span = Reader(filled, "past"), Span(then_ns - 10**9, then_ns + 60 * 10**9)
    assert [one.total_ns for one in queries.kernels(reader, "old", span)] == [30]
    assert [one.total_ns for one in queries.collectives(reader, "old", span)] == [30]
    assert [one.mean for one in queries.counters(reader, "gpu.power_w", span)] == [[4.5]]
