from __future__ import annotations

import numpy as np
import torch
from torch import nn

from vectorized_ops.torch._reads import Reads
from vectorized_ops.torch._tracing import TENSOR, Call, trace

ONE = Call((TENSOR,), ())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.pool = nn.Linear(2, 2), nn.MaxPool2d(2, return_indices=True)


def test_numbers_of_numpy_are_numbers_of_the_graph() -> None:
    graph = trace(Model(), lambda _, x: np.float64(2) * x + np.int32(3), ONE, Reads())
    given = torch.ones(2)
    assert torch.equal(torch.fx.GraphModule(nn.Module(), graph)(given), given * 5)


def test_whether_a_parameter_is_trained_is_read() -> None:
    reads, model = Reads(), Model()
    trace(model, lambda m, x: x if m.layer.weight.requires_grad else -x, ONE, reads)
    assert reads.changed() == []
    model.layer.weight.requires_grad_(False)
    assert reads.changed() == ["Linear.weight.requires_grad"]
