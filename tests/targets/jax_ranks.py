"""Starts two processes that join by jax.distributed and step together; no launcher numbers them."""

from __future__ import annotations

import socket
import subprocess
import sys


def rank(port: str, number: str) -> None:
    import jax
    import jax.numpy as jnp

    address = f"127.0.0.1:{port}"
    jax.distributed.initialize(address, 2, int(number), coordinator_bind_address=address)
    double = jax.jit(lambda x: x * 2)
    for _ in range(5):
        double(jnp.ones(4)).block_until_ready()


def main() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    # The second process of jax.distributed is started first: who is rank 0 is no matter of order.
    ranks = [subprocess.Popen([sys.executable, __file__, port, each]) for each in ("1", "0")]
    return max(each.wait() for each in ranks)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        rank(sys.argv[1], sys.argv[2])
    else:
        sys.exit(main())
