from __future__ import annotations

import pytest
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
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


def test_batch_normalisation_that_is_frozen_is_named() -> None:
    module = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2))
    module[1].eval()
    with pytest.raises(NetworkError, match=r"module '1'.*frozen .in evaluation mode"):
        from_torch(module, images_of())
    from_torch(module.eval(), images_of())
