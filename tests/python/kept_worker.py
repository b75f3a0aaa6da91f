"""A worker that is killed, and comes back: kept_worker.py HOST:PORT NAME STATE_DIR [STEPS] trains so many steps, or to the
run's end, and says at which step it began with what."""

import signal
import sys

import conftest  # noqa: F401  where sync_case finds the harness
import torch
from sync_case import batch, perceptron

import longwave

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore the signal
address, name, state_dir = sys.argv[1:4]
steps = int(sys.argv[4]) if len(sys.argv) > 4 else None
model = perceptron()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.999)
moved = []


def on_move(count):
    moved.append(count)
    for _ in range(count):
        schedule.step()


sync = longwave.Sync(model, optimizer, address, name=name, state_dir=state_dir, on_move=on_move,
                     keep={"optimizer": optimizer, "schedule": schedule})
# If the run goes back behind this worker's saved step, the schedule is ahead.
ahead = schedule.last_epoch - sync.step_number
state = optimizer.state_dict()["state"]
print("began", sync.step_number, "schedule", schedule.last_epoch, "moved", sum(moved),
      "optimizer", int(state[0]["step"]) if state else 0, flush=True)
while not sync.done and (steps is None or steps > 0):
    x, y = batch(sync.worker, sync.step_number)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if not sync.done:
        schedule.step()
    optimizer.zero_grad()
    steps = None if steps is None else steps - 1
    if sync.moved:
        print("round", sync.round, flush=True)
    assert schedule.last_epoch == sync.step_number + ahead or sync.done
print("ends at", sync.step_number, "done" if sync.done else "", flush=True)
sync.finish()
