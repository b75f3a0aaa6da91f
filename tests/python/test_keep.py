"""Checkpoints of keep can be loaded again."""

import unittest

import numpy
import torch
from sync_case import SyncCase, perceptron

import longwave
from longwave._keep import load_state, save_states

SCHEDULES = torch.optim.lr_scheduler


class Has:
    """A loop's own object."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Keep(SyncCase):
    def loaded(self, state):
        """Saves a state as a checkpoint does, and loads it."""
        [(name, blob)] = save_states({"x": Has(state)})
        kept = Has(None)
        load_state(kept, bytes(blob), name)
        return kept.state

    def test_numpys_numbers_are_loaded_as_pythons(self):
        state = {"lr": numpy.float64(0.1), "steps": [numpy.int64(3), (numpy.bool_(True), numpy.array(2.5))], "t": torch.ones(2)}
        loaded = self.loaded(state)
        self.assertEqual([type(loaded["lr"]), loaded["lr"]], [float, 0.1])
        self.assertEqual(loaded["steps"], [3, (True, 2.5)])
        self.assertTrue(torch.equal(loaded["t"], torch.ones(2)))
        self.assertIs(type(state["lr"]), numpy.float64)  # the loop's own stays

    def test_an_optimizer_whose_learning_rate_numpy_has_computed_comes_back(self):
        folder, address = str(self.root / "kept"), self.cluster()
        model = perceptron()
        optimizer = torch.optim.AdamW(model.parameters())
        sync = longwave.Sync(model, optimizer, address, name="one", state_dir=folder, keep={"optimizer": optimizer})
        for _ in range(15):
            optimizer.param_groups[0]["lr"] = numpy.cos(0.5)
            optimizer.step()
        sync.finish()
        again = torch.optim.AdamW(model.parameters())
        longwave.Sync(model, again, address, name="one", state_dir=folder, keep={"optimizer": again}).finish()
        self.assertEqual(again.param_groups[0]["lr"], float(numpy.cos(0.5)))

    def test_a_state_that_becomes_one_that_cannot_be_loaded_is_told_at_its_first_save(self):
        kept = Has({"rows": 1})
        sync = longwave.Sync(perceptron(), None, self.cluster(), name="one", state_dir=str(self.root / "kept"), keep={"odd": kept})
        kept.state = {"rows": numpy.arange(3)}
        with self.assertRaisesRegex(TypeError, r"keep\['odd'\]: got a state that cannot be loaded again, wanted tensors and plain"):
            while not sync.done:
                sync.step()
        self.await_coordinator("keep['odd']: got a state that cannot be loaded again")

    def test_pytorchs_schedules_come_back(self):
        def optimizer():
            return torch.optim.SGD(perceptron().parameters(), lr=0.1, momentum=0.9)

        for name, make in {
            "StepLR": lambda o: SCHEDULES.StepLR(o, 10),
            "MultiStepLR": lambda o: SCHEDULES.MultiStepLR(o, [2, 20]),
            "OneCycleLR": lambda o: SCHEDULES.OneCycleLR(o, 0.1, total_steps=100),
            "SequentialLR": lambda o: SCHEDULES.SequentialLR(
                o, [SCHEDULES.LinearLR(o), SCHEDULES.CosineAnnealingLR(o, 50)], [3]),
            "CosineAnnealingWarmRestarts": lambda o: SCHEDULES.CosineAnnealingWarmRestarts(o, 10),
            "ReduceLROnPlateau": SCHEDULES.ReduceLROnPlateau,
            "LambdaLR": lambda o: SCHEDULES.LambdaLR(o, lambda step: 1 / (1 + step)),
            "CyclicLR": lambda o: SCHEDULES.CyclicLR(o, 0.01, 0.1),
            "ChainedScheduler": lambda o: SCHEDULES.ChainedScheduler([SCHEDULES.ExponentialLR(o, 0.9)]),
            "PolynomialLR": SCHEDULES.PolynomialLR,
        }.items():
            with self.subTest(name):
                own, other = optimizer(), optimizer()
                schedule, again = make(own), make(other)
                for _ in range(5):
                    own.step()
                    schedule.step(*[1.0][:name == "ReduceLROnPlateau"])
                if torch.__version__.startswith("2.1.") and name in ("MultiStepLR", "OneCycleLR"):  # a Counter, a function
                    with self.assertRaisesRegex(TypeError, f"keep\\['{name}'\\]: got a state that cannot be loaded again"):
                        save_states({name: schedule})
                    continue
                for kept, fresh in ((own, other), (schedule, again)):
                    [(blob_name, blob)] = save_states({name: kept})
                    load_state(fresh, bytes(blob), blob_name)
                self.assertEqual(again.last_epoch if name != "ChainedScheduler" else 5, 5)
                self.assertEqual(other.param_groups[0]["lr"], own.param_groups[0]["lr"])


if __name__ == "__main__":
    unittest.main()
