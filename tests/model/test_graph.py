from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.errors import FormatError
from pilotlight.model.graph import graph_of_rows, replay

graphs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        *(
            st.sets(st.integers(0, max(0, i - 1)), max_size=3) if i else st.just(set())
            for i in range(n)
        )
    )
)


@given(graphs, st.data())
def test_a_node_ends_its_duration_after_the_last_of_its_predecessors(
    rows: tuple[set[int], ...], data: st.DataObject
) -> None:
    # numbers are shuffled: the order of the nodes must not matter
    order = data.draw(st.permutations(range(len(rows))))
    predecessors: list[list[int]] = [[] for _ in rows]
    for i, row in enumerate(rows):
        predecessors[order[i]] = [order[j] for j in row]
    durations = data.draw(
        st.lists(st.integers(0, 100), min_size=len(rows), max_size=len(rows)).map(
            lambda d: np.array([d, [2 * x for x in d]], np.float64)
        )
    )
    ends = replay(graph_of_rows(predecessors), durations)
    for node, before in enumerate(predecessors):
        latest = max((ends[0, b] for b in before), default=0)
        assert ends[0, node] == latest + durations[0, node]
    assert (ends[1] == 2 * ends[0]).all()


def test_a_circle_is_refused() -> None:
    with pytest.raises(FormatError, match="circle"):
        graph_of_rows([[1], [0]])
