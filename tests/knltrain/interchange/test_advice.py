"""What would do instead of operations that no network has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.advice import ADVICE, unknown_operation
from knltrain.interchange.from_torch import from_torch
from knltrain.interchange.torch_terms import READERS

from .importing import Forward, images_of


def test_no_advice_is_given_against_what_networks_have() -> None:
    assert not ADVICE.keys() & READERS.keys()


def test_operations_without_advice_are_named_with_those_known() -> None:
    assert unknown_operation("fft", ["mean"]) == "unknown operation 'fft': expected one of 'mean'"
    assert unknown_operation("softmax_", ["mean"]).endswith("instead: " + ADVICE["softmax"])


def _autocast(own: Any, images: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return own.conv(images).mean((2, 3))


def _without_gradient(own: Any, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        maps = own.conv(images)
    return own.head(maps).mean((2, 3))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (_autocast, r"'wrap_with_autocast': .*networks compute in torch.float32"),
        (_without_gradient, r"'wrap_with_set_grad_enabled': .*network.frozen names"),
        (lambda own, images: own.conv(images.detach()), r"unknown operation 'detach'.*with grad"),
        (lambda own, images: own.conv(images.half().float()), "operation 'to'.*torch.float32"),
        (lambda own, images: own.conv(images).amax((2, 3)), "'amax': .*AdaptiveAvgPool2d.1."),
        (lambda own, images: own.conv(images).softmax(1), "'softmax': .*the loss takes logits"),
        (nn.Dropout2d(0.1), "'feature_dropout': .*instead: torch.nn.Dropout"),
        (nn.InstanceNorm2d(2), "'instance_norm': .*instead: torch.nn.BatchNorm2d"),
        (nn.PixelShuffle(1), "'pixel_shuffle': .*maps that get smaller"),
        (nn.ELU(), "'elu': .*torch.nn.SiLU"),
    ],
)
def test_what_would_do_instead_is_told(work: Any, message: str) -> None:
    children = {"conv": nn.Conv2d(2, 2, 1), "head": nn.Conv2d(2, 2, 1)}
    if isinstance(work, nn.Module):
        children["last"] = work
        work = lambda own, images: own.last(own.conv(images))  # noqa: E731
    with pytest.raises(NetworkError, match=message):
        from_torch(Forward(work, **children), images_of())
