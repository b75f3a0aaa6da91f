"""A rank of a node under torchrun, or without it a worker of one process:
node_worker.py HOST:PORT NAME MODEL [STATE_DIR] prints the hash of the whole model's weights when the run is over.

MODEL: plain, ddp or fsdp, each with an optimizer of its own; with "-gradient" behind it the run's update is the
optimizer, with "-inner" AdamW steps with the merged gradient; "-own" gives each rank batches of its own. With
"-patience" a rank prints the default process group's timeout: at first, in the loop and after it. With "-dies1" rank 1's process that torchrun starts first
dies as the tensors of a later sync are exchanged; with "-leaves1" it leaves the loop there, at a step of its own. With
"-alone" the ranks of a plain model do not average their gradients. With "-pause" rank 0 evaluates twice for 4 s; with "-raises1" behind it rank 1 raises in
that pause, and a rank prints what it ends with; with "-late" the other one comes to its end 6 s later."""

import hashlib
import os
import signal
import sys
import time

import conftest  # noqa: F401  where sync_case finds the harness
import torch
import torch.distributed as dist
from sync_case import batch

import longwave
from longwave._node import Node

DIES_AT = 65


def odd_model(seed):
    """No size divides by 2 or 3, and the second layer has fewer rows than ranks."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 131), torch.nn.Tanh(), torch.nn.Linear(131, 67), torch.nn.Tanh(),
                               torch.nn.Linear(67, 1))


def whole_weights(model):
    parts = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([part.detach().float().reshape(-1) for part in parts])


def say(*words):
    """Prints in a single write, since the ranks share the output."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def die_in_an_exchange(sync):
    for name in ("all_gather", "all_to_all"):

        def exchange(*arguments, whole=getattr(Node, name)):
            if sync.step_number >= DIES_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            whole(*arguments)

        setattr(Node, name, exchange)


def patience_s():
    """The default process group's."""
    return dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout.total_seconds()


def main():
    address, name, kind = sys.argv[1:4]
    state_dir = sys.argv[4] if len(sys.argv) > 4 else None
    kind, *options = kind.split("-")
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    longwave.set_log_level("warning")
    if ranks > 1:
        dist.init_process_group("gloo")
    model = odd_model(seed=0 if kind == "fsdp" else rank)  # the others take rank 0's
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    elif kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model[2])
        fully_shard(model)
    inner = torch.optim.AdamW(model.parameters(), lr=0.01)
    optimizer = inner
    if "gradient" in options:
        optimizer = longwave.Optimizer(model.parameters())
    elif "inner" in options:
        optimizer = longwave.Optimizer(model.parameters(), inner=inner, clip_norm=0.01)
    with longwave.Sync(model, optimizer, address, name=name, state_dir=state_dir,
                       keep={"optimizer": optimizer} if state_dir else None) as sync:
        state = inner.state_dict()["state"]
        say(f"rank {rank} pid {os.getpid()} began {sync.step_number} optimizer", int(state[0]["step"]) if state else 0)
        if f"dies{rank}" in options and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            die_in_an_exchange(sync)
        if "patience" in options:
            say(f"rank {rank} waits {patience_s():g} s at first")
        while not sync.done:
            data = sync.worker if "own" not in options else 100 * (sync.worker + 1) + rank
            x, y = batch(data, sync.step_number)
            loss = torch.nn.functional.mse_loss(model(x), y)
            if f"leaves{rank}" in options and sync.step_number >= DIES_AT and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                break
            loss.backward()
            if kind == "plain" and ranks > 1 and "alone" not in options:
                for p in model.parameters():
                    dist.all_reduce(p.grad)
                    p.grad /= ranks
            sync.note(loss)
            optimizer.step()
            optimizer.zero_grad()
            if "pause" in options and sync.step_number == 20:
                with sync.pause():
                    if any(option.startswith("raises") for option in options):
                        1 / (f"raises{rank}" not in options)
                        time.sleep(6 * ("late" in options))
                        continue
                    time.sleep(4 * (rank == 0))
                    dist.barrier()
                    time.sleep(4 * (rank == 0))
            if sync.moved:
                say(f"rank {rank} round {sync.round}")
            if "patience" in options and sync.step_number == 1:
                say(f"rank {rank} waits {patience_s():g} s")
        if "patience" in options:
            say(f"rank {rank} waits {patience_s():g} s at last")
    digest = hashlib.sha256(whole_weights(model).numpy().tobytes()).hexdigest()[:16]
    say(f"rank {rank} ends {sync.step_number} weights {digest}")
    if kind == "fsdp":
        # PyTorch 2.11's gloo thread lets go of fully_shard's last tensors late, and aborts a process whose interpreter
        # is being finalized by then (one of fourteen without Longwave, on a busy machine).
        os._exit(0)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (ZeroDivisionError, longwave.LongwaveError) as error:
        if "-raises" not in sys.argv[3]:
            raise
        say(f"rank {os.environ['RANK']} raises {type(error).__name__}: {error}")
