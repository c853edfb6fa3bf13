"""Views, hooks and results find the order in memory that the plain model has."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Deciding(nn.Module):
    """The same by values, so that the pass cannot be followed."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Any:
        return self.model(images) if images.sum() < 1e9 else None


def both_ways(kind: Any) -> list[tuple[nn.Module, nn.Module]]:
    """Optimised and plain models, followed and not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)
        return [
            (optimize(kind(), keep_memory=False), kind()),
            (optimize(Deciding(kind()), keep_memory=False), Deciding(kind())),
        ]


def near(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


class Features(Layers):
    def forward(self, images: Tensor) -> Any:
        maps = self.maps(images)
        return self.norm(maps).mean(dim=(2, 3)), maps


def test_results_that_others_are_computed_from_get_gradients() -> None:
    for ours, theirs in both_ways(Features):
        found = []
        for model in (ours, theirs):
            out, maps = model(IMAGES)
            maps.retain_grad()
            (alone,) = torch.autograd.grad(out.square().sum(), maps, retain_graph=True)
            out.square().sum().backward()
            found.append((maps.detach(), flat(maps.grad), flat(alone)))
        for one, other in zip(*found, strict=True):
            near(one, other)


def test_gradients_of_images_have_their_order() -> None:
    for ours, theirs in both_ways(Layers):
        found = []
        for model in (ours, theirs):
            images = IMAGES.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(model(images).square().sum(), images)
            found.append(flat(gradient))
        near(*found)


class Writing(Layers):
    def forward(self, images: Tensor) -> Any:
        images.mul_(2)
        return self.maps(images), images


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_what_is_written_over_images_is_written_to_those_given(mode: Any) -> None:
    for ours, theirs in both_ways(Writing):
        with mode():
            mine, plains = IMAGES.clone(), IMAGES.clone()
            out, same = ours(mine)
            near(out, theirs(plains)[0])
        assert same is mine
        assert torch.equal(mine, plains)


class InPlace(Layers):
    """Its ReLU writes over what is added afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Any:
        maps = self.norm(self.conv(images))
        return self.relu(maps) * 2 + maps


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_layer_with_hooks_writes_over_what_others_take(mode: Any) -> None:
    for ours, theirs in both_ways(InPlace):
        for model in (ours, theirs):
            getattr(model, "model", model).relu.register_forward_hook(lambda *_: None)
        with mode():
            near(ours(IMAGES), theirs(IMAGES))


class Drawing(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, images: Tensor) -> Any:
        maps = self.drop(self.maps(images))
        maps = functional.dropout(self.norm(maps), 0.2, self.training)
        return self.norm(maps) * torch.rand_like(maps) + torch.empty_like(maps).normal_()


def test_random_numbers_fall_on_the_same_values() -> None:
    ours, theirs = optimize(Drawing(), keep_memory=False), Drawing()
    assert not fusion_of(ours).refused
    for order in (torch.contiguous_format, torch.channels_last):
        found = []
        for model in (ours, theirs.to(memory_format=order)):
            torch.manual_seed(5)
            found.append(model(IMAGES.contiguous(memory_format=order)))
        near(*found)


def test_random_functions_fall_on_the_same_values_where_a_pass_is_not_followed() -> None:
    class ByChance(Layers):
        def forward(self, images: Tensor) -> Any:
            return functional.dropout(self.maps(images), 0.5)

    for ours, theirs in both_ways(ByChance):
        found = []
        for model in (ours, theirs):
            torch.manual_seed(5)
            found.append(model(IMAGES))
        near(*found)


@dataclass
class Both:
    maps: Tensor
    more: Any


class Structured(Layers):
    def forward(self, images: Tensor) -> Any:
        maps = self.maps(images)
        return OrderedDict(both=Both(maps, [maps[:1]]), pair=Pair(maps, maps))


class Pair(NamedTuple):
    one: Tensor
    other: Tensor


def test_results_of_any_structure_are_views_as_of_the_plain_model() -> None:
    for ours, theirs in both_ways(Structured):
        found, expected = ours(IMAGES), theirs(IMAGES)
        assert type(found) is OrderedDict
        assert (type(found["both"]), type(found["pair"])) == (Both, Pair)
        near(flat(found["both"].maps), flat(expected["both"].maps))
        near(flat(found["both"].more[0]), flat(expected["both"].more[0]))
        assert found["pair"].one is found["both"].maps


class Named(dict):
    __getattr__ = dict.__getitem__


def test_dicts_of_a_program_are_what_they_are() -> None:
    class Naming(Layers):
        def forward(self, images: Tensor) -> Any:
            return Named(maps=self.maps(images))

    for ours, theirs in both_ways(Naming):
        near(flat(ours(IMAGES).maps), flat(theirs(IMAGES).maps))


def test_hooks_see_views_where_a_pass_is_not_followed() -> None:
    (_, (ours, theirs)) = both_ways(Layers)
    seen: list[Tensor] = []
    for model in (ours, theirs):
        model.model.norm.register_forward_hook(lambda _, given, out: seen.extend(map(flat, given)))
        model(IMAGES)
    near(*seen)


class Initialised(Layers):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        nn.init.normal_(self.conv.weight)
        self.dense.weight.data.normal_()

    def forward(self, images: Tensor) -> Any:
        return self.dropout(self.maps(images).mean((2, 3)))


def test_who_asks_for_order_is_known_by_its_functions() -> None:
    assert not asks_for_order(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten()))
    assert not asks_for_order(Layers())
    assert not asks_for_order(Initialised())
    assert asks_for_order(nn.Sequential(Viewing()))
    assert asks_for_order(ViewingInAFunction())
