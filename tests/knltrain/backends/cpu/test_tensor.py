"""Who masks a gradient, and how a share in it is written."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.cpu.memory import Buffer, Place
from knltrain.backends.cpu.tensor import Flow, Tensor


def _tensor(with_gradient: bool = True) -> Tensor:
    values, gradient = (Buffer(name, (2, 3)) for name in ("values", "gradient"))
    values.array, gradient.array = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    made = Tensor("it", (3,), Place(values), Place(gradient) if with_gradient else None)
    made.values.bind()
    if made.gradient is not None:
        made.gradient.bind()
    return made


def test_tensor_is_neither_rectified_nor_fixed_nor_masked_at_first() -> None:
    tensor = _tensor()
    assert not (tensor.rectified or tensor.fixed or tensor.masked)
    tensor.mark_masked()
    assert tensor.masked


def test_part_of_a_concatenation_is_masked_with_the_whole() -> None:
    part, middle, whole = _tensor(), _tensor(), _tensor()
    part.parent, middle.parent = middle, whole
    assert not part.masked
    whole.mark_masked()
    assert part.masked
    part.mark_masked(False)  # whose last share no mask was applied to
    assert not part.masked


def test_flow_writes_into_the_gradient_of_its_tensor() -> None:
    tensor = _tensor()
    flow = Flow(tensor)
    assert flow.is_needed
    assert flow.can_mask
    assert tensor.gradient is not None
    assert flow.out is tensor.gradient.array
    assert flow.manner == {"add": False, "mask": None}
    flow.add = flow.mask = True
    assert flow.manner == {"add": True, "mask": tensor.values.array}


@pytest.mark.parametrize("with_gradient", [True, False])
def test_flow_is_needed_where_there_is_a_gradient(with_gradient: bool) -> None:
    assert Flow(_tensor(with_gradient), can_mask=False).is_needed is with_gradient
