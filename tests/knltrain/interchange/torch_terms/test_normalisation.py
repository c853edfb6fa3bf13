from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.interchange.to_torch import to_torch
from knltrain.network.layers import BatchNormalisation, LocalResponseNormalisation

from ..importing import images_of, imported_of


def test_normalisations_are_read_with_their_statistics() -> None:
    module = nn.Sequential(
        nn.Conv2d(2, 4, 1),
        nn.BatchNorm2d(4, eps=1e-3, momentum=0.3),
        nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2.0),
    )
    imported = imported_of(module, images_of())
    assert imported.network.layers[1:] == (
        BatchNormalisation("1", 1e-3, 0.3, inputs=("0",)),
        LocalResponseNormalisation("2", 3, 0.5, 0.6, 2.0, inputs=("1",)),
    )
    assert imported.parameters.views["1.running_variance"].min() >= 0.5
    assert imported.keys["1.scale"] == "1.weight"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.BatchNorm2d(2, affine=False), "without weight, expected affine=True"),
        (nn.BatchNorm2d(2, track_running_stats=False), "without running_mean, expected"),
    ],
)
def test_batch_normalisation_without_parameters_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())


def test_batch_normalisation_that_is_in_evaluation_is_frozen() -> None:
    module = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(128, 3))
    module[1].eval()
    with torch.no_grad():
        module[1].running_mean.uniform_()
    images = torch.randn(3, 2, 8, 8)
    imported = from_torch(module, images)
    normalised = imported.network.layers[1]
    assert isinstance(normalised, BatchNormalisation)
    assert normalised.frozen
    other = to_torch(imported.network, imported.parameters).train()
    before = imported.parameters.packed.copy()
    assert torch.allclose(other(images), module(images), atol=1e-5)
    assert np.array_equal(imported.parameters.packed, before)
    whole = from_torch(module.eval(), images).network.layers[1]
    assert isinstance(whole, BatchNormalisation)
    assert not whole.frozen  # A whole module in evaluation is one that is to be trained.
