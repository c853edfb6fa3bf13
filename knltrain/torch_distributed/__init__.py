"""The shared memory of a node as a backend of ``torch.distributed``, for any PyTorch program.

    import knltrain.torch_distributed  # registers the backend "knlshm"

    torch.distributed.init_process_group("knlshm")

All ranks must run on one computer and all tensors be on the CPU. The rest of the program stays as
it is: DistributedDataParallel, FSDP2 (fully_shard), ZeroRedundancyOptimizer and the collectives of
``torch.distributed`` work as with gloo.
"""

from __future__ import annotations

import torch.distributed as dist

from knltrain.torch_distributed.process_group import BACKEND, KnlshmProcessGroup
from knltrain.torch_distributed.rendezvous import create_process_group

__all__ = ["BACKEND", "KnlshmProcessGroup"]

if not hasattr(dist.Backend, BACKEND.upper()):
    # A plain string for `devices` would register every letter of it as a device.
    dist.Backend.register_backend(BACKEND, create_process_group, extended_api=True, devices=["cpu"])
