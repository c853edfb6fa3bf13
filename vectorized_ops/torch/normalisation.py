"""Batch normalisation for training, fused with the ReLU, or the addition and ReLU, behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.numba.kernels.arithmetic.batch_normalisation import TABLE_ROWS
from vectorized_ops.numba.kernels.channels_last import normalisation as kernels
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.torch._aliases import aliases, arrived, place_for
from vectorized_ops.torch._door import address, floats, maps
from vectorized_ops.torch._gradients import curved
from vectorized_ops.torch._rows import (
    Pass,
    are_parameters,
    is_plain,
    pixelwise,
    rows_of,
    scratch,
)
from vectorized_ops.torch.activation import applied


@dataclass(frozen=True, slots=True)
class Batch:
    """How a batch is normalised: by its own statistics or by the running ones."""

    training: bool
    momentum: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class State:
    """Parameters and statistics of a layer, (C,) each, as far as it has them.

    They are float32, or all of the type of the images.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All of them, in the order of PyTorch's arguments."""
        return self.running_mean, self.running_var, self.weight, self.bias


def batch_norm(
    images: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    addend: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Normalise images (N, C, H, W), add `addend` of their shape, and take the ReLU.

    For the rest as `torch.nn.functional.batch_norm`, which also does the work for anything but
    float32 and bfloat16 on the CPU. Values are read once for the statistics and once to be
    normalised, values and gradient twice for the gradient.
    """
    state = State(running_mean, running_var, weight, bias)
    batch, epilogue = Batch(training, momentum, eps), RELU if relu else IDENTITY
    return normalise(images, state, batch, addend, epilogue)[0]


def normalise(
    images: Tensor,
    state: State,
    batch: Batch,
    addend: Tensor | None = None,
    epilogue: Epilogue = IDENTITY,
    takers: int = 1,
    overwrite: bool = False,
) -> tuple[Tensor, ...]:
    """Return the epilogue of the result of `batch_norm` once for each consumer.

    Behind an addition it is a ReLU at most. With `overwrite`, the arriving gradient has no other
    consumer and may be overwritten.
    """
    if not _is_ours(images, addend, state, batch):
        return (_by_torch(images, state, batch, addend, epilogue),) * takers
    if addend is not None and epilogue == RELU:
        results: tuple[Tensor, ...] = _join(
            images, addend, state.weight, state.bias, state, batch, takers, overwrite
        )
        return results
    out: Tensor = _normalise(
        images, state.weight, state.bias, state, batch, epilogue, overwrite and addend is None
    )
    return (out if addend is None else out + addend,) * takers


def _is_ours(images: Tensor, addend: Tensor | None, state: State, batch: Batch) -> bool:
    known = batch.training or state.running_mean is not None
    in_pairs = (state.running_mean is None) is (state.running_var is None)
    return (
        is_plain(images, addend)
        and are_parameters(images, *state.tensors)
        and images.dim() == 4
        and (addend is None or addend.shape == images.shape)
        and all(_is_of(images.shape[1], tensor) for tensor in state.tensors)
        and known
        and in_pairs
        and all(type(number) in (int, float) for number in (batch.momentum, batch.epsilon))
        and not (batch.training and images.numel() == images.shape[1])
    )


def _is_of(channels: int, tensor: Tensor | None) -> bool:
    return tensor is None or (tensor.shape == (channels,) and tensor.is_contiguous())


def _by_torch(
    images: Tensor, state: State, batch: Batch, addend: Tensor | None, epilogue: Epilogue
) -> Tensor:
    out = functional.batch_norm(
        images, state.running_mean, state.running_var, state.weight, state.bias, batch.training,
        batch.momentum, batch.epsilon,
    )  # fmt: skip
    out = out if addend is None else out + addend
    return applied(epilogue, out)


class _Normalisation(torch.autograd.Function):
    """Of (images, weight, bias, state, batch, epilogue, overwrite)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, *given: Any) -> Tensor:
        _, _, state, batch, epilogue, overwrite = given
        images = pixelwise(images)
        table, out = _table(images, state, batch), maps(images.shape, images.dtype)
        passes, scalar = kernels.passes_of(epilogue, -math.inf)
        Pass([out], [images], table=table, scalar=scalar).run(passes.normalise)
        ctx.save_for_backward(images, table)
        ctx.training, ctx.overwrite = batch.training, overwrite
        ctx.epilogue = epilogue
        return out

    @staticmethod
    @curved
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, table = ctx.saved_tensors
        images, arriving = pixelwise(images), pixelwise(gradient)
        sums = scratch(images, 2)
        passes, scalar = kernels.passes_of(ctx.epilogue, math.nan)
        given = Pass([], [images, arriving], table=table, scalar=scalar, sums=sums)
        given.run(passes.gradient_sums)
        table, slopes = _slopes(ctx, given, table, images.shape[1], first=1)
        if not ctx.needs_input_grad[0]:
            return None, *slopes, *[None] * 4
        out = place_for(arriving, gradient, ctx.overwrite)
        Pass([out], [images, arriving], table=table, scalar=scalar).run(passes.denormalise)
        return out, *slopes, *[None] * 4


class _Joint(torch.autograd.Function):
    """Of (images, addend, weight, bias, state, batch, takers, overwrite)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, addend: Tensor, *given: Any) -> tuple[Tensor, ...]:
        _, _, state, batch, takers, overwrite = given
        images = pixelwise(images)
        table, out = _table(images, state, batch), maps(images.shape, images.dtype)
        Pass([out], [images, pixelwise(addend)], table=table, scalar=0.0).run(kernels.join)
        ctx.save_for_backward(images, table, out)
        ctx.set_materialize_grads(False)
        ctx.training, ctx.overwrite = batch.training, overwrite
        return aliases(out, takers)

    @staticmethod
    @curved
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        images, table, output = ctx.saved_tensors
        images, output, arriving = pixelwise(images), rows_of(output), arrived(gradients)
        if not arriving:
            return (None,) * 8
        first = next(gradient for gradient in gradients if gradient is not None)
        cut, sums = place_for(arriving[0], first, ctx.overwrite), scratch(images, 2)
        given = Pass([cut], [images, output], arriving, table=table, sums=sums)
        given.run(kernels.joint_gradient_sums)
        table, slopes = _slopes(ctx, given, table, images.shape[1], first=2)
        out = None
        if ctx.needs_input_grad[0]:
            out = maps(images.shape, images.dtype)
            Pass([out], [images, cut], table=table, scalar=math.nan).run(kernels.denormalise)
        return out, cut, *slopes, *[None] * 4


_normalise: Any = _Normalisation.apply
_join: Any = _Joint.apply


def _table(images: Tensor, state: State, batch: Batch) -> Tensor:
    """Return what the kernels need to know of each channel; training moves the statistics."""
    channels = images.shape[1]
    table = floats(TABLE_ROWS, padded(channels)).zero_()
    place, moving = address(table, table.shape), (state.running_mean, state.running_var)
    given = [None if t is None else t.float() for t in (state.weight, state.bias, *moving)]
    parameters = _addresses(channels, *given)
    if not batch.training:
        kernels.running_statistics(channels, place, parameters, batch.epsilon)
        return table
    pivots, sums = floats(1, padded(channels)), scratch(images, 2)
    statistics = Pass([], [images], table=pivots, sums=sums)
    statistics.run(kernels.moments)
    statistics.finish(kernels.statistics, place, parameters, batch.epsilon, batch.momentum)
    for own, moved in zip(moving, given[2:], strict=True):
        if own is not moved and own is not None and moved is not None:
            own.copy_(moved)
    return table


def _slopes(
    ctx: Any, given: Pass, table: Tensor, channels: int, first: int
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the table for `denormalise`, and the gradients of weight and bias.

    These are the arguments `first` and the next.
    """
    slopes = [
        floats(channels) if ctx.needs_input_grad[place] else None for place in (first, first + 1)
    ]
    table = floats(*table.shape)
    place = address(table, (TABLE_ROWS, padded(channels)))
    given.finish(kernels.slopes, place, _addresses(channels, *slopes), ctx.training)
    return table, slopes


def _addresses(channels: int, *tensors: Tensor | None) -> Any:
    places = [0 if tensor is None else address(tensor, (channels,)) for tensor in tensors]
    return np.array(places, np.int64)


def normalise_by(
    layer: nn.BatchNorm2d,
    images: Tensor,
    addend: Tensor | None = None,
    epilogue: Epilogue = IDENTITY,
    takers: int = 1,
    overwrite: bool = False,
) -> tuple[Tensor, ...]:
    """Do what the layer does, and `normalise` beyond it: in training its statistics move."""
    layer._check_input_dim(images)
    follows = layer.training and layer.track_running_stats
    momentum = 0.0 if layer.momentum is None else layer.momentum
    if follows and layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
        if layer.momentum is None:
            momentum = 1.0 / float(layer.num_batches_tracked)
    known = follows or not layer.training
    state = State(
        layer.running_mean if known else None,
        layer.running_var if known else None,
        layer.weight,
        layer.bias,
    )
    training = layer.training or layer.running_mean is None
    return normalise(
        images, state, Batch(training, momentum, layer.eps), addend, epilogue, takers, overwrite
    )


class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d` by `batch_norm`."""

    def forward(self, images: Tensor) -> Tensor:
        """Normalise images (N, C, H, W)."""
        return normalise_by(self, images)[0]


class BatchNormReLU2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d` and the ReLU of its result."""

    def forward(self, images: Tensor) -> Tensor:
        """Normalise images (N, C, H, W) and cut them off at zero."""
        return normalise_by(self, images, epilogue=RELU)[0]


class BatchNormAddReLU2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`, an addition and the ReLU of the sum, where residual branches join."""

    def forward(self, images: Tensor, addend: Tensor) -> Tensor:  # type: ignore[override]
        """Normalise images (N, C, H, W), add `addend` of their shape, and cut off at zero."""
        return normalise_by(self, images, addend, RELU)[0]
