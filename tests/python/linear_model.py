"""tests/abi/linear_model.c on longwave.Sync, with the same arithmetic to the bit:
linear_model.py HOST:PORT NAME prints the same line."""

import sys

import torch

import longwave

FEATURES, ROWS = 64, 8


def sample(worker, step, row, feature):
    return ((worker * 89 + step * 31 + row * 57 + feature * feature * 7 + 3) % 101) / 101 - 0.5


def step(theta, worker, number, learning_rate):
    loss, gradient = 0.0, torch.zeros(FEATURES)
    for row in range(ROWS):
        x = [sample(worker, number, row, i) for i in range(FEATURES)]
        error = 0.0
        for i, weight in enumerate(theta.tolist()):
            error += x[i] * (weight - (1 if i % 3 == 0 else -0.5))
        loss += error * error / ROWS
        gradient += torch.tensor([error * value / ROWS for value in x], dtype=torch.float64).float()
    theta -= torch.tensor(learning_rate, dtype=torch.float32) * gradient
    return loss


def main():
    address, name = sys.argv[1:3]
    model = torch.nn.Module()
    model.weights = torch.nn.Parameter(torch.zeros(FEATURES))
    with longwave.Sync(model, None, address, name=name) as sync:
        while not sync.done:
            number = sync.step_number
            with torch.no_grad():
                loss = step(model.weights, sync.worker, number, sync.learning_rate)
            sync.step(loss=loss, tokens=ROWS)
    data = 0xCBF29CE484222325
    for byte in model.weights.detach().numpy().tobytes():
        data = (data ^ byte) * 0x100000001B3 % 2**64
    print(f"theta {data:016x} step {number}")


if __name__ == "__main__":
    main()
