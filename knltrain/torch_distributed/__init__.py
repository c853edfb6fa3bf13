"""Backends of ``torch.distributed`` for CPUs, for any PyTorch program.

    import knltrain.torch_distributed  # registers the backends "knlshm" and "ccl"

    torch.distributed.init_process_group("knlshm")

``knlshm`` is the shared memory of one computer, ``ccl`` is oneCCL (the extra ``oneccl``) between
any. All tensors must be on the CPU. The rest of the program stays as it is:
DistributedDataParallel, FSDP2 (fully_shard), ZeroRedundancyOptimizer and the collectives of
``torch.distributed`` work as with gloo.
"""

from __future__ import annotations

import torch.distributed as dist

from knltrain.torch_distributed import ccl, knlshm
from knltrain.torch_distributed.builtin_hooks import have_twins_registered

__all__ = ["ccl", "knlshm"]

_CREATED_BY = {
    knlshm.BACKEND: knlshm.create_process_group,
    ccl.BACKEND: ccl.create_process_group,
}

for _name, _create in _CREATED_BY.items():
    # Intel's archived bindings call theirs "ccl", too: whoever imports them first gets them.
    if not hasattr(dist.Backend, _name.upper()):
        # A plain string for `devices` would register every letter of it as a device.
        dist.Backend.register_backend(_name, _create, extended_api=True, devices=["cpu"])

have_twins_registered()
