"""A hostile reader: the API against its own description, with whatever schemathesis thinks of."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
pytest.importorskip("schemathesis", reason="needs schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from starlette.applications import Starlette

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.openapi import description
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place

OPERATIONS = [
    (path, method) for path, operations in description()["paths"].items() for method in operations
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starlette]:
    collector = Collector(parse_place(str(tmp_path_factory.mktemp("api") / "store")))
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    agent = SimulatedAgent(FleetJob("nightly", ranks_per_node=2), 0, now_ns)
    body = agent.batch(now_ns - WINDOW_NS, now_ns)
    collector.writer.submit(body, decode("default", body, Clock(), now_ns)).result(10)
    assert collector.writer.flush(30)
    yield make_app(collector)
    collector.close()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_as_the_description_says(app: Starlette, path: str, method: str) -> None:
    """Whatever is asked: a status that is described, a body of its schema, never a fault."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operation = schema[path][method.upper()]
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.specs.openapi.checks.status_code_conformance,
        schemathesis.specs.openapi.checks.content_type_conformance,
        schemathesis.specs.openapi.checks.response_schema_conformance,
    ]

    @seed(7)
    @settings(
        max_examples=6,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=checks)

    ask()
