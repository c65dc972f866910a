from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError, NotFound
from pilotlight.trace.flight_recorder import read_dumps
from pilotlight.trace.plain_pickle import load_plain

ENTRY = {
    "pg_id": 5,
    "process_group": ("35", "TP"),
    "collective_seq_id": 8,
    "p2p_seq_id": 0,
    "profiling_name": "nccl:all_reduce",
    "state": "scheduled",
    "retired": False,
    "is_p2p": False,
}
DUMP = {
    "version": "2.9",
    "pg_config": {
        "0": {"name": "0", "desc": "world", "ranks": "[0, 1]"},
        "35": {"name": "35", "desc": "TP", "ranks": "[0, 1]"},
    },
    "pg_status": {
        "0": {"last_enqueued_collective": 3, "last_completed_collective": 3},
        "5": {"last_enqueued_collective": 8, "last_completed_collective": 7},
    },
    "entries": [ENTRY],
}


def write(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_bytes(pickle.dumps(value, protocol=2))


def test_a_dump_gives_its_groups_by_name_and_its_pending_operations(tmp_path: Path) -> None:
    write(tmp_path, "_dump_7", DUMP)
    (dump,) = read_dumps(tmp_path).dumps
    assert dump.rank == 7
    assert (dump.groups["35"].enqueued, dump.groups["35"].completed) == (8, 7)
    assert [operation.sequence for operation in dump.pending] == [8]


def test_groups_without_entries_are_named_by_their_order(tmp_path: Path) -> None:
    write(tmp_path, "_dump_0", {**DUMP, "entries": []})
    (dump,) = read_dumps(tmp_path).dumps
    assert dump.groups["35"].enqueued == 8


def test_finished_operations_are_not_pending(tmp_path: Path) -> None:
    write(tmp_path, "_dump_0", {**DUMP, "entries": [{**ENTRY, "state": "completed"}]})
    assert read_dumps(tmp_path).dumps[0].pending == ()


def test_a_dump_without_a_status_counts_its_entries(tmp_path: Path) -> None:
    done = {**ENTRY, "collective_seq_id": 7, "state": "completed"}
    write(tmp_path, "_dump_0", {**DUMP, "pg_status": {}, "entries": [done, ENTRY]})
    group = read_dumps(tmp_path).dumps[0].groups["35"]
    assert (group.enqueued, group.completed, group.ranks) == (8, 7, (0, 1))


def test_an_old_dump_with_numbered_groups_is_read(tmp_path: Path) -> None:
    entry = {"pg_id": 0, "seq_id": 4, "profiling_name": "nccl:all_reduce", "state": "scheduled"}
    write(tmp_path, "_dump_0", {"version": "1.1", "pg_config": {}, "entries": [entry]})
    (dump,) = read_dumps(tmp_path).dumps
    assert [(operation.group, operation.sequence) for operation in dump.pending] == [("0", 4)]


class _Attack:
    def __reduce__(self) -> Any:
        return os.system, ("echo attacked",)


@pytest.mark.parametrize("value", [_Attack(), collections.OrderedDict(), {"x": _Attack()}, {1, 2}])
def test_a_pickle_with_classes_is_refused_with_its_place(tmp_path: Path, value: Any) -> None:
    write(tmp_path, "_dump_0", value)
    write(tmp_path, "_dump_1", DUMP)
    found = read_dumps(tmp_path)
    assert [dump.rank for dump in found.dumps] == [1]
    assert "_dump_0: byte " in str(found.problems[0])
    assert "more than plain data" in str(found.problems[0])


def test_a_wild_memo_index_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(FormatError, match="wild memo"):
        load_plain(b"\x80\x02}r\xff\xff\xff\x7f.", "x")


@given(st.binary(max_size=200))
def test_any_bytes_are_plain_data_or_a_format_error(content: bytes) -> None:
    try:
        load_plain(b"\x80\x02" + content, "x")
    except FormatError as error:
        assert str(error).startswith("x: byte ")


@pytest.mark.parametrize(
    "value", [[], {}, {"entries": 3, "pg_config": {}}, {"entries": [1], "pg_config": {}}]
)
def test_another_pickle_is_one_clear_line(tmp_path: Path, value: Any) -> None:
    write(tmp_path, "_dump_0", value)
    (problem,) = read_dumps(tmp_path).problems
    assert "not a flight-recorder dump" in str(problem)


def test_an_empty_folder_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_dumps(tmp_path)


def test_the_rank_of_a_damaged_dump_is_told(tmp_path: Path) -> None:
    whole = pickle.dumps(DUMP)
    (tmp_path / "_dump_0").write_bytes(whole)
    (tmp_path / "_dump_1").write_bytes(whole[: len(whole) // 2])
    found = read_dumps(tmp_path)
    assert [dump.rank for dump in found.dumps] == [0]
    assert found.unreadable == (1,)


def test_a_link_to_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "_dump_0").symlink_to("pipe")
    write(tmp_path, "_dump_1", DUMP)
    found = read_dumps(tmp_path)
    assert [dump.rank for dump in found.dumps] == [1]
    assert [problem.text for problem in found.problems] == ["not a plain file"]
    assert found.unreadable == (0,)


def nested(kind: type, depth: int) -> Any:
    """Two of the one before it in each: small in a file, endless for whoever visits all of it."""
    made = kind(("x",))
    for _ in range(depth):
        made = kind((made, made))
    return made


@pytest.mark.parametrize("field", ["profiling_name", "state", "input_sizes", "process_group"])
def test_lists_that_hold_one_another_again_and_again_are_read_as_far_as_is_wanted(
    tmp_path: Path, field: str
) -> None:
    wild = (nested(list, 60), "d") if field == "process_group" else nested(list, 60)
    write(tmp_path, "_dump_0", {**DUMP, "entries": [{**ENTRY, field: wild}]})
    found = read_dumps(tmp_path)
    assert len(found.dumps) + len(found.problems) == 1


def test_a_tuple_that_would_take_for_ever_to_hash_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "_dump_0", {**DUMP, "pg_config": {}, "pg_status": [nested(tuple, 60)]})
    (problem,) = read_dumps(tmp_path).problems
    assert "a tuple without end: refused" in problem.text


def test_a_tuple_that_several_entries_share_is_read() -> None:
    shared = ("35", "default_pg")
    value = [{"group": shared, "again": (shared, shared)} for _ in range(1000)]
    for protocol in range(5):
        assert load_plain(pickle.dumps(value, protocol=protocol), "x") == value
