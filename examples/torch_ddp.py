"""Data-parallel training on the CPU with gloo; rank 1 may be made slower than the others.

pilotlight run -- torchrun --nproc-per-node 4 examples/torch_ddp.py --slow-rank 1
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-ms", type=float, default=5.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(args.steps):
        x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        if rank == args.slow_rank:
            time.sleep(args.slow_ms / 1e3)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            mean = loss.detach()
            dist.all_reduce(mean)
    if rank == 0:
        print(f"loss after {args.steps} steps: {mean.item() / dist.get_world_size():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
