"""Programs that take turns of a few milliseconds, one at a time, and say what CPU time each took.

The speed of a shared machine wanders by a tenth from one millisecond to the next and as much from
one second to the next, so that longer turns are no steadier than short ones: what helps is many
turns, side by side. A process that is switched on and off cannot do that, since Python finds its
short cuts anew after every patch. So each way of running has a process of its own (or one a rank),
which rests while the others have their turn. Where a process lies in memory makes a difference of
its own: several casts of fresh processes play, one after the other.
"""

from __future__ import annotations

import random
import socket
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

# Behind a program that says warm() and work().
TURNS = """
import os, socket, struct, time
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(os.environ["BENCH_STAGE"])
line.send(os.environ["BENCH_PLAYER"].encode())
while line.recv(1):
    warm()
    whole, alone = time.process_time_ns(), time.thread_time_ns()
    work()
    alone, whole = time.thread_time_ns() - alone, time.process_time_ns() - whole
    line.send(struct.pack("qq", whole, alone))
"""


@dataclass(frozen=True)
class Player:
    """One way of running the program."""

    name: str
    program: str
    env: Mapping[str, str]


@dataclass
class Turns:
    """CPU nanoseconds by player and round: of all threads of all its ranks, and of those that
    train alone."""

    whole: dict[str, list[int]] = field(default_factory=dict)
    alone: dict[str, list[int]] = field(default_factory=dict)


def play(players: Sequence[Player], launcher: Sequence[str], ranks: int, casts: int, rounds: int
         ) -> Turns:  # fmt: skip
    """Each round every player has one turn, in an order that is drawn."""
    turns = Turns({each.name: [] for each in players}, {each.name: [] for each in players})
    draw = random.Random(0)
    for _ in range(casts):
        with _cast(players, launcher, ranks) as lines:
            for _ in range(rounds):
                for name in draw.sample(list(lines), len(lines)):
                    whole, alone = _turn(lines[name])
                    turns.whole[name].append(whole)
                    turns.alone[name].append(alone)
    return turns


def _turn(lines: list[socket.socket]) -> tuple[int, int]:
    for line in lines:
        line.send(b"g")
    said = [struct.unpack("qq", line.recv(16)) for line in lines]
    return sum(each[0] for each in said), sum(each[1] for each in said)


@contextmanager
def _cast(
    players: Sequence[Player], launcher: Sequence[str], ranks: int
) -> Iterator[dict[str, list[socket.socket]]]:
    lines: dict[str, list[socket.socket]] = {each.name: [] for each in players}
    with (
        tempfile.TemporaryDirectory(prefix="pl-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stage,
    ):
        stage.bind(f"{folder}/stage")
        stage.listen(ranks * len(players))
        stage.settimeout(120)
        processes = [_started(each, launcher, Path(folder)) for each in players]
        try:
            for _ in range(ranks * len(players)):
                line, _ = stage.accept()
                lines[line.recv(100).decode()].append(line)
            yield lines
        finally:
            for line in chain.from_iterable(lines.values()):
                line.close()
            for process in processes:
                process.wait()


def _started(player: Player, launcher: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    script = folder / f"{player.name}.py"
    script.write_text(player.program + TURNS)
    stage = {"BENCH_STAGE": f"{folder}/stage", "BENCH_PLAYER": player.name}
    words = [*launcher, str(script)]
    return subprocess.Popen(words, env={**player.env, **stage}, stderr=subprocess.DEVNULL)


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """the median over the rounds, whose turns share what slows the machine down"""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))


def total_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """all turns added up"""
    return sum(numerators) / sum(denominators)


def interval(
    of: Callable[[Sequence[float], Sequence[float]], float],
    numerators: Sequence[float],
    denominators: Sequence[float],
) -> str:
    """The ratio, and between which it lies in 95 of 100 draws from the rounds."""
    draw = random.Random(0)
    pairs = list(zip(numerators, denominators, strict=True))
    drawn = sorted(of(*zip(*draw.choices(pairs, k=len(pairs)), strict=True)) for _ in range(400))
    return f"{of(numerators, denominators):.4f} ({drawn[10]:.4f} to {drawn[389]:.4f})"
