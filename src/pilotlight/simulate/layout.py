"""Who works with whom: the groups of ranks of a job."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.simulate.job import JobShape


@dataclass(frozen=True)
class Place:
    """Tensor ranks are neighbours, then come data ranks, then stages."""

    data: int
    stage: int
    tensor: int


@dataclass(frozen=True)
class Group:
    name: str
    ranks: tuple[int, ...]


def place_of(shape: JobShape, rank: int) -> Place:
    tensor = rank % shape.tensor
    data = rank // shape.tensor % shape.data
    return Place(data, rank // (shape.tensor * shape.data), tensor)


def rank_at(shape: JobShape, place: Place) -> int:
    return (place.stage * shape.data + place.data) * shape.tensor + place.tensor


def data_group(shape: JobShape, rank: int) -> Group:
    """Ranks with the same part of the model."""
    at = place_of(shape, rank)
    ranks = (rank_at(shape, Place(data, at.stage, at.tensor)) for data in range(shape.data))
    return Group(f"dp_{at.stage}_{at.tensor}", tuple(ranks))


def tensor_group(shape: JobShape, rank: int) -> Group:
    at = place_of(shape, rank)
    ranks = (rank_at(shape, Place(at.data, at.stage, tensor)) for tensor in range(shape.tensor))
    return Group(f"tp_{at.stage}_{at.data}", tuple(ranks))


def expert_group(shape: JobShape, rank: int) -> Group:
    at = place_of(shape, rank)
    first = at.data // shape.experts * shape.experts
    ranks = (
        rank_at(shape, Place(data, at.stage, at.tensor))
        for data in range(first, first + shape.experts)
    )
    return Group(f"ep_{at.stage}_{at.tensor}_{first}", tuple(ranks))


def neighbour(shape: JobShape, rank: int, stages: int) -> int | None:
    """The same place so many stages on; None beyond the ends."""
    at = place_of(shape, rank)
    stage = at.stage + stages
    if not 0 <= stage < shape.pipeline:
        return None
    return rank_at(shape, Place(at.data, stage, at.tensor))
