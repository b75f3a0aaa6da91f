"""The place at which a worker joins, from its arguments and the environment."""

import os
import socket
from dataclasses import dataclass
from typing import Iterable, List, Optional, Sequence


@dataclass
class Place:
    """The address and the identity with which a worker joins."""

    coordinator: str
    name: str
    token: Optional[str] = None
    state_dir: Optional[str] = None
    metrics: Optional[str] = None
    settings: Sequence[str] = ()
    is_named: bool = True  # by the caller or the environment


def place_of(
    address: Optional[str],
    name: Optional[str],
    token: Optional[str],
    state_dir: Optional[str],
    metrics: Optional[str],
    settings: Iterable[str],
) -> Place:
    """Fills in the environment's values, as `longwave up --worker-command` sets them."""
    address = address or os.environ.get("LONGWAVE_COORDINATOR")
    if not address:
        raise ValueError('address: got none, and no $LONGWAVE_COORDINATOR, wanted "host:port" of the coordinator')
    state_dir = state_dir or os.environ.get("LONGWAVE_STATE_DIR")
    name = name or os.environ.get("LONGWAVE_NAME")
    own = socket.gethostname() if state_dir else f"{socket.gethostname()}-{os.getpid()}"
    return Place(
        coordinator=address,
        name=name or own,
        token=token or os.environ.get("LONGWAVE_TOKEN"),
        state_dir=os.path.expanduser(state_dir) if state_dir else None,
        metrics=metrics if metrics is not None else os.environ.get("LONGWAVE_METRICS"),
        settings=[*_security_settings(), *settings],
        is_named=bool(name),
    )


def _security_settings() -> List[str]:
    """$LONGWAVE_SECURITY: "off", or the folder of this worker's credentials. By default its addresses decide."""
    security = os.environ.get("LONGWAVE_SECURITY")
    if not security:
        return []
    if security == "off":
        return ["security.mode=off"]
    return ["security.mode=on", f"security.folder={os.path.abspath(security)}"]
