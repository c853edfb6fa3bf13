"""Chains of PyTorch modules become networks, or what cannot is named."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.interchange.to_torch import to_torch
from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from vectorized_ops.torch import optimize, plain


def _trained(module: nn.Sequential) -> nn.Sequential:
    """With running statistics and scales that are not those of the beginning."""
    torch.manual_seed(0)
    with torch.no_grad():
        for child in module:
            if isinstance(child, nn.BatchNorm2d):
                for values in (child.weight, child.bias, child.running_mean, child.running_var):
                    assert values is not None
                    values.uniform_(0.5, 1.5)
    return module.eval()


def _check_same_logits(module: nn.Sequential, shape: tuple[int, int, int]) -> None:
    network, parameters = from_torch(_trained(module), shape)
    images = torch.randn(5, shape[2], *shape[:2])
    found, expected = to_torch(network, parameters).eval()(images), module(images)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)


def test_plain_sequential_is_understood() -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 2, (3, 3)), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    network, _ = from_torch(module, (6, 6, 1), name="mine")
    assert network.name == "mine"
    assert network.layers == (
        Convolution("0", 2, 3),
        MaxPooling("1", 2, 2),
        ReLU("2"),
        Dense("4", 3),
    )
    _check_same_logits(module, (6, 6, 1))


def test_every_setting_is_carried_over() -> None:
    module = nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(4, 6, (3, 1), (1, 2), (1, 0), (2, 1), groups=2, bias=False),
            norm=nn.BatchNorm2d(6, eps=1e-3, momentum=0.3),
            leaky=nn.LeakyReLU(0.2),
            lrn=nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2.0),
            average=nn.AvgPool2d(3, 2, 1, ceil_mode=True),
            six=nn.ReLU6(),
            largest=nn.MaxPool2d((2, 3), 1, (1, 0), ceil_mode=True),
            mean=nn.AdaptiveAvgPool2d(1),
            flat=nn.Flatten(),
            drop=nn.Dropout(0.25),
            dense=nn.Linear(6, 3, bias=False),
        )
    )
    network, _ = from_torch(module, (12, 11, 4))
    assert network.layers == (
        Convolution("conv", 6, (3, 1), (1, 2), (1, 0), (2, 1), groups=2, bias=False),
        BatchNormalisation("norm", 1e-3, 0.3),
        ReLU("leaky", slope=0.2),
        LocalResponseNormalisation("lrn", 3, 0.5, 0.6, 2.0),
        AveragePooling("average", 3, 2, 1, ceil=True),
        ReLU("six", ceiling=6),
        MaxPooling("largest", (2, 3), 1, (1, 0), ceil=True),
        GlobalAveragePooling("mean"),
        Dropout("drop", 0.25),
        Dense("dense", 3, bias=False),
    )
    _check_same_logits(module, (12, 11, 4))


def test_average_without_padding_has_the_same_divisor_either_way() -> None:
    pooling = nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False)
    _check_same_logits(nn.Sequential(pooling, nn.Flatten(), nn.Linear(32, 2)), (8, 8, 2))


def test_parameters_are_copied() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    _, parameters = from_torch(_trained(module), (6, 6, 1))
    before = parameters.packed.copy()
    with torch.no_grad():
        for values in module.state_dict().values():
            values.fill_(7)
    np.testing.assert_array_equal(parameters.packed, before)
    assert parameters.views["1.running_variance"].min() >= 0.5


@pytest.mark.parametrize(
    "modules",
    [
        [nn.Flatten(), nn.ReLU(), nn.Dropout(), nn.Linear(128, 3)],
        [nn.AdaptiveAvgPool2d((1, 1)), nn.Dropout(), nn.Flatten(), nn.Linear(2, 3)],
        [nn.Conv2d(2, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()],
    ],
)
def test_flatten_may_have_neighbours_that_do_not_look_at_shapes(modules: list[nn.Module]) -> None:
    _check_same_logits(nn.Sequential(*modules), (8, 8, 2))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Softmax(), "module '0': Softmax is not supported: expected Conv2d, Linear, MaxPool2d"),
        (nn.Conv2d(2, 2, 3, padding="same"), "module '0': padding = 'same', expected one whole"),
        (nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), "padding_mode = reflect"),
        (nn.MaxPool2d(2, dilation=2), "module '0': dilation = 2, only 1 is supported"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices = True"),
        (nn.AvgPool2d(3, padding=1, count_include_pad=False), "count_include_pad = False"),
        (nn.AvgPool2d(3, divisor_override=4), "divisor_override = 4, only None"),
        (nn.AdaptiveAvgPool2d((7, 7)), r"output_size = \(7, 7\), only 1 is supported"),
        (nn.BatchNorm2d(2, affine=False), "affine = False"),
        (nn.BatchNorm2d(2, track_running_stats=False), "track_running_stats = False"),
        (nn.BatchNorm2d(2, momentum=None), "module '0': momentum = None, expected a number"),
    ],
)
def test_module_that_a_network_cannot_express_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(nn.Sequential(module), (8, 8, 2))


class WithFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(images))


class Doubled(nn.Sequential):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(images)


class DoubledConvolution(nn.Conv2d):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(images)


@pytest.mark.parametrize(
    "module", [WithFunction(), Doubled(nn.Conv2d(3, 2, 3)), nn.Conv2d(3, 2, 3)]
)
def test_forward_pass_of_its_own_is_refused_by_its_class(module: nn.Module) -> None:
    kind = type(module).__name__
    with pytest.raises(NetworkError, match=f"made of {kind}, whose .*plain nn.Sequential; write"):
        from_torch(module, (8, 8, 3))  # type: ignore[arg-type]


def test_optimised_chain_is_refused_until_it_is_plain() -> None:
    module = optimize(nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2)), keep_memory=False)
    with pytest.raises(NetworkError, match=r"OptimizedSequential.*plain\(model\)"):
        from_torch(module, (8, 8, 3))
    from_torch(plain(module), (8, 8, 3))


def test_changed_chain_or_layer_is_refused() -> None:
    chain = nn.Sequential(nn.Conv2d(3, 2, 3))
    handle = chain.register_forward_hook(lambda *_: None)
    with pytest.raises(NetworkError, match="Sequential with hooks"):
        from_torch(chain, (8, 8, 3))
    handle.remove()
    layer: Any = chain[0]
    layer.forward = lambda images: 2 * images
    with pytest.raises(NetworkError, match="module '0': Conv2d with hooks or a forward"):
        from_torch(chain, (8, 8, 3))
    with pytest.raises(NetworkError, match="module '0': DoubledConvolution is not supported"):
        from_torch(nn.Sequential(DoubledConvolution(3, 2, 3)), (8, 8, 3))


def test_gradient_hooks_are_refused() -> None:
    layer = nn.Conv2d(3, 2, 3)
    layer.register_full_backward_pre_hook(lambda *_: None)
    with pytest.raises(NetworkError, match="module '0': Conv2d with hooks or a forward"):
        from_torch(nn.Sequential(layer), (8, 8, 3))


def _frozen() -> nn.Module:
    layer = nn.Conv2d(3, 2, 3)
    layer.bias.requires_grad_(False)  # type: ignore[union-attr]
    return layer


def _without_weight() -> nn.Module:
    layer: Any = nn.BatchNorm2d(3)
    layer.weight = None
    return layer


def _with_statistics_of(dtype: torch.dtype) -> nn.Module:
    layer: Any = nn.BatchNorm2d(3)
    layer.running_var = layer.running_var.to(dtype)
    return layer


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (_frozen(), r"module '0': bias is frozen .*expected .*requires_grad_\(\)"),
        (nn.Conv2d(3, 2, 3, dtype=torch.bfloat16), r"'0': weight is torch.bfloat16.*float\(\)"),
        (nn.Conv2d(3, 2, 3, dtype=torch.float64), r"'0': weight is torch.float64.*float\(\)"),
        (nn.Conv2d(3, 2, 3, dtype=torch.complex64), "'0': weight is torch.complex64.*expected"),
        (nn.Conv2d(3, 2, 3, device="meta"), "'0': weight is on the device meta.*load_state_dict"),
        (_with_statistics_of(torch.float16), "'0': running_var is torch.float16"),
        (_without_weight(), "'0': weight is None: expected a tensor"),
    ],
)
def test_tensors_that_a_network_cannot_take_are_named(layer: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(nn.Sequential(layer), (8, 8, 3))


class WithoutHash(type):
    def __eq__(cls, other: object) -> bool:
        return cls is other

    __hash__ = None  # type: ignore[assignment]


def test_layer_of_a_class_without_a_hash_is_named() -> None:
    kind: Any = WithoutHash("Odd", (nn.ReLU,), {})
    with pytest.raises(NetworkError, match="module '0': Odd is not supported"):
        from_torch(nn.Sequential(kind()), (8, 8, 3))


def test_module_that_stands_in_two_places_is_two_layers() -> None:
    relu = nn.ReLU()
    module = nn.Sequential(nn.Conv2d(2, 2, 1), relu, nn.Conv2d(2, 2, 1), relu)
    network, _ = from_torch(module, (4, 4, 2))
    assert [layer.name for layer in network.layers] == ["0", "1", "2", "3"]
    _check_same_logits(module, (4, 4, 2))


def test_shared_parameters_are_refused() -> None:
    conv = nn.Conv2d(2, 2, 1)
    with pytest.raises(NetworkError, match="module '1': Conv2d has the parameters of '0'"):
        from_torch(nn.Sequential(conv, conv), (4, 4, 2))


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        ([nn.Linear(2, 3)], "0"),
        ([nn.Flatten(), nn.Linear(128, 3), nn.Flatten(), nn.Linear(3, 3)], "2"),
        ([nn.Flatten(), nn.Conv2d(2, 2, 1)], "1"),
        ([nn.ReLU(), nn.Flatten()], "1"),
        ([nn.ReLU(), nn.AdaptiveAvgPool2d(1)], "1"),
    ],
)
def test_flatten_that_a_network_cannot_follow_is_refused(
    modules: list[nn.Module], name: str
) -> None:
    with pytest.raises(NetworkError, match=f"module '{name}'.*Flatten"):
        from_torch(nn.Sequential(*modules), (8, 8, 2))


def test_flatten_of_some_axes_is_refused() -> None:
    with pytest.raises(NetworkError, match="module '0': start_dim = 2, only 1 is supported"):
        from_torch(nn.Sequential(nn.Flatten(2), nn.Linear(64, 2)), (8, 8, 2))


def test_image_shape_that_the_modules_do_not_take_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"0\.weights.* \(2, 3, 3, 3\).*\(2, 1, 3, 3\)"):
        from_torch(nn.Sequential(nn.Conv2d(1, 2, 3)), (8, 8, 3))
