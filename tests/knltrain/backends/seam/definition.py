"""What a backend has to compute, defined: PyTorch's modules in float64 and its own derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from knltrain.backends.backend import Backend
from knltrain.backends.loss import PLAIN, Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy
from knltrain.data.dataset import Batch
from knltrain.interchange.to_torch import NetworkModule, to_torch
from knltrain.network.layers import Dropout, StochasticDepth
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray
from vectorized_ops.reference import dropout


@dataclass(frozen=True, slots=True)
class Defined:
    """Loss and packed gradient of a step; sum of losses and number of right ones in evaluation."""

    loss: float
    gradient: npt.NDArray[np.float64]
    loss_sum: float
    right: int


def define(
    network: Network, parameters: FloatArray, batch: Batch, loss_of_it: Loss = PLAIN
) -> Defined:
    """Compute it all in float64; dropout drops what the cpu backend drops under the batch's key."""
    module = to_torch(network, ParameterVector(network, parameters.copy())).double()
    images = torch.from_numpy(batch.images_nhwc.astype(np.float64)).permute(0, 3, 1, 2)
    labels = torch.from_numpy(batch.labels)
    logits = module.eval()(images).detach()
    labels = labels if labels.ndim == 1 else labels.double()
    loss_sum = len(labels) * _loss(_PLAIN.get(type(loss_of_it), loss_of_it), logits, labels).item()
    right = _right(loss_of_it, logits, labels)
    loss, gradient = _training(network, module, images, labels, int(batch.key[0]), loss_of_it)
    return Defined(loss, gradient, loss_sum, right)


_PLAIN = {SoftmaxCrossEntropy: PLAIN}


def _loss(loss: Loss, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over the images."""
    if isinstance(loss, SoftmaxCrossEntropy):
        weights = None if loss.class_weights is None else torch.tensor(loss.class_weights)
        return functional.cross_entropy(
            logits,
            labels,
            None if weights is None else weights.double(),
            label_smoothing=loss.label_smoothing,
        )
    if labels.ndim == 1:
        labels = functional.one_hot(labels, logits.shape[1]).double()
    if isinstance(loss, SigmoidCrossEntropy):
        return functional.binary_cross_entropy(logits.sigmoid(), labels)
    return functional.mse_loss(logits, labels)


def _right(loss: Loss, logits: torch.Tensor, labels: torch.Tensor) -> int:
    if labels.ndim == 1:
        return int((logits.argmax(dim=1) == labels).sum())
    if isinstance(loss, SigmoidCrossEntropy):
        return sum(((logits > 0) == (labels > 0.5)).all(dim=1).tolist())
    return int((logits.argmax(dim=1) == labels.argmax(dim=1)).sum())


def _training(
    network: Network,
    module: NetworkModule,
    images: torch.Tensor,
    labels: torch.Tensor,
    key: int,
    loss_of_it: Loss,
) -> tuple[float, npt.NDArray[np.float64]]:
    _drop_by_key(network, module.train(), key)
    running = {}
    for name, norm in module.normalisations().items():
        assert norm.running_mean is not None and norm.running_var is not None
        running[f"{name}.running_mean"] = norm.running_mean.clone()
        running[f"{name}.running_variance"] = norm.running_var.clone()
        norm.momentum = 1.0  # what it keeps is the batch's own
    all_logits = module.logits(images, network.outputs)
    losses = [
        output.weight * _loss(loss_of_it, logits, labels)
        for output, logits in zip(network.outputs, all_logits, strict=True)
    ]
    loss = torch.stack(losses).sum()
    gradients = iter(torch.autograd.grad(loss, list(module.parameters())))
    packed = np.zeros(network.packed_size)
    for spec in network.parameters:
        if spec.is_statistic and spec.is_frozen:
            found = torch.zeros(spec.shape)
        elif spec.is_statistic:
            kind = "running_mean" if spec.role == "running_mean" else "running_var"
            found = running[spec.name] - getattr(module.normalisations()[spec.layer], kind)
        else:
            found = next(gradients)
        packed[spec.offset : spec.offset + spec.size] = found.numpy().reshape(-1)
    return loss.item(), packed


class _Dropped(nn.Module):
    """Dropout whose decisions follow from a key."""

    def __init__(self, rate: float, key: int, per_image: bool) -> None:
        super().__init__()
        self._operation, self._key = dropout.Dropout(rate, per_image), key

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        order = (0, 2, 3, 1) if values.ndim == 4 else (0, 1)
        factors = np.ones(values.permute(order).shape, np.float64)
        self._operation.forward(factors, factors, self._key)
        back = (0, 3, 1, 2) if values.ndim == 4 else (0, 1)
        return values * torch.from_numpy(factors).permute(back)


def _drop_by_key(network: Network, module: NetworkModule, key: int) -> None:
    dropouts = [layer for layer in network.layers if isinstance(layer, Dropout | StochasticDepth)]
    for number, layer in enumerate(dropouts):
        per_image, own_key = isinstance(layer, StochasticDepth), (key * 2**8 + number) % 2**64
        module._modules[layer.name] = _Dropped(layer.rate, own_key, per_image)


def check_step(
    backend: Backend,
    network: Network,
    parameters: FloatArray,
    batch: Batch,
    rtol: float = 1e-4,
    loss_of_it: Loss = PLAIN,
) -> None:
    """Hold a backend's step and evaluation against their definition."""
    expected = define(network, parameters, batch, loss_of_it)
    gradient = np.full_like(parameters, np.nan)
    loss = backend.loss_and_gradient(batch, parameters, gradient)
    assert abs(loss - expected.loss) <= 1e-5 * abs(expected.loss)
    check_gradient(network, gradient, expected.gradient, rtol)
    loss_sum, right = backend.evaluate(batch, parameters)
    assert abs(loss_sum - expected.loss_sum) <= 1e-5 * abs(expected.loss_sum)
    assert right == expected.right
    logits = np.full((len(batch.labels), *network.output_shape), np.nan, np.float32)
    assert backend.evaluate(batch, parameters, logits) == (loss_sum, right)
    if batch.labels.ndim == 2 or not isinstance(loss_of_it, SoftmaxCrossEntropy):
        return
    assert np.count_nonzero(logits.argmax(axis=1) == batch.labels) == right
    largest = logits.max(axis=1, keepdims=True).astype(np.float64)
    surprises = np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0]
    surprises -= logits[np.arange(len(logits)), batch.labels]
    assert abs(surprises.sum() - loss_sum) <= 1e-4 * abs(loss_sum)


def check_gradient(
    network: Network, found: FloatArray, expected: npt.NDArray[np.float64], rtol: float
) -> None:
    """Compare parameter by parameter, each as a vector; what lies between them must be zero.

    By their lengths: rounding may move a value across the kink of a ReLU, or make another one the
    largest of its window, and so change single derivatives, but hardly the length of the whole.
    """
    between = np.ones(network.packed_size, bool)
    whole = np.linalg.norm(expected)
    for spec in network.parameters:
        place = slice(spec.offset, spec.offset + spec.size)
        between[place] = False
        error = np.linalg.norm(found[place] - expected[place])
        size = np.linalg.norm(expected[place])
        assert error <= rtol * size + 1e-5 * whole, f"{spec.name}: off by {error:.3g} of {size:.3g}"
    assert not found[between].any()
