"""A rank of a node under torchrun: rank 0 fails alone before an exchange of tensors that the others have begun, and
its library goes on to a message. The loop's default device is another one."""

import ctypes
import os

import torch
import torch.distributed as dist

from longwave._errors import LongwaveError
from longwave._node import Node

dist.init_process_group("gloo")
node = Node()
node.set_patience(4)
torch.set_default_device("meta")
try:
    if node.rank == 0:  # a message, as the library's
        mine, everyones = ctypes.create_string_buffer(256), ctypes.create_string_buffer(512)
        node.gather_bytes(ctypes.addressof(mine), 256, ctypes.addressof(everyones), 2)
    else:
        node.all_gather(torch.zeros(2, 1 << 16, device="cpu"), torch.zeros(1 << 16, device="cpu"))
except (LongwaveError, RuntimeError) as error:
    os.write(1, f"rank {node.rank} raises {type(error).__name__}\n".encode())
node.close()
