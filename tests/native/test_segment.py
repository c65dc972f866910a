"""native/ring/segment.cpp and definitions.cpp, tested in C++; and producers killed at random."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[[str, str], Path]
Run = Callable[..., Any]

KILLS = 1000


@pytest.mark.parametrize(
    ("target", "compiler"),
    [("segment_test", "g++"), ("segment_test", "clang++"), ("segment_test_tsan", "clang++")],
)
def test_the_segment_keeps_its_promises(
    program: Program, run: Run, target: str, compiler: str
) -> None:
    done = run(program(target, compiler))
    assert done.returncode == 0, done.stderr
    assert "the_size_of_the_memory_is_sealed" in done.stdout.splitlines()


def test_a_thousand_killed_producers_lose_nothing_that_was_published(
    program: Program, run: Run
) -> None:
    done = run(program("segment_kill_test", "g++"), KILLS, 1)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["kills"] == KILLS
    assert result["records"] > KILLS


def test_a_record_published_before_its_bytes_are_there_is_found(mutant: Any, run: Run) -> None:
    body = """    std::memcpy(place, words, sizeof(words));
    for (size_t at = sizeof(words); at < sizeof(T); at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, from + at, sizeof(word));
      // Or the compiler makes one wide load of two words that were stored one by one.
      asm("" : "+r"(word));
      std::memcpy(place + at, &word, sizeof(word));
    }
    head_ = head;
    // Publish: the payload, then the head.
    slot_->head.store(head, std::memory_order_release);
"""
    copy, store = body.split("    head_ = head;\n")
    wrong = "    head_ = head;\n" + store + copy
    made = mutant.build("segment_kill_test.cpp", "ring/ring.h", body, wrong, "g++", [])
    assert run(made, KILLS, 1).returncode != 0


def test_an_arena_head_read_back_from_shared_memory_is_found(mutant: Any, run: Run) -> None:
    made = mutant.build(
        "segment_test.cpp",
        "ring/definitions.cpp",
        "  uint32_t padded =",
        "  head_ = header_->arena_head.load(std::memory_order_relaxed);\n  uint32_t padded =",
        "g++",
        [],
    )
    assert run(made).returncode != 0
