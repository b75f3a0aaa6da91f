"""A rank of a node under torchrun that calls Sync as it is not meant, and says what Sync answers."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import longwave

RANK = int(os.environ["RANK"])


def attempt(model, name, **options):
    try:
        longwave.Sync(model, None, "127.0.0.1:1", name=name, **options)
    except ValueError as error:
        os.write(1, f"rank {RANK}: {error}\n".encode())


def pair():
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 1))


dist.init_process_group("gloo")
attempt(torch.nn.Linear(3, 1), "ab"[RANK])
attempt(torch.nn.Linear(3, 1) if RANK == 0 else pair(), "a")
attempt(torch.nn.Linear(3, 1 + RANK), "a")
attempt(torch.nn.Linear(3, 1), "a", state_dir=[None, "/one"][RANK])
attempt(torch.nn.Linear(3, 1), "a", state_dir=["/one", "/other"][RANK])
kept = torch.nn.Linear(1, 1)
attempt(torch.nn.Linear(3, 1), "a", keep=[{"loader": kept, "ema": kept}, {}][RANK])
hybrid = torch.nn.Linear(3, 5)
fully_shard(hybrid, mesh=init_device_mesh("cpu", (1, 2), mesh_dim_names=("replicate", "shard")))
attempt(hybrid, "a")
partly = pair()
fully_shard(partly[1])
attempt(partly, "a")
whole = pair()
fully_shard(whole)
attempt(whole, "a", alias=True)
dist.destroy_process_group()
attempt(whole, "a")
