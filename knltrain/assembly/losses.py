"""The loss of `[loss]`, and whether it fits the labels of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from knltrain.config import RunConfig
from knltrain.errors import ConfigError, DataError

if TYPE_CHECKING:
    from knltrain.backends.loss import Loss
    from knltrain.data.dataset import Dataset
    from knltrain.data.source import LabelArray
    from knltrain.network.network import Network

_TOLERANCE: Final = 1e-3
"""Shares of an image's classes may add up to 1 within this."""


def loss_of(config: RunConfig, network: Network) -> Loss:
    """The loss of `[loss]` for the outputs of `network`.

    Weights that are to be "balanced" are 1 here: `with_balanced_weights` knows them. Raises
    ConfigError where class weights are another number than the outputs.
    """
    from knltrain.backends import loss as losses

    chosen = config.loss
    if chosen.kind == "sigmoid_cross_entropy":
        return losses.SigmoidCrossEntropy()
    if chosen.kind == "mean_squared_error":
        return losses.MeanSquaredError()
    weights = chosen.class_weights
    if weights is None:
        return losses.SoftmaxCrossEntropy(chosen.label_smoothing)
    classes = network.output_shape[0]
    if weights == "balanced":
        weights = (1.0,) * classes
    if len(weights) != classes:
        raise ConfigError(
            f"loss.class_weights has {len(weights)} weights, but network '{network.name}' "
            f"{classes} outputs: expected a weight for each, or 'balanced'"
        )
    return losses.SoftmaxCrossEntropy(chosen.label_smoothing, weights)


def tells_each_class(config: RunConfig, labels: LabelArray) -> bool:
    """Whether images with these labels may have several classes, or none."""
    return config.loss.kind == "sigmoid_cross_entropy" and labels.ndim == 2


def with_balanced_weights(config: RunConfig, dataset: Dataset) -> RunConfig:
    """The run with numbers in place of class weights that are "balanced".

    A class with n_c of the N training images has the weight N / (classes n_c): all classes count
    alike. Of targets n_c is the sum. Raises ConfigError for a class without images.
    """
    if config.loss.class_weights != "balanced":
        return config
    import numpy as np

    labels, classes = dataset.train.labels, dataset.classes
    if labels.ndim == 1:
        counts = np.bincount(labels.astype(np.int64), minlength=classes).astype(np.float64)
    else:
        counts = labels.sum(axis=0, dtype=np.float64)
    if not counts.all():
        raise ConfigError(
            f"loss.class_weights = 'balanced': class {int(counts.argmin())} of data set "
            f"{dataset.name!r} has no training images: expected some of each; take more "
            "(data.train_images), or give a list of weights"
        )
    weights = tuple((counts.sum() / (classes * counts)).tolist())
    loss = config.loss.model_copy(update={"class_weights": weights})
    return config.model_copy(update={"loss": loss})


def check_labels(config: RunConfig, network: Network, dataset: Dataset) -> None:
    """Refuse labels, and class weights, that do not fit the loss: `ConfigError` or `DataError`."""
    loss_of(with_balanced_weights(config, dataset), network)
    for half, images in (("training", dataset.train), ("test", dataset.test)):
        if images.labels.ndim == 2:
            check_targets(config.loss.kind, images.labels, f"{dataset.name}, {half} images")


def check_targets(kind: str, targets: LabelArray, where: str) -> None:
    """Refuse targets (N, classes) that no loss of this kind has: `DataError`."""
    import numpy as np

    if kind == "mean_squared_error":
        wrong, expected = ~np.isfinite(targets).all(axis=1), "finite numbers"
    else:  # not (... >= 0), as NaN is in no range
        wrong, expected = ~((targets >= 0) & (targets <= 1)).all(axis=1), "0 to 1 for each class"
    if kind == "softmax_cross_entropy" and not wrong.any():
        wrong = np.abs(targets.sum(axis=1, dtype=np.float64) - 1) > _TOLERANCE
        expected = "shares that add up to 1"
    if wrong.any():
        index = int(wrong.argmax())
        ways = "" if kind != "softmax_cross_entropy" else (
            "; for images of several classes, or none, set loss.kind = 'sigmoid_cross_entropy'"
        )  # fmt: skip
        raise DataError(
            f"{where}: targets {_told(targets[index])} at index {index} do not fit loss.kind = "
            f"'{kind}': expected {expected} ({int(wrong.sum())} of {len(targets)} images are "
            f"wrong){ways}"
        )


def _told(targets: LabelArray) -> str:
    shown = ", ".join(f"{value:g}" for value in targets[:10].tolist())
    return f"[{shown}{', ...' if len(targets) > 10 else ''}]"
