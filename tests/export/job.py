"""A small job with one of everything, for the tests of the formats."""

from __future__ import annotations

from pathlib import Path

from example import Process, write_example

EVIL = 'a;b "c"\n</script>\u2028é'


def write_job(folder: Path) -> Path:
    processes = [Process(0), Process(1)]
    for process in processes:
        main = 100 + process.index
        process.add("threads", main, process.name("MainThread"))
        for number in range(3):
            start = 10_000 + 1_000 * number
            process.add("steps", main, number, start, 1_000)
            process.add("spans", main, process.name("forward"), 1, 0, start, 600)
            process.add("spans", main, process.name(EVIL), 1, 0, start + 100, 200)
            process.add("samples", main, process.stack("main", "forward"), 1, 0, start, 400)
            process.add("samples", main, process.stack("main", EVIL), 2, 0, start + 500, 600)
            process.add("counters", main, process.name("loss"), start, 0.5 - number)
        process.add("threads", 900, process.name("loader"))
        process.add("samples", 900, process.stack("read"), 2, 0, 12_000, 0)
        process.add("counters", main, process.name("loss"), 20_000, float("nan"))
        process.add("spans", main, process.name("overlap"), 1, 0, 10_300, 900)
        process.add("spans", main, process.name("open"), 1, 1, 12_700, 100)
        process.add("spans", main, 0, 2, 0, 11_000, 50)
        process.add("marks", main, process.name("epoch"), 1, 12_000, -4)
        process.add("marks", main, 0, 3, 13_000, 0)
        process.add("gaps", 0, 1, 11_500, 11_600, 9)
    return write_example(folder, *processes)
