"""The built-in communication hooks of torch, for process groups that are written in Python.

The hooks in C++ read the results of futures as C++ objects, which no group in Python can provide.
Their equivalents in Python replace them.
"""

from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from knltrain.torch_distributed.member import Member


def have_twins_registered() -> None:
    """Make DistributedDataParallel register the Python hooks if its group is one of ours."""
    model: Any = DistributedDataParallel
    register = model._register_builtin_comm_hook

    @functools.wraps(register)
    def register_one(self: Any, comm_hook_type: Any) -> None:
        if not isinstance(self.process_group, Member):
            register(self, comm_hook_type)
            return
        self.logger._set_comm_hook_name(str(comm_hook_type))
        distributed: Any = dist
        distributed._register_comm_hook(self.reducer, self.process_group, _twin(comm_hook_type))

    model._register_builtin_comm_hook = register_one


def _twin(comm_hook_type: Any) -> Any:
    # Imported only when a hook is registered: it loads many modules of torch.
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    distributed: Any = dist
    is_compressed = comm_hook_type == distributed.BuiltinCommHookType.FP16_COMPRESS
    return default_hooks.fp16_compress_hook if is_compressed else default_hooks.allreduce_hook
