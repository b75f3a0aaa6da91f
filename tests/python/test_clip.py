"""The norm that merged gradients are clipped to is PyTorch's, whatever their magnitudes. test_node: its bits with ranks."""

import unittest

import torch

from longwave._clip import clip_merged

MAGNITUDES = (1e-30, 1e-3, 1.0, 1e4, 1e15)


def parameters_with(gradients):
    parameters = [torch.nn.Parameter(torch.zeros_like(each)) for each in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient.clone()
    return parameters


class Clip(unittest.TestCase):
    def assert_clips_as_pytorch(self, gradients, norm_max):
        ours, pytorchs = parameters_with(gradients), parameters_with(gradients)
        clip_merged([torch.nn.Parameter(torch.zeros(3)), *ours], norm_max, node=None)
        torch.nn.utils.clip_grad_norm_(pytorchs, norm_max)
        for our, pytorch in zip(ours, pytorchs):
            torch.testing.assert_close(our.grad, pytorch.grad, rtol=1e-5, atol=0)

    def test_the_norm_is_pytorchs(self):
        torch.manual_seed(1)
        for magnitude in MAGNITUDES:
            with self.subTest(magnitude=magnitude):
                tensors = [magnitude * torch.randn(300, 70), magnitude * 1e-6 * torch.randn(7), torch.zeros(5)]
                self.assert_clips_as_pytorch(tensors, 0.5)

    def test_an_element_far_above_the_others_does_not_hide_them(self):
        torch.manual_seed(1)
        tensor = torch.randn(1 << 20)
        tensor[7] = 1e5
        self.assert_clips_as_pytorch([tensor, torch.randn(9)], 1.0)

    def test_a_gradient_that_is_not_finite_is_refused(self):
        for value in (float("inf"), float("nan")):
            with self.assertRaisesRegex(RuntimeError, "not finite"):
                clip_merged(parameters_with([torch.ones(3), torch.tensor([1.0, value])]), 1.0, node=None)

    def test_a_gradient_below_the_norm_stays(self):
        gradients = [torch.full((4,), 0.25), torch.zeros(2, 3)]
        parameters = parameters_with(gradients)
        clip_merged(parameters, 1.0, node=None)
        for parameter, gradient in zip(parameters, gradients):
            self.assertTrue(torch.equal(parameter.grad, gradient))
        clip_merged([torch.nn.Parameter(torch.zeros(3))], 1.0, node=None)  # no gradient at all
