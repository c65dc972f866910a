"""Trains a two-layer network on a made-up regression task with numpy alone.

    pilotlight run -- python examples/numpy_mlp.py --steps 300

The calls of pilotlight are optional: without them the report lacks steps, ranges and the loss, and
has all the rest.
"""

from __future__ import annotations

import argparse
import threading
from queue import Queue

import numpy as np

import pilotlight


class Network:
    """features -> hidden -> 1, trained by plain gradient descent."""

    def __init__(self, features: int, hidden: int) -> None:
        chance = np.random.default_rng(1)
        self.w1 = chance.normal(size=(features, hidden)) / np.sqrt(features)
        self.w2 = chance.normal(size=(hidden, 1)) / np.sqrt(hidden)

    @pilotlight.annotate("forward")
    def forward(self, x: np.ndarray, y: np.ndarray) -> float:
        self.x = x
        self.active = np.maximum(x @ self.w1, 0)
        self.error = self.active @ self.w2 - y
        return float((self.error**2).mean())

    @pilotlight.annotate("backward")
    def backward(self) -> None:
        size = len(self.x)
        self.grad2 = self.active.T @ self.error / size
        self.grad1 = self.x.T @ ((self.error @ self.w2.T) * (self.active > 0)) / size

    @pilotlight.annotate("update")
    def update(self, rate: float) -> None:
        self.w1 -= rate * self.grad1
        self.w2 -= rate * self.grad2


def load_batches(queue: Queue, steps: int, size: int, features: int) -> None:
    """The data loader: a thread that makes batches ahead of time."""
    chance = np.random.default_rng(0)
    truth = chance.normal(size=(features, 1)) / np.sqrt(features)
    for _ in range(steps):
        x = chance.normal(size=(size, features))
        queue.put((x, np.tanh(x @ truth) + 0.05 * chance.normal(size=(size, 1))))


def train(queue: Queue, network: Network, steps: int) -> float:
    loss = 0.0
    for step in range(steps):
        pilotlight.step(step)
        with pilotlight.annotate("wait for data"):
            x, y = queue.get()
        loss = network.forward(x, y)
        network.backward()
        network.update(rate=0.02)
        pilotlight.counter("loss", loss)
    return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=256)
    args = parser.parse_args()

    queue: Queue = Queue(maxsize=4)
    loader = threading.Thread(
        target=load_batches, args=(queue, args.steps, args.batch, args.features), name="loader"
    )
    loader.start()
    loss = train(queue, Network(args.features, args.hidden), args.steps)
    loader.join()
    print(f"loss after {args.steps} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
