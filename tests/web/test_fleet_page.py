from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import fleet
from starlette.types import ASGIApp

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


def test_an_open_page_shows_a_new_job(collector: Collector, journey: Journey, serve: Serve) -> None:
    def later() -> None:
        time.sleep(6)
        fleet.one_more_window(collector, "fresh-job")

    with serve(make_app(collector)) as address:
        news = threading.Thread(target=later)
        news.start()
        journey("live", address)
        news.join()


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
