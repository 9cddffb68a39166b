"""Rank and world size of this process, from arguments, torch.distributed or the environment."""

import os
import sys

VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def _number(name):
    text = os.environ.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text} is not a number") from None


def found():
    """Returns [(origin, rank, world), …]."""
    claims = []
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        claims.append(("torch.distributed", distributed.get_rank(), distributed.get_world_size()))
    for rank_name, world_name in VARIABLES:
        rank, world = _number(rank_name), _number(world_name)
        if rank is not None and world is not None:
            claims.append((f"{rank_name} and {world_name}", rank, world))
        elif rank_name == "RANK" and (rank is None) != (world is None) and world != 1:
            there, missing = (rank_name, world_name) if world is None else (world_name, rank_name)
            raise ValueError(f"{there} is set and {missing} is not; set both, or pass rank= and world=")
    return claims


def resolve(rank=None, world=None):
    """Returns (rank, world): the arguments, or the values of the environment, or (0, 1)."""
    if (rank is None) != (world is None):
        raise ValueError("rank and world must be given together")
    if rank is not None:
        return _checked(int(rank), int(world), "the arguments")
    claims = found()
    if len({claim[1:] for claim in claims}) > 1:
        words = "; ".join(f"{who}: rank {r} of {w}" for who, r, w in claims)
        raise ValueError(f"contradictory ranks: {words}. Pass rank= and world=")
    return _checked(claims[0][1], claims[0][2], claims[0][0]) if claims else (0, 1)


LOCAL_VARIABLES = (
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


def machines(rank, world):
    """Returns the number of machines that the processes run on: as many processes on each, numbered one machine after the other."""
    for local_name, size_name in LOCAL_VARIABLES:
        local, size = _number(local_name), _number(size_name)
        if local is None or not size:
            continue
        if world % size or rank % size != local:
            raise ValueError(f"hosts=\"auto\": rank {rank} of {world} is number {local} of {size} on its machine; parts for hosts need as many ranks on "
                             "each machine, numbered one machine after the other. Pass hosts= as a number")
        return world // size
    if world == 1:
        return 1
    raise ValueError(f"hosts=\"auto\": none of {', '.join(size for _, size in LOCAL_VARIABLES)} is set; pass the number of machines")


def _checked(rank, world, who):
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of {world} ({who}); ranks are numbered from 0")
    return rank, world
