"""Trains a two-layer network on a made-up regression task with numpy alone.

    pilotlight run -- python examples/numpy_mlp.py --steps 300

The three calls of pilotlight are optional: without them the report has no steps and ranges, but all
the rest.
"""

from __future__ import annotations

import argparse
import threading
from queue import Queue

import numpy as np

import pilotlight


def batches(queue: Queue, steps: int, size: int, features: int) -> None:
    """The data loader: a thread that makes batches ahead of time."""
    chance = np.random.default_rng(0)
    truth = chance.normal(size=(features, 1))
    for _ in range(steps):
        x = chance.normal(size=(size, features))
        queue.put((x, np.tanh(x @ truth) + 0.05 * chance.normal(size=(size, 1))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    args = parser.parse_args()

    chance = np.random.default_rng(1)
    w1 = chance.normal(size=(args.features, args.hidden)) / np.sqrt(args.features)
    w2 = chance.normal(size=(args.hidden, 1)) / np.sqrt(args.hidden)
    queue: Queue = Queue(maxsize=4)
    loader = threading.Thread(
        target=batches, args=(queue, args.steps, args.batch, args.features), name="loader"
    )
    loader.start()
    loss = 0.0
    for step in range(args.steps):
        pilotlight.step(step)
        with pilotlight.annotate("load"):
            x, y = queue.get()
        with pilotlight.annotate("forward"):
            hidden = np.maximum(x @ w1, 0)
            error = hidden @ w2 - y
            loss = float((error**2).mean())
        with pilotlight.annotate("backward"):
            grad2 = hidden.T @ error / args.batch
            grad1 = x.T @ ((error @ w2.T) * (hidden > 0)) / args.batch
        with pilotlight.annotate("update"):
            w2 -= 0.002 * grad2
            w1 -= 0.002 * grad1
        pilotlight.counter("loss", loss)
    loader.join()
    print(f"loss after {args.steps} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
