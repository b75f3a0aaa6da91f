"""Weights beside the run's: in an optimizer's state, loaded over them, unused ones, and gradients of unusual kinds."""

import copy
import io
import unittest

import torch
from sync_case import SyncCase, batch, perceptron, train, weights
from test_steps import Sam

import longwave

OWN = "optimizer: {} has weights of its own in its state \\('{}'\\)"


class ScheduleFree(torch.optim.Optimizer):
    """SGD of schedule-free, whose z is beside the parameters."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        with torch.no_grad():
            for group in self.param_groups:
                for y in group["params"]:
                    z = self.state[y].setdefault("z", y.clone())
                    y.lerp_(z, 1 / self.steps)
                    y.add_(y.grad, alpha=group["lr"] * (0.9 * (1 - 1 / self.steps) - 1))
                    z.sub_(y.grad, alpha=group["lr"])


class Lookahead(torch.optim.Optimizer):
    def __init__(self, base, every, alpha=0.5):
        super().__init__(base.param_groups, {})
        self.base, self.every, self.alpha, self.steps = base, every, alpha, 0
        for group in self.param_groups:
            for p in group["params"]:
                base.state[p]["slow"] = p.detach().clone()

    def step(self, closure=None):
        self.base.step()
        self.steps += 1
        if self.steps % self.every == 0:
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        slow = self.base.state[p]["slow"]
                        slow.lerp_(p, self.alpha)
                        p.copy_(slow)


class Masters(torch.optim.SGD):
    """Steps on fp32 copies of bf16 parameters."""

    def step(self, closure=None):
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                master = self.state[p].setdefault("master", p.float())
                master.add_(p.grad.float(), alpha=-0.1)
                p.copy_(master)


class Weights(SyncCase):
    def trains(self, optimizer, model, wanted=(), dtype=torch.float32):
        """Wants these warnings of a run."""
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
        with self.assert_warns(*wanted) if wanted else self.assertNoLogs("longwave"):
            train(model, optimizer, sync, dtype)

    def test_an_optimizer_with_weights_of_its_own_is_named(self):
        for make, name, state in (
            (lambda p: ScheduleFree(p, lr=0.1), "ScheduleFree", "z"),
            (lambda p: Lookahead(torch.optim.SGD(p, lr=0.1), every=6), "Lookahead", "slow"),
            (lambda p: torch.optim.ASGD(p, lr=0.1), "ASGD", "ax"),
        ):
            with self.subTest(name):
                model = perceptron()
                self.trains(make(model.parameters()), model, [OWN.format(name, state)])
        model = perceptron(dtype=torch.bfloat16)
        self.trains(Masters(model.parameters(), lr=0.1), model, [OWN.format("Masters", "master")], torch.bfloat16)

    def test_an_optimizer_without_them_is_not(self):
        for make in (torch.optim.AdamW, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), torch.optim.Rprop):
            model = perceptron()
            self.trains(make(model.parameters()), model)

    def test_the_weights_before_a_step_are_none(self):
        model = perceptron()
        optimizer = Sam(model.parameters(), torch.optim.SGD)
        optimizer.base.param_groups[0]["lr"] = 0  # as at the beginning of a warm-up: the first step moves nothing
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
        x, y = batch(0, 0)
        with self.assertNoLogs("longwave"):
            while not sync.done:
                optimizer.step(lambda: torch.nn.functional.mse_loss(model(x), y).backward())
                optimizer.base.param_groups[0]["lr"] = 0.1
            sync.finish()

    def test_weights_that_are_loaded_after_sync_are_warned_of(self):
        def assign(model, other):
            for parameter, value in zip(model.parameters(), other.parameters()):
                parameter.data = value.data.clone()

        for wanted, load in (
            ("load_state_dict after Sync: .* Load weights before Sync", lambda m, o: m.load_state_dict(o.state_dict())),
            ("load_state_dict after Sync: .*", lambda m, o: m[2].load_state_dict(o[2].state_dict())),
            (r"the parameters have been changed \(by p.data = …, say\) before the first step", assign),
        ):
            with self.subTest(wanted):
                model = perceptron()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
                with self.assert_warns(wanted):
                    load(model, perceptron(seed=1))
                    train(model, optimizer, sync)

    def test_a_copy_of_the_model_and_a_model_after_the_run_take_any_weights(self):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
        with self.assertNoLogs("longwave"):
            copy.deepcopy(model).load_state_dict(perceptron(seed=1).state_dict())
            file = io.BytesIO()
            torch.save(model, file)
            self.assertNotIn(b"longwave", file.getvalue())
            file.seek(0)
            torch.load(file, weights_only=False).load_state_dict(perceptron(seed=1).state_dict())
            train(model, optimizer, sync)
            model.load_state_dict(perceptron(seed=1).state_dict())


class Gradients(SyncCase):
    def test_of_ddp_a_parameter_that_nobody_uses_stays(self):
        address = self.cluster(workers=2, run__preset="ddp", sync__inner_steps=1, run__steps=20)

        torch.manual_seed(0)
        first = torch.nn.ModuleList(torch.nn.Linear(8, 1) for _ in range(4))
        models = [first, copy.deepcopy(first)]

        def worker(i):
            experts = models[i]
            before = weights(experts[3])
            optimizer = longwave.Optimizer(
                experts.parameters(), inner=torch.optim.AdamW(experts.parameters(), lr=0.01, weight_decay=0.1), clip_norm=1.0)
            sync = longwave.Sync(experts, optimizer, address, name=f"w{i}")
            while not sync.done:
                x, y = batch(i, sync.step_number)
                # The third one's gradient is zero at one worker, and absent at the other; the last one's is absent.
                loss = torch.nn.functional.mse_loss(experts[i](x), y) + (0 * experts[2](x).sum() if i == 0 else 0)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            sync.finish()
            self.assertTrue(torch.equal(before, weights(experts[3])))
            return weights(experts)

        one, other = self.in_parallel(lambda: worker(0), lambda: worker(1))
        self.assertTrue(torch.equal(one, other))
        self.assertFalse(torch.equal(one[:9], one[9:18]))
        self.hand.assert_equal_replicas()

    def test_sparse_gradients_are_as_good_as_dense_ones(self):
        ends = []
        for preset in ("demo", "ddp"):
            for sparse in (False, True):
                torch.manual_seed(0)
                model = torch.nn.Embedding(100, 8, sparse=sparse)
                inner = torch.optim.AdamW(model.parameters(), lr=0.01) if preset == "ddp" else None
                optimizer = longwave.Optimizer(model.parameters(), inner=inner)
                address = self.cluster(run__preset=preset, sync__inner_steps=1, run__steps=10)
                sync = longwave.Sync(model, optimizer, address, name="one")
                while not sync.done:
                    model(torch.arange(0, 100, 3)).square().sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
                sync.finish()
                ends.append(weights(model))
            self.assertTrue(torch.equal(*ends[-2:]), preset)

    def test_an_inner_optimizer_that_wants_sparse_gradients_is_refused(self):
        model = torch.nn.Embedding(100, 8, sparse=True)
        optimizer = longwave.Optimizer(model.parameters(), inner=torch.optim.SparseAdam(model.parameters()))
        with self.assertRaisesRegex(ValueError, "got inner SparseAdam, wanted one of dense gradients"):
            longwave.Sync(model, optimizer, self.cluster(run__preset="ddp", sync__inner_steps=1), name="one")


if __name__ == "__main__":
    unittest.main()
