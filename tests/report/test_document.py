from __future__ import annotations

import json
from pathlib import Path

from example import Process, write_example, write_head

from pilotlight.recording.recording import Recording
from pilotlight.report.document import document_of, to_json
from pilotlight.report.report import report_of

KEYS = {
    *("report_version", "headline", "job", "node", "state", "command", "exit_code", "signal"),
    *("created_ns", "duration_ns", "processes", "steps", "functions_of_threads", "functions"),
    "functions_found",
    "functions_ns",
    "functions_without",
    *("phases", "frameworks"),
    *(
        "threads",
        "ranges",
        "garbage",
        "counters",
        "devices",
        "gpu",
        "losses",
        "overhead",
        "flame",
        "step_rows",
    ),
}


def document(folder: Path) -> dict[str, object]:
    read: dict[str, object] = json.loads(to_json(document_of(report_of(Recording.open(folder)))))
    return read


def test_the_keys_are_there_even_if_nothing_was_recorded(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0)
    assert document(tmp_path).keys() == KEYS


def test_every_key_is_described(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert {key for key in KEYS if f"`{key}`" not in text} == set()


def test_numbers_that_json_does_not_know_do_not_get_in(tmp_path: Path) -> None:
    process = Process(0)
    for value in (float("nan"), float("inf"), 1.5):
        process.add("counters", 7, process.name("loss"), 5_000, value)
    write_example(tmp_path, process)
    (counter,) = document(tmp_path)["counters"]  # type: ignore[misc]
    assert (counter["last"], counter["not_numbers"]) == (1.5, 2)
