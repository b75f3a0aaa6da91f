#!/usr/bin/env python3
"""The plain PyTorch way of the kernels' step, on the CPU: what bench_kernels is held against.

    pytorch_step.py --out FILE [--params N] [--seconds S] [--quick]

The step as papers' codes have it (in spirit; written for this comparison): momentum, the DCT of each
64 x 64 block by two matrix products, topk of the magnitudes, gather, 2 bit and one scale a tile,
scatter, inverse DCT by matrix products, residual; to decode, scatter, inverse DCT, update. Momentum
stays in the parameters' domain, as published. Packing the bits is left out: the codes stay bytes.
Rows as bench_kernels writes them, with the backend `pytorch`, for the transforms dct and none, at k 64 and
2 bit, in one thread. Each result is checked. Where torch cannot be imported a sentence says so and no
file is written; `pip install torch` brings it.
"""

import argparse
import sys
import time

try:
    import torch
except ImportError as missing:
    print(f"pytorch_step: skipped, no rows of PyTorch: {sys.executable}: {missing}; "
          "`pip install torch` brings it, and LONGWAVE_TORCH_PYTHON names another interpreter")
    sys.exit(0)

COLUMNS = 768
UNIT = 64 * COLUMNS
BLOCK = 64
TILE = BLOCK * BLOCK
K = 64
BETA = 0.95
ETA = 0.7
HEADER = ("bench,backend,threads,params,k,transform,bits,seconds,bytes,gb_per_s,percent_of_copy,"
          "params_per_s,times_reference,check")


def dct_matrix(dtype):
    """The orthonormal DCT-II: row k holds s(k) cos(pi (2j+1) k / 2n)."""
    j = torch.arange(BLOCK, dtype=torch.float64)
    matrix = torch.cos(torch.pi * (2 * j + 1) * j[:, None] / (2 * BLOCK)) * (2 / BLOCK) ** 0.5
    matrix[0] *= 0.5 ** 0.5
    return matrix.to(dtype)


class Step:
    """Encode and decode-update of one array under one transform."""

    def __init__(self, transform, rows, dtype=torch.float32):
        self.transform = transform
        self.rows = rows
        self.basis = dct_matrix(dtype)

    def forward(self, x):
        """[rows, COLUMNS] to [tiles, TILE]."""
        if self.transform == "none":
            return x.reshape(-1, TILE)
        blocks = x.view(self.rows // BLOCK, BLOCK, COLUMNS // BLOCK, BLOCK).transpose(1, 2)
        return (self.basis @ blocks @ self.basis.T).reshape(-1, TILE)

    def inverse(self, coefficients):
        if self.transform == "none":
            return coefficients.view(self.rows, COLUMNS)
        blocks = coefficients.view(self.rows // BLOCK, COLUMNS // BLOCK, BLOCK, BLOCK)
        return (self.basis.T @ blocks @ self.basis).transpose(1, 2).reshape(self.rows, COLUMNS)

    def encode(self, momentum, signal):
        """Returns what is sent: indices, codes and a scale a tile; momentum loses it."""
        momentum.mul_(BETA).add_(signal)
        coefficients = self.forward(momentum)
        indices = coefficients.abs().topk(K, dim=1, sorted=False).indices
        values = coefficients.gather(1, indices)
        magnitudes = values.abs()
        # Levels -2, -1, 1, 2 times the scale.
        scale = magnitudes.mean(dim=1, keepdim=True) / 1.5
        codes = (magnitudes > 1.5 * scale).to(torch.uint8) + 2 * (values < 0).to(torch.uint8)
        sent = indices.to(torch.int16), codes, scale.to(torch.float16)
        momentum.sub_(self.decoded(sent, momentum.dtype))
        return sent

    def decoded(self, sent, dtype):
        indices, codes, scale = sent
        levels = ((codes & 1) + 1).to(dtype) * (1 - (codes & 2).to(dtype))
        coefficients = torch.zeros(self.rows * COLUMNS // TILE, TILE, dtype=dtype)
        coefficients.scatter_(1, indices.long(), levels * scale.to(dtype))
        return self.inverse(coefficients)

    def decode_update(self, theta, sent):
        theta.sub_(self.decoded(sent, theta.dtype), alpha=ETA)


class Table:
    def __init__(self, params, seconds, repetitions_min, repetitions_max):
        self.params = params
        self.seconds = seconds
        self.repetitions = repetitions_min, repetitions_max
        self.rows = []
        self.wrong = 0
        self.copy_gb_per_s = 0.0

    def best(self, operation):
        operation()
        best, spent = float("inf"), 0.0
        for done in range(self.repetitions[1]):
            if done >= self.repetitions[0] and spent >= self.seconds:
                break
            begin = time.perf_counter()
            operation()
            took = time.perf_counter() - begin
            best, spent = min(best, took), spent + took
        return best

    def add(self, bench, moved, operation, right, transform=None):
        seconds = self.best(operation)
        gb_per_s = moved / seconds * 1e-9
        if bench == "copy":
            self.copy_gb_per_s = gb_per_s
        # The reference of these rows is themselves.
        settings = f"{K},{transform},2" if transform else "0,none,0"
        self.rows.append(
            f"{bench},pytorch,1,{self.params},{settings},{seconds:.6e},{moved:.0f},{gb_per_s:.3f},"
            f"{100 * gb_per_s / self.copy_gb_per_s:.2f},{self.params / seconds:.4e},"
            f"{1 if transform else 0:.3f},{'ok' if right else 'FAILED'}")
        self.wrong += not right


def near(got, wanted):
    return bool((got.double() - wanted).norm() <= 1e-5 * wanted.norm())


def measure(params, seconds, repetitions):
    rows = params // COLUMNS
    generator = torch.Generator().manual_seed(1)

    def random():
        pair = torch.rand(2, rows, COLUMNS, generator=generator)
        return pair[0] + pair[1] - 1

    signal, momentum, theta, scratch = random(), 3 * random(), random(), random()
    table = Table(params, seconds, *repetitions)
    scratch.copy_(signal)
    table.add("copy", 8 * params, lambda: scratch.copy_(signal), torch.equal(scratch, signal))
    before = scratch.double()
    torch.add(signal, scratch, alpha=BETA, out=scratch)
    table.add("pass", 12 * params, lambda: torch.add(signal, scratch, alpha=BETA, out=scratch),
              near(scratch, before * BETA + signal.double()))
    before = scratch.double()
    scratch.mul_(0.9999)
    table.add("read_write", 8 * params, lambda: scratch.mul_(0.9999), near(scratch, before * 0.9999))
    del before
    for transform in ("dct", "none"):
        step = Step(transform, rows)
        exact = Step(transform, rows, torch.float64)
        m = momentum.clone()
        sent = step.encode(m, signal)
        # The sent part and the rest add up to the momentum; the sent coefficients are the largest.
        whole = momentum.double() * BETA + signal.double()
        right = near(m.double() + exact.decoded(sent, torch.float64), whole)
        coefficients = exact.forward(whole)
        energy = coefficients.gather(1, sent[0].long()).square().sum()
        right &= bool(energy >= coefficients.abs().topk(K, dim=1).values.square().sum() * (1 - 1e-6))
        payload = params // TILE * (K * 8 + K * 2 + 16) // 8
        table.add("encode", 12 * params + payload, lambda: step.encode(m, signal), right, transform)
        x = theta.clone()
        step.decode_update(x, sent)
        right = near(x, theta.double() - ETA * exact.decoded(sent, torch.float64))
        del whole, coefficients
        table.add("decode_update", 8 * params + payload, lambda: step.decode_update(x, sent), right,
                  transform)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--params", type=int, default=1 << 24)
    parser.add_argument("--seconds", type=float, default=4, help="of each row's repetitions")
    parser.add_argument("--quick", action="store_true", help="few parameters, few repetitions")
    options = parser.parse_args()
    if options.params < UNIT:
        parser.error(f"--params: got {options.params}, wanted at least {UNIT}")
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    if options.quick:
        options.params, options.seconds = 6 * UNIT, 0.0
    with torch.inference_mode():
        table = measure(options.params // UNIT * UNIT, options.seconds,
                        (2, 2) if options.quick else (3, 40))
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("\n".join([HEADER, *table.rows]) + "\n")
    print(f"pytorch_step: {len(table.rows)} rows with torch {torch.__version__} in one thread")
    if table.wrong:
        print(f"error: pytorch_step: {table.wrong} wrong results", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
