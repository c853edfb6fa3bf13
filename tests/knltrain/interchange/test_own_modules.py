from __future__ import annotations

import pytest
import torch

from knltrain.interchange.own_modules import (
    Affine,
    ChannelNorm,
    ChannelScale,
    ChannelSlice,
    StochasticDepth,
)


def test_affine_multiplies_and_adds() -> None:
    values = torch.tensor([1.0, -2.0], dtype=torch.float32, device="cpu")
    assert Affine(0.5, 3.0)(values).tolist() == [3.5, 2.0]


def test_images_are_left_out_whole_in_training_only() -> None:
    torch.manual_seed(0)
    values = torch.ones((64, 2, 3, 3), dtype=torch.float32, device="cpu")
    module = StochasticDepth(0.25)
    found = module(values)
    kept = found.amax(dim=(1, 2, 3))
    torch.testing.assert_close(found, kept[:, None, None, None].expand_as(found))
    assert set(kept.tolist()) == {0.0, kept.max().item()}
    torch.testing.assert_close(kept.max(), torch.tensor(4 / 3, dtype=torch.float32, device="cpu"))
    assert module.eval()(values) is values


@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (2, 5)])
def test_channels_are_scaled_sliced_and_normalised(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, dtype=torch.float32, device="cpu")
    scale, norm = ChannelScale(5), ChannelNorm(5, 0.1)
    with torch.no_grad():
        scale.weight.copy_(torch.arange(5.0, dtype=torch.float32, device="cpu"))
        norm.weight.fill_(2.0)
        norm.bias.fill_(1.0)
    for channel in range(5):
        torch.testing.assert_close(scale(values)[:, channel], channel * values[:, channel])
    torch.testing.assert_close(ChannelSlice(1, 3)(values), values[:, 1:3])
    variance, mean = torch.var_mean(values, dim=1, correction=0, keepdim=True)
    expected = (values - mean) / (variance + 0.1).sqrt() * 2 + 1
    torch.testing.assert_close(norm(values), expected)
