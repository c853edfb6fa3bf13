"""The backend ``ccl``: ranks of any computers exchange tensors by oneCCL."""

from knltrain.torch_distributed.ccl.process_group import BACKEND, CclProcessGroup
from knltrain.torch_distributed.ccl.rendezvous import create_process_group

__all__ = ["BACKEND", "CclProcessGroup", "create_process_group"]
