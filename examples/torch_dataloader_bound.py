"""A training loop that waits for its data loader most of the time.

pilotlight run -- python examples/torch_dataloader_bound.py --workers 1
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SlowData(Dataset):
    """Each item takes a while, as decoding an image would."""

    def __init__(self, size: int, item_ms: float) -> None:
        self.size = size
        self.item_s = item_ms / 1e3

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self.item_s)
        return torch.full((64,), index / self.size), index % 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--item-ms", type=float, default=1.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = SlowData(args.steps * 16, args.item_ms)
    for x, y in DataLoader(data, batch_size=16, num_workers=args.workers):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(f"{args.steps} steps done")


if __name__ == "__main__":
    main()
