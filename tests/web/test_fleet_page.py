from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import fleet
import httpx2 as httpx
from archived import brought
from starlette.types import ASGIApp
from tests.collector.conftest import RunningCollector

from pilotlight.collector.app import make_app
from pilotlight.collector.collector import Collector
from pilotlight.collector.tokens import create_token, revoke_token

Journey = Callable[..., None]
Serve = Callable[[ASGIApp], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with fleet.filled_collector(tmp_path_factory.mktemp("fleet")) as made:
        fleet.send_evil(made)
        yield made


def test_from_the_fleet_to_the_line_of_code(
    collector: Collector, journey: Journey, serve: Serve
) -> None:
    with serve(make_app(collector)) as address:
        journey("fleet", address, fleet.EVIL_JOB)


def test_a_link_shows_what_its_sender_saw(
    collector: Collector, journey: Journey, serve: Serve
) -> None:
    with serve(make_app(collector)) as address:
        journey("links", address, fleet.LLAMA)


def test_a_job_under_fingers_and_on_paper(
    collector: Collector, journey: Journey, serve: Serve
) -> None:
    with serve(make_app(collector)) as address:
        journey("hands", address, fleet.LLAMA)
        journey("paper", address, f"#/job/{fleet.LLAMA} heat")


def test_an_open_page_shows_a_new_job_and_says_when_the_store_is_behind(
    collector: Collector, journey: Journey, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(told: str) -> None:
        if told == "waiting":
            fleet.one_more_window(collector, "fresh-job")
        elif told == "behind":
            monkeypatch.setattr(collector.writer, "behind_ns", lambda now_ns: 97_000_000_000)
        else:
            monkeypatch.undo()

    with serve(make_app(collector)) as address:
        journey("live", address, on_told=act)


def test_a_page_on_which_nothing_happens_says_that_its_server_is_away(
    tmp_path: Path, journey: Journey
) -> None:
    running = RunningCollector(tmp_path / "store")
    running.start()
    port = running.port

    def act(told: str) -> None:
        if told == "go":
            running.stop()
        else:
            running.start(port=port)

    try:
        journey("away", f"{running.url}/", on_told=act)
    finally:
        running.stop()


def test_a_capture_from_asking_to_its_end(
    collector: Collector, journey: Journey, serve: Serve, tmp_path: Path
) -> None:
    """One node answers at once that it has nothing, the other brings its part a little later."""
    archive = brought(tmp_path / "brought", 0).read_bytes()

    with serve(make_app(collector)) as address, httpx.Client(base_url=address) as agents:

        def act(told: str) -> None:
            host = told.removeprefix("let ")
            answer = agents.get("v1/requests", params={"agent": f"sim-{host}", "wait": 0}).json()
            for request in answer["requests"]:
                question = {"capture": request["capture"], "agent": f"sim-{host}"}
                if host == "node0001":
                    question["refused"] = "the recorder does not reach back so far"
                else:
                    ranks = [
                        {"rank": 0, "state": "done", "why": ""},
                        {"rank": 1, "state": "failed", "why": "hung: it has done no step for 12 s"},
                    ]
                    said = agents.post("v1/progress", params=question, json=ranks)
                    assert said.status_code == 200
                sent = agents.put("v1/detail", params=question, content=archive)
                assert sent.status_code == 200

        journey("capture", address, fleet.LLAMA, on_told=act)


def test_without_a_token_there_is_only_the_login(
    collector: Collector, journey: Journey, serve: Serve
) -> None:
    tokens = collector.store.place.tokens
    secret, token = create_token(tokens, ["read"], "default", "page", 1)
    try:
        with serve(make_app(collector)) as address:
            journey("login", address, secret)
    finally:
        revoke_token(tokens, token.id)
