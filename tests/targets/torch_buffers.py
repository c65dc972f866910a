"""DDP with BatchNorm, whose buffers each forward broadcasts; rank 1 comes 5 ms late to it."""

import time

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train() -> None:
    layers = [torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        if dist.get_rank() == 1:
            time.sleep(0.005)
        optimizer.zero_grad()
        model(torch.randn(16, 32)).mean().backward()
        optimizer.step()


dist.init_process_group("gloo")
train()
dist.barrier()
dist.destroy_process_group()
