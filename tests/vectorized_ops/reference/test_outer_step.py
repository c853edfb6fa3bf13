from __future__ import annotations

import numpy as np
import torch

from vectorized_ops.reference.outer_step import synchronous_outer_step


def test_nesterovs_outer_step_is_that_of_torch() -> None:
    rng = np.random.default_rng(2)
    center, velocity = rng.standard_normal(6, np.float32), np.zeros(6, np.float32)
    parameter = torch.nn.Parameter(torch.from_numpy(center.copy()))
    outer = torch.optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(4):
        locals_ = center + rng.standard_normal((3, 6)).astype(np.float32)
        parameter.grad = parameter.detach() - torch.from_numpy(locals_.mean(axis=0))
        outer.step()
        synchronous_outer_step(locals_, center, velocity, 0.9, 1.0, 0.7 * 0.9, 0.7)
        np.testing.assert_allclose(center, parameter.detach().numpy(), rtol=1e-5, atol=1e-6)
        assert np.array_equal(locals_, np.stack([center] * 3))
