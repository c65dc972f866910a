"""What the log says, and what it does not."""

from __future__ import annotations

import io
import json
import logging
import urllib.request
from pathlib import Path

from tests.collector.conftest import RunningCollector

from pilotlight.collector.log import JsonLines, Seldom


def logger(stream: io.StringIO, name: str) -> logging.Logger:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(Seldom())
    made = logging.Logger(name)
    made.addHandler(handler)
    return made


def test_a_line_is_an_object_without_secrets() -> None:
    stream = io.StringIO()
    log = logger(stream, "pilotlight.test")
    try:
        raise ValueError("header was: Bearer plk_0a1b_SECRETsecret-1")
    except ValueError:
        log.exception("token plk_0a1b_SECRETsecret-1 came\nwith a new line")
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert (line["level"], line["where"]) == ("error", "pilotlight.test")
    assert "ValueError" in line["error"] and line["time"].endswith("+00:00")
    assert "SECRET" not in text and "new line" in line["what"]


def test_a_collector_that_ends_while_a_page_is_open_waits_for_nobody_and_tells_no_error(
    tmp_path: Path,
) -> None:
    running = RunningCollector(tmp_path / "store")
    running.start()
    assert running.process is not None and running.process.stdout is not None
    with urllib.request.urlopen(f"{running.url}/api/live", timeout=30) as page:
        assert page.readline() == b"retry: 3000\n"
        running.process.terminate()
        said = running.process.stdout.read()
        running.process.stdout.close()
    assert running.process.wait(30) == 0
    assert "stopped" in said and '"level": "error"' not in said


def test_the_same_words_do_not_flood_it() -> None:
    stream = io.StringIO()
    log = logger(stream, "pilotlight.test")
    for number in range(1000):
        log.warning("a batch was refused: %d", number)
    log.warning("something else")
    assert len(stream.getvalue().splitlines()) == 2
