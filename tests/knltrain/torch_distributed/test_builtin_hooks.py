from __future__ import annotations

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import knltrain.torch_distributed  # noqa: F401 (has the twins registered)
from knltrain.torch_distributed.builtin_hooks import _twin


def test_hooks_have_their_twins() -> None:
    kinds = dist.BuiltinCommHookType
    assert _twin(kinds.ALLREDUCE) is default_hooks.allreduce_hook
    assert _twin(kinds.FP16_COMPRESS) is default_hooks.fp16_compress_hook


def test_models_register_them() -> None:
    register = DistributedDataParallel._register_builtin_comm_hook
    assert register.__wrapped__.__qualname__.startswith("DistributedDataParallel")
