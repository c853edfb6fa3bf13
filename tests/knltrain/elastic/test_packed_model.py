"""A PyTorch model's tensors in one vector."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.elastic.packed_model import PackedModel
from knltrain.errors import ElasticError, NetworkError
from knltrain.network.layer_slices import layer_parts
from knltrain.vectors import FloatArray, aligned_zeros


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(7, 2))


def packed(model: nn.Module) -> tuple[PackedModel, FloatArray]:
    found = PackedModel(model)
    vector = aligned_zeros(found.packed_size)
    found.read_all(vector)
    return found, vector


def test_all_values_are_in_the_vector_module_by_module() -> None:
    model = convolutional()
    found, vector = packed(model)
    assert [each.name for each in found.parameters] == [
        *("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"),
        *("3.weight", "3.bias"),
    ]
    assert all(each.offset % 16 == 0 for each in found.parameters)
    for each in found.parameters:
        assert torch.equal(each.values_in(vector), each.tensor.detach())
    assert len(layer_parts(found)) == 3


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_weights_may_lie_in_the_vector_with_their_order_of_dimensions(
    layout: torch.memory_format,
) -> None:
    model = convolutional().to(memory_format=layout)
    found, vector = packed(model)
    assert found.is_in_place
    before = [each.clone() for each in model.parameters()]
    found.follow_weights(vector)
    assert all(map(torch.equal, model.parameters(), before))
    assert model[0].weight.is_contiguous(memory_format=layout)  # type: ignore[index, union-attr]
    vector += 1
    for now, then in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(now, then + 1)
    found.leave()
    vector += 1
    for now, then in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(now, then + 1)


def test_weights_that_a_module_has_moved_are_taken_back() -> None:
    model = convolutional()
    found, vector = packed(model)
    found.follow_weights(vector)
    model[0].weight.data = model[0].weight.data.clone() + 1  # type: ignore[union-attr]
    expected = model[0].weight.detach().clone()  # type: ignore[union-attr]
    found.keep_in_place(vector)
    assert torch.equal(found.parameters[0].values_in(vector), expected)
    vector += 1
    assert torch.equal(model[0].weight, expected + 1)  # type: ignore[arg-type]
    model.double()
    with pytest.raises(ElasticError, match=r"0.weight is torch.float64 on cpu now, but was torch."):
        found.keep_in_place(vector)


def test_statistics_of_any_layout_move_in_the_plain_order() -> None:
    model = nn.Conv2d(1, 1, 1)
    model.register_buffer("seen", torch.zeros(2, 3, 2, 2).to(memory_format=torch.channels_last))
    found, vector = packed(model)
    new = torch.arange(24.0).view(2, 3, 2, 2)
    model.seen += new  # type: ignore[operator]
    moved = found.statistics_since(vector)
    found.move_statistics(moved, vector)
    found.follow_statistics(vector)
    assert torch.equal(model.seen, new)  # type: ignore[arg-type]


def test_a_shared_tensor_is_packed_once() -> None:
    first = nn.Linear(4, 4)
    second = nn.Linear(4, 4)
    second.weight = first.weight
    found, _ = packed(nn.Sequential(first, second))
    assert [each.name for each in found.parameters] == ["0.weight", "0.bias", "1.bias"]


def test_the_vector_keeps_what_bfloat16_rounds_away() -> None:
    model = nn.Linear(4, 1, bias=False).to(torch.bfloat16)
    nn.init.ones_(model.weight)
    found, vector = packed(model)
    for _ in range(100):
        found.read_weights(vector)
        vector += np.float32(1e-4)  # a pull far below the distance of two numbers of bfloat16
        found.follow_weights(vector)
    np.testing.assert_allclose(vector[:4], 1.01, rtol=1e-4)
    assert model.weight.tolist() == [[1.0078125] * 4]


def test_a_model_in_float64_keeps_its_precision() -> None:
    model = nn.Linear(4, 1, bias=False).double()
    nn.init.constant_(model.weight, 1 + 1e-12)
    found, vector = packed(model)
    found.read_weights(vector)
    vector += np.float32(0.5)
    found.follow_weights(vector)
    assert model.weight.tolist() == [[1.5 + 1e-12] * 4]


def test_gradients_go_in_and_come_back() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model[1].bias.requires_grad_(False)  # type: ignore[union-attr, operator]
    found, vector = packed(model)
    model[0](torch.ones(1, 3)).sum().backward()
    found.read_gradient(vector)
    weight, bias = found.parameters[:2]
    assert bool((weight.values_in(vector) == 1).all())
    assert vector[found.parameters[2].offset :].any() == np.False_
    vector *= 2
    found.follow_gradient(vector)
    assert model[0].weight.grad.tolist() == [[2.0] * 3] * 2  # type: ignore[union-attr, operator]
    assert bool((model[1].weight.grad == 0).all())  # type: ignore[union-attr]
    assert model[1].bias.grad is None
    assert bias.part == slice(bias.offset, bias.offset + 2)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.ReLU(), "ReLU has no floating-point parameters"),
        (nn.Sequential(nn.LazyLinear(3)), "0.weight has no shape yet"),
        (nn.Linear(2, 2, dtype=torch.complex64), "weight is a tensor of torch.complex64"),
    ],
)
def test_models_that_cannot_be_packed_are_refused(model: nn.Module, said: str) -> None:
    with pytest.raises(NetworkError, match=said):
        PackedModel(model)
