"""native/ring/ring.h, tested in C++ (native/tests/ring_test.cpp); and those tests, by mutation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[[str, str], Path]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("target", ["ring_test", "ring_test_asan"])
def test_the_writer_keeps_its_promises(
    program: Program, run: Callable[..., Any], target: str, compiler: str
) -> None:
    done = run(program(target, compiler))
    assert done.returncode == 0, done.stderr
    assert "a_full_ring_drops_the_newest_and_counts" in done.stdout.splitlines()


MISTAKES = {
    "no drop is counted": ("slot_->drops.fetch_add(1, std::memory_order_relaxed);", ""),
    "no gap is written": ("lost_.count == 0 || write_gap()", "true"),
    "the gap forgets its start": ("gap.first_ticks = lost_.first_ticks;", ""),
    "the gap is written again": (
        "slot_->head.store(head_, std::memory_order_release);\n    lost_ = {};",
        "slot_->head.store(head_, std::memory_order_release);",
    ),
    "no pad is written": ("std::memcpy(data_ + (head_ & mask_), &pad, sizeof(pad));", ""),
    "a pad is written without room behind it": (
        "if (wrap + bytes > free_end_) return false;",
        "",
    ),
    "the wrap is not seen": ("limit_ = free_end < wrap ? free_end : wrap;", "limit_ = free_end;"),
    "any tail is believed": ("used <= capacity ? tail + capacity : head_", "tail + capacity"),
    "a nested write goes on": ("if (writing_) return nested();", ""),
    "a nested write is not counted": (
        "slot_->nested.fetch_add(1, std::memory_order_relaxed);",
        "",
    ),
    "the write flag stays on after a drop": (
        "make_room(sizeof(T), ticks)) {\n"
        "      std::atomic_signal_fence(std::memory_order_seq_cst);\n"
        "      writing_ = false;",
        "make_room(sizeof(T), ticks)) {",
    ),
    "a take-over starts at nought": (
        "head_ = slot->head.load(std::memory_order_relaxed) & ~uint64_t{kRecordAlign - 1};",
        "head_ = 0;",
    ),
    "a bent head stays bent": (" & ~uint64_t{kRecordAlign - 1};", ";"),
    "a write at once looks for no room": (
        "if (__builtin_expect(head_ + sizeof(T) > limit_, 0)) {",
        "if (false) {",
    ),
    "flags are lost": (
        "uint64_t{reinterpret_cast<const RecordHeader*>(from)->flags} << 24 |",
        "0 |",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_writer_is_found(
    mutant: Any, run: Callable[..., Any], mistake: str
) -> None:
    made = mutant.build("ring_test.cpp", "ring/ring.h", *MISTAKES[mistake], "g++", [])
    assert run(made).returncode != 0
