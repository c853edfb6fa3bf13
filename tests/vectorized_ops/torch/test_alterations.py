from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from vectorized_ops.torch import BatchNorm2d, fusion_of, optimize, plain
from vectorized_ops.torch._alterations import has_hooks, is_altered, stays_whole

IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "module",
    [nn.Conv2d(1, 1, 1), BatchNorm2d(1), nn.MaxPool2d(2), nn.ReLU(), nn.MultiheadAttention(2, 1)],
)
def test_layers_as_they_are_made_are_not_altered(module: nn.Module) -> None:
    assert not stays_whole(module)
    module.training, module.something = False, print
    assert not is_altered(module)


@pytest.mark.parametrize("name", ["forward", "_conv_forward", "extra_repr"])
def test_methods_of_the_instance_are_seen(name: str) -> None:
    layer: Any = nn.Conv2d(1, 1, 1)
    setattr(layer, name, getattr(layer, name))
    assert is_altered(layer)
    assert not has_hooks(layer)


def network() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))


def rectified() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 1))


def forward_replaced(model: Any) -> None:
    model[0].forward = MethodType(
        lambda self, images: 10 * functional.conv2d(images, self.weight), model[0]
    )


def inner_forward_replaced(model: Any) -> None:
    layer = model[0]
    layer._conv_forward = lambda images, weight, bias: functional.conv2d(images, 3 * weight, bias)


def frozen(model: Any) -> None:
    norm = model[1]
    norm.forward = lambda images: functional.batch_norm(
        images, norm.running_mean, norm.running_var, norm.weight, norm.bias, False
    )


def pooling_replaced(model: Any) -> None:
    model[3].forward = lambda images: functional.max_pool2d(-images, 2)


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def parametrised(model: Any) -> None:
    parametrize.register_parametrization(model[0], "weight", Doubled())


def normalised_by_weight(model: Any) -> None:
    torch.nn.utils.parametrizations.weight_norm(model[0])


def spectral(model: Any) -> None:
    torch.nn.utils.spectral_norm(model[0])


def hooked(model: Any) -> None:
    model[1].register_forward_hook(lambda _module, _given, out: out + 1)


def hooked_before(model: Any) -> None:
    model[2].register_forward_pre_hook(lambda _module, given: (given[0] - 0.5,))


def hooked_backward(model: Any) -> None:
    model[1].register_full_backward_hook(lambda _module, given, _out: (3 * given[0],))


def settings_changed(model: Any) -> None:
    model[0].padding_mode, model[0].padding = "circular", (1, 1)
    model[0]._reversed_padding_repeated_twice = [1, 1, 1, 1]
    model[3].stride = 1


def bias_removed(model: Any) -> None:
    model[0].bias = None


CHANGES = [
    forward_replaced, inner_forward_replaced, frozen, pooling_replaced, parametrised,
    normalised_by_weight, spectral, hooked, hooked_before, hooked_backward, settings_changed,
    bias_removed,
]  # fmt: skip


def everything(model: nn.Module) -> list[Tensor]:
    """Of two steps, so that statistics show."""
    found = []
    for _ in range(2):
        images = IMAGES.clone().requires_grad_()
        model.zero_grad()
        out = model(images)
        out.square().sum().backward()
        assert images.grad is not None
        found += [out.detach(), images.grad]
        found += [p.grad for p in model.parameters() if p.grad is not None]
    return [*found, *model.buffers()]


@pytest.mark.parametrize("when", ["before", "after", "after a call"])
@pytest.mark.parametrize("change", CHANGES)
def test_altered_layers_do_what_they_do_in_the_plain_model(
    change: Callable[[Any], None], when: str
) -> None:
    ours, theirs = network(), network()
    torch.manual_seed(2)
    if when == "before":
        change(ours)
    optimize(ours, keep_memory=False)
    if when == "after a call":
        ours(IMAGES), theirs(IMAGES)
    torch.manual_seed(2)
    change(theirs)
    torch.manual_seed(2)
    if when != "before":
        change(ours)
    for one, other in zip(everything(ours), everything(theirs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_a_layer_that_is_altered_back_is_fused_again() -> None:
    model = optimize(network(), keep_memory=False)
    fused = fusion_of(model).operations
    forward_replaced(model), frozen(model)
    model(IMAGES)
    assert fusion_of(model).operations != fused
    del model[0].forward, model[1].forward
    model.train()(IMAGES[:1])
    model.eval()(IMAGES)
    assert fusion_of(model).operations == fused


def test_hooks_of_all_modules_are_called_for_each() -> None:
    model, seen = optimize(network(), keep_memory=False), []
    hooks = nn.modules.module
    handle = hooks.register_module_forward_hook(lambda module, *_: seen.append(type(module)))
    try:
        model(IMAGES)
    finally:
        handle.remove()
    assert len(seen) == 5
    backward = hooks.register_module_full_backward_hook(lambda module, *_: seen.append(1))
    try:
        model(IMAGES.clone().requires_grad_()).sum().backward()
    finally:
        backward.remove()
    assert len(seen) == 10
    model(IMAGES)
    assert len(seen) == 10


def twice(self: Any, images: Tensor, *_parameters: Tensor | None) -> Tensor:
    return 2 * functional.conv2d(images, self.weight)


def twice_in_all(self: Any, images: Tensor) -> Tensor:
    return 2 * self.forward(images)


@pytest.mark.parametrize(
    ("kind", "name", "method"),
    [
        (nn.Conv2d, "forward", twice),
        (nn.Conv2d, "_conv_forward", twice),
        (nn.Conv2d, "__call__", twice_in_all),
        (nn.ReLU, "__call__", twice_in_all),
    ],
)
def test_a_class_that_was_changed_is_seen(
    kind: Any, name: str, method: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = optimize(rectified(), keep_memory=False), rectified()
    before = ours(IMAGES), theirs(IMAGES)
    monkeypatch.setattr(kind, name, method, raising=False)
    assert not torch.equal(before[1], theirs(IMAGES))
    torch.testing.assert_close(ours(IMAGES), theirs(IMAGES))
    torch.testing.assert_close(optimize(plain(ours), keep_memory=False)(IMAGES), theirs(IMAGES))
