from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.web.table import Texts, stream, texts_of

NAMES = st.lists(st.text(max_size=20), min_size=1, max_size=8)


@given(NAMES, st.data())
def test_pyarrow_reads_back_what_was_written(names: list[str], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=30))
    columns = {
        "f": np.array(numbers, np.float64) / 3,
        "u": np.array(numbers, np.uint32),
        "i": -np.array(numbers, np.int32),
        "b": np.array(numbers, np.uint8),
        "name": texts_of(names, np.array(numbers, np.int64)),
    }
    table = pa.ipc.open_stream(io.BytesIO(stream(columns))).read_all()
    assert table["u"].to_pylist() == numbers
    assert table["i"].to_pylist() == [-number for number in numbers]
    assert table["f"].to_pylist() == [number / 3 for number in numbers]
    assert table["name"].to_pylist() == [names[number] for number in numbers]


def test_texts_that_do_not_occur_are_not_sent() -> None:
    found = texts_of(["a", "b", "c"], np.array([2, 0, 2]))
    assert found == Texts(["a", "c"], found.numbers)
    assert found.numbers.tolist() == [1, 0, 1]
