"""The networks of torchvision and timm, prepared so that every part of them counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .importing import chances

CLASSES = 10
_COPIES = 11
"""How many times a module's bytes are held at once: copies, gradients, float64 (9.5 were seen)."""

_SIDES = {"inception_v3": 299, "inception_v4": 96, "inception_resnet_v2": 96}
"""Pixels of images that are not 64: these have convolutions without padding."""

_HEADS = {"googlenet": (0.3, 0.3), "inception_v3": (0.4,)}
"""Weights of torchvision's auxiliary heads."""


def torchvision_modules() -> dict[str, Callable[[], nn.Module]]:
    """All networks of torchvision for classification that consist of convolutions."""
    models = _torchvision().models
    attending = ("maxvit", "swin", "vit")
    quiet = {name: {"init_weights": False} for name in _HEADS}

    def make(name: str) -> Callable[[], nn.Module]:
        return lambda: models.get_model(
            name, weights=None, num_classes=CLASSES, **quiet.get(name, {})
        )

    names = models.list_models(module=models)
    return {name: make(name) for name in names if not name.startswith(attending)}


def timm_module(name: str) -> nn.Module:
    """A network of timm."""
    _torchvision()
    timm = pytest.importorskip("timm", reason="needs timm: scripts/test --zoo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: nn.Module = timm.create_model(name, num_classes=CLASSES)
    return module


def auxiliary_weights(library: str, name: str) -> tuple[float, ...]:
    """Those of its heads."""
    return _HEADS.get(name, ()) if library == "torchvision" else ()


def images_for(name: str) -> torch.Tensor:
    """Two images, as small as a network takes."""
    side = _SIDES.get(name, 64)
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(2))


def prepared(module: nn.Module, images: torch.Tensor) -> nn.Module:
    """With values that no initialisation has: no zeros, and the statistics of images."""
    generator = torch.Generator().manual_seed(3)
    weighted = (nn.Conv2d, nn.Linear)
    with torch.no_grad(), _without_chance(module):
        for part in module.modules():
            for key, values in part.named_parameters(recurse=False):
                if key == "bias":
                    values.uniform_(-0.2, 0.2, generator=generator)
                elif not isinstance(part, weighted):
                    values.uniform_(0.5, 1.5, generator=generator)
        normalisations = [part for part in module.modules() if isinstance(part, _BatchNorm)]
        momenta = [part.momentum for part in normalisations]
        for part in normalisations:
            part.momentum = 1.0
        module.train()(images)
        for part, momentum in zip(normalisations, momenta, strict=True):
            part.momentum = momentum
    return module


@contextmanager
def _without_chance(module: nn.Module) -> Iterator[None]:
    """Meanwhile nothing is dropped."""
    before = [(part, key, getattr(part, key)) for part, key in chances(module)]
    for part, key, _ in before:
        setattr(part, key, 0.0)
    yield
    for part, key, value in before:
        setattr(part, key, value)


def skip_without_memory(module: nn.Module) -> None:
    """Skip where the machine has too little for a network and its comparison."""
    needed = _COPIES * sum(4 * values.numel() for values in module.parameters()) >> 20
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable"))
    if needed > free:
        pytest.skip(f"needs {needed} MiB of memory, and {free} are free")


def _torchvision() -> ModuleType:
    """The library; also PyPI's beside a torch for CPUs, whose operators are not registered."""
    register = torch.library.register_fake

    def none(*_: Any, **__: Any) -> Callable[[Any], Any]:
        return lambda function: function

    torch.library.register_fake = none  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library: ModuleType = pytest.importorskip(
                "torchvision", reason="needs torchvision: scripts/test --zoo"
            )
    finally:
        torch.library.register_fake = register
    return library
