from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from agreement import agree, channels, close, layouts, placed, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.epilogue import RELU, Epilogue
from vectorized_ops.shapes import ACTIVATION_FUNCTIONS
from vectorized_ops.torch import (
    BatchNorm2d,
    BatchNormAddReLU2d,
    BatchNormReLU2d,
    batch_norm,
)
from vectorized_ops.torch.activation import applied
from vectorized_ops.torch.normalisation import Batch, State, normalise

pytestmark = pytest.mark.usefixtures("many_threads")

Data = st.DataObject


def draw_layer(count: int) -> list[Tensor]:
    """Running mean, running variance, weight and bias."""
    return [torch.randn(count), torch.rand(count) + 0.1, torch.randn(count), torch.randn(count)]


@given(data=st.data())
@settings(max_examples=60)
def test_values_gradients_and_running_statistics_are_those_of_pytorch(data: Data) -> None:
    torch.manual_seed(data.draw(st.integers(0, 999)))
    count, side = data.draw(channels), (data.draw(sizes), data.draw(sizes))
    images = torch.randn(data.draw(st.integers(2, 5)), count, *side) * 3 + torch.randn(count, 1, 1)
    images = placed(images, data.draw(layouts))
    mean, variance, weight, bias = draw_layer(count)
    training, relu = data.draw(st.booleans()), data.draw(st.booleans())
    joins = data.draw(st.booleans())
    addend = placed(torch.randn(images.shape), data.draw(layouts)) if joins else None
    moved = mean.clone(), variance.clone()
    exactly_moved = mean.double(), variance.double()

    def ours(images: Tensor, weight: Tensor, bias: Tensor, *added: Tensor) -> Tensor:
        return batch_norm(
            images, *moved, weight, bias, training, 0.3, 0.01, addend=next(iter(added), None),
            relu=relu,
        )  # fmt: skip

    def before_relu(
        images: Tensor, weight: Tensor, bias: Tensor, *added: Tensor, state: tuple[Tensor, ...] = ()
    ) -> Tensor:
        state = state or (mean.double(), variance.double())
        out = functional.batch_norm(images, *state, weight, bias, training, 0.3, 0.01)
        return out + added[0] if added else out

    def theirs(*given: Tensor) -> Tensor:
        out = before_relu(*given, state=exactly_moved)
        return functional.relu(out) if relu else out

    tensors = [images, weight, bias, *([] if addend is None else [addend])]
    edge = before_relu if relu else None
    agree(ours, theirs, *tensors, edge=edge, layout=data.draw(layouts), tolerance=1e-5)
    for found, expected in zip(moved, exactly_moved, strict=True):
        close(found, expected)


def test_statistics_survive_a_mean_far_from_zero() -> None:
    images = torch.randn(8, 3, 20, 20) + torch.tensor([1e3, -3e4, 0.0]).view(3, 1, 1)
    mean, variance = torch.zeros(3), torch.zeros(3)
    batch_norm(images, mean, variance, training=True, momentum=1.0)
    exact = images.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean.double(), exact.mean(1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(variance.double(), exact.var(1), rtol=1e-5, atol=0)


def test_a_channel_of_equal_values_has_no_variance() -> None:
    out = batch_norm(torch.full((3, 2, 4, 4), 7.0), None, None, training=True)
    assert torch.equal(out, torch.zeros_like(out))


@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_what_is_not_a_number_spoils_its_channel_only(strange: float) -> None:
    images = torch.randn(2, 20, 5, 5)
    images[1, 3, 2, 2] = strange
    out = batch_norm(images, None, None, training=True, relu=True)
    assert out[:, 3].isnan().all()
    others = [channel for channel in range(20) if channel != 3]
    assert out[:, others].isfinite().all()


def test_not_a_number_in_an_addend_stays() -> None:
    addend = torch.randn(2, 5, 3, 3)
    addend[0, 4, 1, 1] = math.nan
    out = batch_norm(torch.randn(2, 5, 3, 3), None, None, training=True, addend=addend, relu=True)
    assert torch.equal(out.isnan(), addend.isnan())


@pytest.mark.parametrize("missing", ["weight", "bias", "both"])
def test_layers_without_scale_or_shift(missing: str) -> None:
    images, parameter = torch.randn(3, 6, 4, 4), torch.randn(6)
    weight = None if missing in ("weight", "both") else parameter
    bias = None if missing in ("bias", "both") else parameter
    agree(
        lambda images: batch_norm(images, None, None, weight, bias, True),
        lambda images: functional.batch_norm(
            images,
            None,
            None,
            None if weight is None else weight.double(),
            None if bias is None else bias.double(),
            True,
        ),
        images,
    )


def test_a_single_value_per_channel_is_refused_as_by_pytorch() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        batch_norm(torch.randn(1, 4, 1, 1), None, None, training=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_types_are_left_to_pytorch(dtype: torch.dtype) -> None:
    images = torch.randn(2, 4, 3, 3, dtype=dtype)
    out = batch_norm(images, None, None, training=True, addend=images, relu=True)
    plain = functional.batch_norm(images, None, None, training=True)
    assert torch.equal(out, functional.relu(plain + images))


def test_second_derivatives_are_refused_and_not_wrong() -> None:
    images = torch.randn(2, 4, 3, 3, requires_grad=True)
    out = batch_norm(images, None, None, training=True).square().sum()
    (gradient,) = torch.autograd.grad(out, images, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiate twice|once_differentiable"):
        gradient.sum().backward()


def test_a_gradient_arrives_twice_where_the_graph_is_kept() -> None:
    images = torch.randn(2, 4, 3, 3, requires_grad=True)
    out = batch_norm(images, None, None, training=True, relu=True)
    gradient = torch.randn(out.shape)
    first, second = (
        torch.autograd.grad(out, images, gradient, retain_graph=True)[0] for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("joins", [False, True])
def test_bits_are_the_same_every_time(joins: bool, same_bits: Callable[..., None]) -> None:
    images, addend = torch.randn(5, 21, 9, 7), torch.randn(5, 21, 9, 7)
    gradient = torch.randn(5, 21, 9, 7)

    def compute() -> list[Tensor]:
        given, weight = images.clone().requires_grad_(), torch.ones(21, requires_grad=True)
        added = addend if joins else None
        out = batch_norm(given, None, None, weight, training=True, addend=added, relu=True)
        out.backward(gradient)
        assert given.grad is not None
        assert weight.grad is not None
        return [out.detach(), given.grad, weight.grad]

    same_bits(compute)


@pytest.mark.parametrize(
    "epilogue",
    [Epilogue(slope=0.0, ceiling=1.0), Epilogue(slope=0.25), *map(Epilogue, ACTIVATION_FUNCTIONS)],
    ids=["clipped", "leaky", *ACTIVATION_FUNCTIONS],
)
def test_values_and_gradients_behind_an_activation_are_those_of_pytorch(
    epilogue: Epilogue,
) -> None:
    images, weight, bias = torch.randn(3, 18, 5, 7), torch.randn(18), torch.randn(18)

    def ours(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        state, batch = State(None, None, weight, bias), Batch(True, 0.1, 1e-5)
        return normalise(images, state, batch, None, epilogue)[0]

    def before(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.batch_norm(images, None, None, weight, bias, training=True)

    def theirs(*given: Tensor) -> Tensor:
        return applied(epilogue, before(*given))

    agree(ours, theirs, images, weight, bias, tolerance=2e-5)


def test_gradients_of_several_takers_are_summed() -> None:
    images, addend = torch.randn(2, 18, 5, 5), torch.randn(2, 18, 5, 5)
    state, batch = State(None, None, None, None), Batch(True, 0.1, 1e-5)

    def ours(images: Tensor, addend: Tensor) -> Tensor:
        outs = normalise(images, state, batch, addend, RELU, takers=3)
        return outs[0] * 2 + outs[2] * 3  # nobody takes the second

    def sums(images: Tensor, addend: Tensor) -> Tensor:
        return functional.batch_norm(images, None, None, training=True) + addend

    agree(
        ours,
        lambda *given: functional.relu(sums(*given)) * 5,
        images, addend, edge=sums, tolerance=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"track_running_stats": False}])
@pytest.mark.parametrize("kind", [BatchNorm2d, BatchNormReLU2d, BatchNormAddReLU2d])
def test_modules_keep_statistics_as_those_of_pytorch(kind: type, options: dict) -> None:
    ours, theirs = kind(7, **options), nn.BatchNorm2d(7, **options)
    for step in range(4):
        ours.train(step < 3), theirs.train(step < 3)
        images, addend = torch.randn(3, 7, 4, 5), torch.randn(3, 7, 4, 5)
        joins = kind is BatchNormAddReLU2d
        found = ours(images, addend) if joins else ours(images)
        expected = theirs(images) + addend * joins
        close(found, expected if kind is BatchNorm2d else functional.relu(expected))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name].float(), value.float())


def test_modules_refuse_what_is_no_image() -> None:
    with pytest.raises(ValueError, match="expected 4D input"):
        BatchNorm2d(3)(torch.randn(4, 3))
