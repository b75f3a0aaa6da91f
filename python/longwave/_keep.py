"""States of the loop's own objects as blobs of a checkpoint."""

import io
from typing import Any, Dict, List, Mapping, Protocol, Tuple

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


def save_states(keep: Mapping[str, Keeps]) -> List[Tuple[str, memoryview]]:
    return [(name, _save(kept).getbuffer()) for name, kept in keep.items()]


def check_loadable(keep: Mapping[str, Keeps]) -> None:
    """Raises TypeError now, instead of after a crash, for a state that can be saved but not loaded."""
    for name, kept in keep.items():
        file = _save(kept)
        file.seek(0)
        try:
            torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            raise TypeError(
                f"keep[{name!r}]: got a state that cannot be loaded again, wanted tensors and plain values: {error}"
            ) from error


def _save(kept: Keeps) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(kept.state_dict(), file)
    return file


def load_state(kept: Keeps, blob: bytes, name: str) -> None:
    """Loading executes no code of a blob: a blob has tensors and plain values."""
    try:
        kept.load_state_dict(torch.load(io.BytesIO(blob), map_location="cpu", weights_only=True))
    except Exception as error:
        raise RuntimeError(f"keep[{name!r}]: the checkpoint's state does not fit: {error}") from error
