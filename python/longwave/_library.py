"""liblongwave.so by ctypes, as longwave.h declares it."""

import ctypes
import logging
import os
import sys
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional

from longwave._errors import LongwaveError

ABI = 1
MOVED, SKIPPED, SYNCS, OVER = 1, 2, 4, 8  # lw_event
CPU, CUDA = 0, 1  # lw_device
NO_LOSS = -sys.float_info.max  # LW_NO_LOSS

SaveFunction = CFUNCTYPE(c_int, c_void_p, c_void_p)
PlainFunction = CFUNCTYPE(c_int, c_void_p)
GatherFunction = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_double)


class Callbacks(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("context", c_void_p),
        ("save", SaveFunction),
        ("gradient_ready", PlainFunction),
        ("interrupted", PlainFunction),
    ]


class Node(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_uint32),
        ("ranks", c_uint32),
        ("context", c_void_p),
        ("all_gather", GatherFunction),
    ]


class Alike(Structure):
    _fields_ = [("name", c_char_p), ("hash", c_uint64), ("summary", c_char_p)]


class Options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("coordinator", c_char_p),
        ("name", c_char_p),
        ("token", c_char_p),
        ("state_dir", c_char_p),
        ("metrics", c_char_p),
        ("settings", POINTER(c_char_p)),
        ("setting_count", c_size_t),
        ("callbacks", POINTER(Callbacks)),
        ("node", POINTER(Node)),
        ("alike", POINTER(Alike)),
        ("alike_count", c_size_t),
    ]


class Range(Structure):
    _fields_ = [("begin", c_uint64), ("end", c_uint64)]


class Tensor(Structure):
    _fields_ = [("name", c_char_p), ("shape", POINTER(c_int64)), ("dimensions", c_size_t)]


class Run(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("parameters", c_uint64),
        ("steps", c_uint64),
        ("rounds", c_uint64),
        ("inner_steps", c_uint64),
        ("tokens_max", c_uint64),
        ("sends_gradient", c_int),
        ("takes_gradient", c_int),
    ]


class Arrays(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("theta", c_void_p),
        ("gradient", c_void_p),
        ("device", c_int),
        ("stream", c_void_p),
    ]


class Figures(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("step", c_uint64),
        ("round", c_uint64),
        ("skipped_steps", c_int64),
        ("tokens", c_uint64),
        ("bytes_pushed", c_uint64),
        ("bytes_pulled", c_uint64),
        ("worker", c_uint32),
        ("members", c_uint32),
        ("seconds_computing", c_double),
        ("seconds_syncing", c_double),
        ("learning_rate", c_double),
        ("writes_weights", c_int),
        ("inner_steps", c_uint64),
        ("rounds", c_uint64),
    ]


_PROTOTYPES = {
    "lw_abi": (c_uint32, []),
    "lw_version": (c_char_p, []),
    "lw_error": (c_char_p, []),
    "lw_set_log_level": (c_int, [c_int]),
    "lw_join": (c_int, [POINTER(Options), POINTER(Tensor), c_size_t, POINTER(c_void_p)]),
    "lw_describe": (c_int, [c_void_p, POINTER(Run)]),
    "lw_configuration": (c_char_p, [c_void_p]),
    "lw_offset": (c_int64, [c_void_p, c_size_t]),
    "lw_owned": (c_int64, [c_void_p, c_uint32, POINTER(Range), c_size_t]),
    "lw_can_use": (c_int, [c_int]),
    "lw_begin": (c_int, [c_void_p, POINTER(Arrays)]),
    "lw_step": (c_int, [c_void_p, c_double, c_uint64]),
    "lw_pause": (c_int, [c_void_p]),
    "lw_save": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "lw_load": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "lw_stats": (c_int, [c_void_p, POINTER(Figures)]),
    "lw_warn": (c_int, [c_void_p, c_char_p]),
    "lw_stop": (None, [c_void_p]),
    "lw_finish": (c_int, [c_void_p]),
    "lw_leave": (c_int, [c_void_p, c_char_p]),
    "lw_close": (None, [c_void_p]),
}

_loaded: Optional[ctypes.CDLL] = None


def library() -> Any:
    """The library: LONGWAVE_LIBRARY's, or the one beside this package. The first call loads it."""
    global _loaded
    if _loaded is None:
        path = os.environ.get("LONGWAVE_LIBRARY") or str(Path(__file__).with_name(f"liblongwave.so.{ABI}"))
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(
                f"liblongwave.so: got {path}, wanted the library that `pip install` of this package brings, or its "
                f"path in LONGWAVE_LIBRARY: {error}"
            ) from error
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        if loaded.lw_abi() != ABI:
            raise ImportError(f"{path}: got ABI {loaded.lw_abi()}, wanted {ABI}, this package's")
        _loaded = loaded
    return _loaded


def check(result: int) -> int:
    """The result of a call, or LongwaveError with its sentence."""
    if result < 0:
        raise LongwaveError(library().lw_error().decode("utf-8", "replace"), result)
    return result


def version() -> str:
    """The library's version: "0.1.0"."""
    return str(library().lw_version().decode())


def set_log_level(level: str) -> None:
    """Sets the least level of lines on standard error: debug, info (the default), warning, error."""
    levels = ["debug", "info", "warning", "error"]
    if level not in levels:
        raise ValueError(f"level: got {level!r}, wanted one of {', '.join(levels)}")
    check(library().lw_set_log_level(levels.index(level)))
    logging.getLogger("longwave").setLevel(level.upper())
