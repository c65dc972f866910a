"""Publishes its layout and hangs in a known place, to be walked from outside."""

from __future__ import annotations

import sys
import threading

sys.path.insert(0, sys.argv[1])
import sampler_harness


class Job:
    def step(self) -> None:
        self.wait_for_the_others()

    def wait_for_the_others(self) -> None:
        print(sampler_harness.layout().hex(), flush=True)
        threading.Event().wait()


def main() -> None:
    Job().step()


main()
