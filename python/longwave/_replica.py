"""A model's trained parameters beside the flat fp32 array that is synced."""

import contextlib
import ctypes
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, cast

import torch

from longwave import _library
from longwave._warning import Warned, warn

TRAINED_TYPES = (torch.float32, torch.bfloat16)


def trained_parameters(model: torch.nn.Module) -> Dict[str, torch.nn.Parameter]:
    """The trained parameters under the model's names, tied ones once, frozen ones not. ValueError: a parameter that
    cannot be synced. The prefixes of torch.compile, DistributedDataParallel and DataParallel are left out, so that models
    with and without them are the same."""
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise ValueError("model: got FullyShardedDataParallel (FSDP1), wanted fully_shard (FSDP2)")
    wrapped = _wrapped_prefixes(model)

    def own(name: str) -> str:
        for prefix in wrapped:
            if name.startswith(f"{prefix}module."):
                name = prefix + name[len(f"{prefix}module.") :]
        return name.replace("_orig_mod.", "")

    trained = {own(name): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trained:
        raise ValueError("model: got no parameter that requires a gradient, wanted at least one")
    for name, parameter in trained.items():
        if parameter.dtype not in TRAINED_TYPES:
            raise ValueError(f"{name}: got {parameter.dtype}, wanted torch.float32 or torch.bfloat16")
        if parameter.is_meta:
            raise ValueError(f"{name}: got a parameter on the meta device, wanted weights")
        if type(parameter.data) is not torch.Tensor and not is_sharded(parameter):
            raise ValueError(
                f"{name}: got a {type(parameter.data).__name__}, wanted a plain tensor, or a DTensor of fully_shard"
            )
    return trained


def _wrapped_prefixes(model: torch.nn.Module) -> List[str]:
    """The names of the model's DistributedDataParallel and DataParallel modules, innermost first, each with its dot."""
    kinds = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    found = [f"{name}." if name else "" for name, module in model.named_modules() if isinstance(module, kinds)]
    return sorted(found, key=len, reverse=True)


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a DTensor, of any placement."""
    return hasattr(tensor, "to_local") and hasattr(tensor, "placements")


def _is_sparse(tensor: torch.Tensor) -> bool:
    return tensor.layout != torch.strided


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The process's share of a tensor, in the same memory: all of it, or a DTensor's shard."""
    return cast(Any, tensor).to_local() if is_sharded(tensor) else tensor


def warn_of_buffers(model: torch.nn.Module, member: Warned) -> None:
    """Running statistics are no parameters: each worker keeps its own."""
    own = [
        f"{prefix}.{name}".lstrip(".")
        for prefix, module in model.named_modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
        for name, buffer in module.named_buffers(recurse=False)
        if buffer.is_floating_point()
    ]
    if own:
        shown = ", ".join(own[:4]) + (f" and {len(own) - 4} more" if len(own) > 4 else "")
        warn(
            f"{len(own)} buffers of BatchNorm are not synced, each worker has its own: {shown}. GroupNorm or "
            "LayerNorm has none; or let the worker that saves the model run it once more over some batches.",
            "buffers",
            member,
        )


def flat_device(parameters: Iterable[torch.nn.Parameter]) -> torch.device:
    """The device of the flat array. Parameters elsewhere, or on several devices, are synced through the host's
    memory."""
    devices = {parameter.device for parameter in parameters}
    device = devices.pop()
    on_cuda = not devices and device.type == "cuda" and _library.library().lw_can_use(_library.CUDA) == 0
    return device if on_cuda else torch.device("cpu")


def check_alias(trained: Dict[str, torch.nn.Parameter]) -> None:
    device = flat_device(trained.values())
    for name, parameter in trained.items():
        if is_sharded(parameter):
            raise ValueError(
                f"alias: got {name}, a DTensor of fully_shard, wanted whole parameters: fully_shard has the memory of its "
                "shards"
            )
        if parameter.dtype != torch.float32 or parameter.device != device:
            raise ValueError(
                f"alias: got {name} of {parameter.dtype} on {parameter.device}, wanted torch.float32 on {device}"
            )


_device: Optional[torch.device] = None  # the GPU that the library has memory and streams on, for the rest of the process


def _stream_of(device: torch.device) -> Optional[torch.cuda.Stream]:
    """The stream that the library works on; None: it works on the CPU. ValueError: it works on another GPU."""
    global _device
    if device.type != "cuda":
        return None
    if _device not in (None, device):
        raise ValueError(
            f"model: got parameters on {device}, wanted {_device}, on which this process has synced a model: a process syncs "
            "on one GPU; start one for each"
        )
    _device = device
    return torch.cuda.current_stream(device)


class Replica:
    """Copies parameters to the flat array before a sync reads it, and back after one has changed it.

    For bf16 parameters the flat array receives the changes since the last copy, so that the rounding of the fp32
    weights is never sent. With `alias` (fp32 only) the parameters are views of the flat array, without copies.

    Of a DTensor the flat array has this process's shard.
    """

    def __init__(
        self,
        parameters: Sequence[torch.nn.Parameter],
        offsets: Sequence[int],
        count: int,
        sends_gradient: bool,
        alias: bool,
    ) -> None:
        self.parameters = list(parameters)
        self.device = flat_device(self.parameters)
        self._stream = _stream_of(self.device)
        self._is_on_cuda = any(parameter.device.type == "cuda" for parameter in self.parameters)
        pinned = self.device.type == "cpu" and self._is_on_cuda
        self.theta = torch.empty(count, dtype=torch.float32, device=self.device, pin_memory=pinned)
        self._views = self._cut(self.theta, offsets)
        self.gradient: Optional[torch.Tensor] = None
        self._gradient_views: List[torch.Tensor] = []
        if sends_gradient:
            self.gradient = torch.zeros(count, dtype=torch.float32, device=self.device, pin_memory=pinned)
            self._gradient_views = self._cut(self.gradient, offsets)
        self._exact = [i for i, p in enumerate(self.parameters) if p.dtype == torch.float32]
        self._rounded = [i for i, p in enumerate(self.parameters) if p.dtype != torch.float32]
        self._seen: List[torch.Tensor] = []  # the rounded ones' values when last copied
        with torch.no_grad():
            for view, parameter in zip(self._views, self.parameters):
                view.copy_(local(parameter))
            self._note_seen()
        self.alias = alias
        if alias:
            self._make_views()

    def _cut(self, flat: torch.Tensor, offsets: Sequence[int]) -> List[torch.Tensor]:
        with torch.no_grad():
            values = [local(parameter) for parameter in self.parameters]
        return [flat[at : at + value.numel()].view(value.shape) for at, value in zip(offsets, values)]

    def _make_views(self) -> None:
        for view, parameter in zip(self._views, self.parameters):
            parameter.data = view

    def is_unchanged(self) -> bool:
        """Whether the parameters are as the last sync left them."""
        with torch.no_grad():
            kept = [self._views[i] for i in self._exact] + self._seen
            own = [local(self.parameters[i]) for i in self._exact + self._rounded]
            return all(torch.equal(one.to(other), other) for one, other in zip(own, kept))

    def gather(self) -> None:
        """θ ← the parameters."""
        if self.alias:
            return self._check_views()
        if any(self.parameters[i].dtype != torch.float32 for i in self._exact):
            raise RuntimeError("model: got another dtype than when Sync was made, wanted model.to(dtype) before Sync")
        with torch.no_grad():
            self._copy([self._views[i] for i in self._exact], [local(self.parameters[i]) for i in self._exact])
            for seen, i in zip(self._seen, self._rounded):
                moved = local(self.parameters[i]).float() - seen.float()
                self._views[i].add_(moved.to(self.device))
            self._note_seen()

    def _check_views(self) -> None:
        for view, parameter in zip(self._views, self.parameters):
            if parameter.data_ptr() != view.data_ptr():
                raise RuntimeError(
                    f"alias: the data of a parameter of shape {tuple(parameter.shape)} was replaced (by model.to, say), "
                    "wanted the view that Sync made of it"
                )

    def scatter(self) -> None:
        """The parameters ← θ."""
        if self.alias:
            return self._check_views()
        with torch.no_grad():
            self._copy([local(parameter) for parameter in self.parameters], self._views)
            self._note_seen()

    def gather_gradient(self) -> None:
        with torch.no_grad():
            for view, parameter in zip(self._gradient_views, self.parameters):
                if parameter.grad is None:
                    view.zero_()
                else:
                    view.copy_(parameter.grad.to_dense() if _is_sparse(parameter.grad) else local(parameter.grad))

    def scatter_gradient(self) -> None:
        """A parameter whose merged gradient is zero has none, so that an inner optimizer leaves it alone as it does without
        Longwave. The merged gradient decides, which is equal at all workers."""
        with torch.no_grad():
            is_used = (self._amounts() != 0).tolist()
            for view, parameter, used in zip(self._gradient_views, self.parameters, is_used):
                if not used:
                    parameter.grad = None
                    continue
                if parameter.grad is None or _is_sparse(parameter.grad):
                    parameter.grad = torch.empty_like(parameter)
                local(parameter.grad).copy_(view)

    def _amounts(self) -> torch.Tensor:
        """[parameters]: 0 if the merged gradient is."""
        return torch.stack(torch._foreach_norm(self._gradient_views, 1))

    def addresses(self) -> Tuple[int, Optional[int], int, Optional[int]]:
        """The arguments of Member.begin."""
        return (
            self.theta.data_ptr(),
            None if self.gradient is None else self.gradient.data_ptr(),
            _library.CPU if self._stream is None else _library.CUDA,
            None if self._stream is None else self._stream.cuda_stream,
        )

    def give_cache_back(self) -> None:
        """The memory that PyTorch keeps for later tensors, to the GPU: the library's comes from what is free there."""
        if self._stream is not None:
            with torch.cuda.device(self.device):
                torch.cuda.empty_cache()

    def refuse_capture(self) -> None:
        """RuntimeError: the loop's stream is captured into a CUDA graph, which would repeat neither the count nor a sync."""
        if self._is_on_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "got a step of Sync in the capture of a CUDA graph, whose replays would count no step and sync nothing; wanted "
                "a graph of forward and backward alone, or Sync(…, hook=False) and sync.step() after each replay"
            )

    @contextlib.contextmanager
    def on_device(self) -> Iterator[None]:
        """Orders a call of the library, which works on its own stream, after the loop's work so far, and the loop's
        later work after the call."""
        if self._stream is None:
            yield
            return
        with torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            is_other = current != self._stream
            if is_other:
                self._stream.wait_stream(current)
            yield
            if is_other:
                current.wait_stream(self._stream)

    @contextlib.contextmanager
    def in_callback(self) -> Iterator[None]:
        """The reverse, inside a call of the library: orders the loop's work after the library's so far, and the library's
        later work after the loop's. The loop keeps its own stream, on which its optimizer's states are."""
        if self._stream is None:
            yield
            return
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self._stream)
        yield
        self._stream.wait_stream(current)

    def _note_seen(self) -> None:
        rounded = [local(self.parameters[i]) for i in self._rounded]
        if not self._seen:
            self._seen = [torch.empty_like(parameter) for parameter in rounded]
        self._copy(self._seen, rounded)

    @staticmethod
    def _copy(to: Sequence[torch.Tensor], source: Sequence[torch.Tensor]) -> None:
        if to:
            torch._foreach_copy_(list(to), list(source))
