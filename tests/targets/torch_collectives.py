"""Collectives of every shape on two ranks with gloo."""

from __future__ import annotations

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.broadcast(torch.ones(1000), 0)
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    work.wait()
    dist.all_reduce(torch.ones(10, dtype=torch.float64))
    gathered = [torch.zeros(3), torch.zeros(3)]
    dist.all_gather(gathered, torch.ones(3))
    out = torch.zeros(8)
    dist.all_gather_into_tensor(out, torch.ones(4))
    forgotten = dist.all_reduce(torch.ones(7), async_op=True)
    while not forgotten.is_completed():
        pass
    del forgotten
    if rank == 0:
        dist.send(torch.ones(5), 1)
    else:
        dist.recv(torch.zeros(5), 0)
    both = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(2), group=both)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
