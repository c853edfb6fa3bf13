"""The task of the comparison: a network, images, and the length of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from knltrain.bench.methods.settings import (
    FEW_STEPS_SETTINGS,
    MNIST_SETTINGS,
    SYNTHETIC_SETTINGS,
    Settings,
)
from knltrain.errors import ConfigError, unknown_name

EVALUATIONS_PER_EPOCH = 4


@dataclass(frozen=True, slots=True)
class Task:
    """A training that all methods do; `data` is the table of a configuration.

    `batch` images are divided over all workers in a step: every method takes the same images in as
    many steps, and with synchronous SGD several workers compute the same as one.
    """

    network: str
    data: Mapping[str, Any]
    train_images: int
    batch: int
    epochs: int
    accuracy: float
    settings: Mapping[str, Settings]
    classes: int = 10


def task_named(network: str, data_root: str | None) -> Task:
    """The task of a network; LeNet learns MNIST from `data_root`, or else the digits.

    CIFAR-10 quick learns synthetic images. GoogLeNet takes a few steps on larger ones, which show
    the costs of its exchanges. Raises ConfigError for a network without a task.
    """
    tasks = {"lenet": _lenet, "cifar-quick": _cifar_quick, "googlenet": _googlenet}
    if network not in tasks:
        raise ConfigError(unknown_name("--network", network, tasks))
    return tasks[network](data_root)


def _lenet(data_root: str | None) -> Task:
    digits = {"name": "digits", "train_images": 1438, "test_images": 359}
    # The same images, whether the training half is there or not.
    mnist = {"name": "mnist-t10k", "root": data_root, "train_images": 9000, "test_images": 1000}
    data: dict[str, Any] = {**(digits if data_root is None else mnist), "shift_pixels": 2}
    return Task("lenet", data, data["train_images"], 64, 8, 0.97, MNIST_SETTINGS)


def _cifar_quick(data_root: str | None) -> Task:
    _check_drawn("cifar-quick", data_root)
    data = {"name": "synthetic", "train_images": 9000, "test_images": 1000}
    return Task("cifar-quick", data, 9000, 64, 6, 0.9, SYNTHETIC_SETTINGS)


def _googlenet(data_root: str | None) -> Task:
    _check_drawn("googlenet", data_root)
    data = {"name": "synthetic", "side_pixels": 224, "train_images": 256, "test_images": 32}
    return Task("googlenet", data, 256, 64, 2, 0.9, FEW_STEPS_SETTINGS)


def _check_drawn(network: str, data_root: str | None) -> None:
    if data_root is not None:
        raise ConfigError(
            f"--data-root {data_root}: {network} learns synthetic images, which are drawn; leave "
            "it out"
        )
