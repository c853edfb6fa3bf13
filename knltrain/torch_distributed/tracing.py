"""Exclusion from torch.compile of code that communicates with other processes."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch

_dynamo: Any = torch._C._dynamo.eval_frame


def leave_alone(kind: type) -> None:
    """Make torch.compile run the functions of a class, and what they call, uncompiled.

    Inside a compiled program torch calls the methods of a group, as DistributedDataParallel does
    before forward(). The decorator for this, torch.compiler.disable, would import the compiler.
    """
    if not hasattr(_dynamo, "set_code_exec_strategy"):  # before torch 2.7
        return
    skip = _dynamo._FrameAction.SKIP
    for function in vars(kind).values():
        if isinstance(function, FunctionType):
            _dynamo.set_code_exec_strategy(
                function.__code__, _dynamo._FrameExecStrategy(skip, skip)
            )
