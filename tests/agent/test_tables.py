from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotlight.agent.spool import Spool
from pilotlight.agent.sums import merge_sums
from pilotlight.agent.tables import Tables, packed, rows, texts

U8, U32, U64 = st.integers(0, 255), st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 40)
I64 = st.integers(-(1 << 40), 1 << 40)
WINDOW = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.integers(1, 2), st.integers(0, 1), st.integers(0, 2),
    U64, I64, I64, I64,
)  # fmt: skip
BUCKET = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.integers(1, 2), st.integers(0, 2),
    st.integers(0, 3), U64,
)  # fmt: skip


@given(st.lists(st.tuples(U32, U32, U8, I64, I64, U64), max_size=20))
def test_packed_rows_come_back(values: list[tuple[int, ...]]) -> None:
    count, columns = packed("gaps", values)
    assert count == len(values)
    assert [tuple(row.values()) for row in rows("gaps", columns)] == values


def test_texts_that_are_not_utf8_are_shown_all_the_same() -> None:
    assert texts(b"a\xffbc", b"\0\0\0\0\2\0\0\0\2\0\0\0\4\0\0\0") == ["a\ufffd", "", "bc"]


@given(st.lists(st.lists(WINDOW, min_size=1, max_size=10), max_size=4))
def test_windows_merged_have_one_row_a_key_and_the_same_totals(
    pieces: list[list[tuple[int, ...]]],
) -> None:
    merged = merge_sums([{"windows": packed("windows", piece)} for piece in pieces])
    everything = [row for piece in pieces for row in piece]
    expected: dict[tuple[int, ...], tuple[int, ...]] = {}
    for row in everything:
        same = [other for other in everything if other[:5] == row[:5]]
        expected[row[:5]] = (
            sum(other[5] for other in same),
            sum(other[6] for other in same),
            min(other[7] for other in same),
            max(other[8] for other in same),
        )
    found = {}
    for part in merged:
        for row in rows("windows", part["windows"][1]):
            values = tuple(int(str(value)) for value in row.values())
            assert values[:5] not in found
            found[values[:5]] = values[5:]
    assert found == expected


@given(st.lists(st.lists(BUCKET, min_size=1, max_size=10), min_size=1, max_size=4))
def test_histograms_merged_count_the_same(pieces: list[list[tuple[int, ...]]]) -> None:
    (merged,) = merge_sums([{"histograms": packed("histograms", piece)} for piece in pieces])
    counts = [int(str(row["count"])) for row in rows("histograms", merged["histograms"][1])]
    assert sum(counts) == sum(row[5] for piece in pieces for row in piece)
    assert len(counts) == len({row[:5] for piece in pieces for row in piece})


def test_tables_without_sums_pass_through_unchanged() -> None:
    part: Tables = {"threads": packed("threads", [(0, 1, 2)])}
    assert merge_sums([part, part]) == [part, part]


@given(
    entries=st.lists(
        st.tuples(st.integers(0, 1 << 60), st.lists(st.tuples(U32, U32, U32), max_size=3)),
        max_size=4,
    ),
    cut=st.integers(0, 400),
)
def test_a_spool_cut_anywhere_gives_back_its_whole_entries(
    entries: list[tuple[int, list[tuple[int, ...]]]], cut: int
) -> None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spool"
        spool = Spool(path)
        ends = []
        for commit, values in entries:
            spool.append(commit, [{"threads": packed("threads", values)}])
            ends.append(path.stat().st_size)
        spool.close()
        if path.exists():
            path.write_bytes(path.read_bytes()[:cut])
        whole = sum(end <= cut for end in ends)
        found = Spool(path).entries()
        assert [commit for commit, _ in found] == [commit for commit, _ in entries[:whole]]
        for (_, parts), (_, values) in zip(found, entries, strict=False):
            assert parts == [{"threads": packed("threads", values)}]


def test_a_spool_with_a_flipped_bit_ends_there(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "spool"
    spool = Spool(path)
    for commit in (1, 2):
        spool.append(commit, [{"threads": packed("threads", [(1, 2, 3)])}])
    spool.close()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert [commit for commit, _ in Spool(path).entries()] == [1]


def test_a_cleared_spool_begins_again(tmp_path: object) -> None:
    from pathlib import Path

    spool = Spool(Path(str(tmp_path)) / "spool")
    spool.append(1, [{"threads": packed("threads", [(1, 2, 3)])}])
    spool.clear()
    spool.append(2, [{"threads": packed("threads", [(4, 5, 6)])}])
    assert [commit for commit, _ in spool.entries()] == [2]
    spool.remove()
    assert spool.entries() == []
