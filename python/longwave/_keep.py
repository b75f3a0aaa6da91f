"""States of the loop's own objects as blobs of a checkpoint."""

import copy
import io
from typing import Any, Callable, Dict, List, Mapping, Protocol, Tuple

import torch


class Keeps(Protocol):
    """An optimizer, a schedule, a loader: any object that can save and load its state."""

    def state_dict(self) -> Dict[str, Any]: ...

    def load_state_dict(self, state_dict: Dict[str, Any]) -> Any: ...


def check_keep(keep: Mapping[str, Keeps]) -> None:
    for name, kept in keep.items():
        if not 1 <= len(name.encode()) <= 50:
            raise ValueError(f"keep: got the name {name!r}, wanted 1 to 50 bytes")
        if not hasattr(kept, "state_dict") or not hasattr(kept, "load_state_dict"):
            raise TypeError(f"keep[{name!r}]: got a {type(kept).__name__}, wanted state_dict and load_state_dict")


def check_loadable(keep: Mapping[str, Keeps]) -> None:
    """Raises TypeError now, instead of after a crash, for a state that can be saved but not loaded."""
    save_states(keep)


def save_states(keep: Mapping[str, Keeps]) -> List[Tuple[str, memoryview]]:
    """Raises as check_loadable."""
    return [(name, _save(name, kept.state_dict())) for name, kept in keep.items()]


def _save(name: str, state: Any) -> memoryview:
    state = _mapped(state, _plain)
    # Loading depends on the types alone, so that one tensor stands for all.
    tensor = torch.empty(0)
    outline = _pickled(_mapped(state, lambda value: tensor if type(value) is torch.Tensor else value))
    outline.seek(0)
    try:
        torch.load(outline, map_location="cpu", weights_only=True)
    except Exception as error:
        raise TypeError(
            f"keep[{name!r}]: got a state that cannot be loaded again, wanted tensors and plain values: {error}"
        ) from error
    return _pickled(state).getbuffer()


def _pickled(state: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(state, file)
    return file


def _mapped(state: Any, change: Callable[[Any], Any]) -> Any:
    """A state whose leaves are changed, in containers of the same types."""
    if isinstance(state, dict):
        changed = copy.copy(state)  # of an OrderedDict with its attributes
        for key, value in state.items():
            changed[key] = _mapped(value, change)
        return changed
    if type(state) in (list, tuple):
        return type(state)(_mapped(value, change) for value in state)
    return change(state)


def _plain(value: Any) -> Any:
    """numpy's numbers, of a learning rate for example, as Python's: only these can be loaded."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 else value


def load_state(kept: Keeps, blob: bytes, name: str) -> None:
    """Loading executes no code of a blob: a blob has tensors and plain values."""
    try:
        kept.load_state_dict(torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True))
    except Exception as error:
        raise RuntimeError(f"keep[{name!r}]: the checkpoint's state does not fit: {error}") from error
