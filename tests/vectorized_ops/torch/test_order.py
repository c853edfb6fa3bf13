"""Views, hooks and results find the order in memory that the plain model has."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.torch import OptimizationWarning, fusion_of, optimize
from vectorized_ops.torch._ambient import is_watched
from vectorized_ops.torch._order import asks_for_order

IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def flat(images: Tensor) -> Tensor:
    return images.view(images.size(0), -1)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.norm, self.pool = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2)
        self.dense = nn.Linear(4 * 9, 2)

    def maps(self, images: Tensor) -> Any:
        return self.pool(functional.relu(self.norm(self.conv(images))))

    def forward(self, images: Tensor) -> Any:
        return self.maps(images)


class Viewing(Layers):
    def forward(self, images: Tensor) -> Any:
        maps = self.maps(images)
        return self.dense(maps.view(maps.size(0), -1)) + self.dense(flat(maps))


class ViewingByValue(Viewing):
    def forward(self, images: Tensor) -> Any:
        return super().forward(images if images.sum() < 1e9 else -images)


class ViewingInAFunction(Layers):
    def forward(self, images: Tensor) -> Any:
        maps = self.maps(images if images.sum() < 1e9 else -images)
        return self.dense(flat(maps))


class ViewingOfAList(Viewing):
    def forward(self, images: Any) -> Any:
        return super().forward(images[0] if isinstance(images, list) else images)


class Striding(Layers):
    def forward(self, images: Tensor) -> Any:
        maps = self.maps(images)
        return maps.as_strided((2, 4), (1, 2))


class Several(Layers):
    def forward(self, images: Tensor) -> Any:
        maps = self.maps(images)
        return {"maps": maps, "more": [self.conv(images), (maps, None)]}


@pytest.mark.parametrize(
    "kind", [Viewing, ViewingByValue, ViewingInAFunction, ViewingOfAList, Striding]
)
@pytest.mark.filterwarnings("ignore::vectorized_ops.torch.OptimizationWarning")
def test_views_of_what_layers_give_are_those_of_the_plain_model(kind: Any) -> None:
    ours, theirs = optimize(kind(), keep_memory=False), kind()
    given: Any = [IMAGES] if kind is ViewingOfAList else IMAGES
    found = []
    for model in (ours, theirs):
        out = model(given)
        out.square().sum().backward()
        assert model.conv.weight.grad is not None
        found.append((out.detach(), model.conv.weight.grad, model.norm.running_var))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert not is_watched()


def test_views_do_not_keep_a_pass_from_being_followed() -> None:
    ours = optimize(Viewing(), keep_memory=False)
    assert fusion_of(ours).operations["normalisation + ReLU"] == 1
    with pytest.warns(OptimizationWarning, match=r"depends on the order of memory \(as_strided\)"):
        optimize(Striding(), keep_memory=False)


class ByValue(Several):
    def forward(self, images: Tensor) -> Any:
        return super().forward(images if images.sum() < 1e9 else -images)


@pytest.mark.parametrize("kind", [Several, ByValue])
def test_results_have_the_order_of_what_was_given(kind: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = optimize(kind(), keep_memory=False)
    for order in (torch.contiguous_format, torch.channels_last):
        out = model(IMAGES.contiguous(memory_format=order))
        for maps in (out["maps"], out["more"][0], out["more"][1][0]):
            assert maps.is_contiguous(memory_format=order)
        assert out["more"][1][0] is out["maps"]


def test_hooks_see_views() -> None:
    seen: dict[str, list[Tensor]] = {"ours": [], "theirs": []}
    models = {"ours": optimize(Layers(), keep_memory=False), "theirs": Layers()}
    for name, model in models.items():
        for layer in (model.conv, model.norm, model.pool):
            layer.register_forward_hook(
                lambda _layer, given, out, to=seen[name]: to.extend([flat(given[0]), flat(out)])
            )
        model(IMAGES)
    assert len(seen["ours"]) == 6
    for one, other in zip(*seen.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_who_asks_for_order_is_known_by_its_functions() -> None:
    assert not asks_for_order(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten()))
    assert not asks_for_order(Layers())
    assert asks_for_order(nn.Sequential(Viewing()))
    assert asks_for_order(ViewingInAFunction())
