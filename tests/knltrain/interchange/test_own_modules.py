from __future__ import annotations

import torch

from knltrain.interchange.own_modules import Affine, StochasticDepth


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
