"""PyTorch modules become networks that compute the same, or what cannot is named with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.interchange.weights import load_weights
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Addition,
    Concatenation,
)
from knltrain.network.parameters import ParameterVector
from vectorized_ops.torch import optimize, plain

from .importing import Forward, differences, images_of, imported_of, used


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        out = self.norm(self.conv(maps))
        out += maps
        return self.relu(out)


class Branched(nn.Module):
    """All that a forward may do beside its submodules, and a head that only trains."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.head = nn.Linear(8, 5)
        self.auxiliary = nn.Linear(4 * 4 * 4, 5)

    def forward(self, images: torch.Tensor) -> Any:
        maps = self.blocks(torch.relu(self.stem(images)))
        maps = F.max_pool2d(maps, 2)
        both = torch.cat([maps, F.leaky_relu(maps, 0.1)], dim=1)
        logits = self.head(F.dropout(both, 0.2, self.training).mean([2, 3]))
        if not self.training:
            return logits
        return logits, self.auxiliary(maps.view(maps.size(0), -1))


def test_what_a_forward_does_itself_is_part_of_the_network() -> None:
    imported = imported_of(Branched(), images_of(), 0.3)
    network = imported.network
    assert [layer.name for layer in network.layers] == [
        *("stem", "relu", "blocks.0.conv", "blocks.0.norm", "blocks.0.add", "blocks.0.relu"),
        *("blocks.1.conv", "blocks.1.norm", "blocks.1.add", "blocks.1.relu"),
        *("max_pool2d", "leaky_relu", "cat", "dropout", "mean", "head", "auxiliary"),
    ]
    assert network.outputs == (Output("head"), Output("auxiliary", 0.3))
    assert network.layers[4] == Addition("blocks.0.add", inputs=("blocks.0.norm", "relu"))
    assert Concatenation("cat", inputs=("max_pool2d", "leaky_relu")) in network.layers
    assert imported.keys["blocks.1.norm.running_variance"] == "blocks.1.norm.running_var"


def test_one_value_may_come_twice() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(torch.cat([images, images, images], 1))
        maps = torch.cat([maps + maps, maps, maps], 1)
        units: torch.Tensor = own.head(maps.mean((2, 3)))
        return torch.cat([units, units], 1)

    layers = {"conv": nn.Conv2d(6, 4, 3), "head": nn.Linear(12, 3)}
    module, images = Forward(work, **layers), images_of()
    imported = from_torch(used(module), images)
    differences(module, imported, images)
    assert Concatenation("cat_2", inputs=("head", "head.again")) in imported.network.layers


def test_the_users_module_comes_back_with_the_networks_values() -> None:
    module = Branched()
    counter = module.state_dict()["blocks.0.norm.num_batches_tracked"]
    imported = from_torch(module, images_of(), (0.4,))
    before = {key: values.clone() for key, values in module.state_dict().items()}
    imported.parameters.packed += 1
    for key, values in module.state_dict().items():
        torch.testing.assert_close(values, before[key])  # copied, not shared
    assert imported.to_torch() is module
    for name, key in imported.keys.items():
        np.testing.assert_array_equal(module.state_dict()[key], imported.parameters.views[name])
    assert counter == 0
    assert module.training


def test_convolutions_that_became_dense_layers_come_back(tmp_path: Path) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        return images * own.gate(images.mean((2, 3), True))

    module = Forward(work, gate=nn.Conv2d(2, 2, 1))
    imported = from_torch(module, images_of())
    torch.save(module.state_dict(), tmp_path / "before.pt")
    before = module.gate.weight.detach().clone()  # type: ignore[union-attr,operator]
    imported.parameters.packed += 1
    imported.to_torch()
    torch.testing.assert_close(module.gate.weight.detach(), before + 1)
    load_weights(imported.parameters, tmp_path / "before.pt")
    imported.to_torch()
    torch.testing.assert_close(module.gate.weight.detach(), before)


def test_module_without_parameters_is_refused() -> None:
    module = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(NetworkError, match=r"Sequential has no parameters .*expected a module"):
        from_torch(module, images_of())


class Counted(nn.Module):
    """With tensors that no network has: a counter, a buffer, and a layer that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.register_buffer("mean", torch.tensor([0.4, 0.5]))
        self.unused = nn.Linear(2, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(images)).mean((2, 3))


def test_values_of_a_checkpoint_come_back_in_the_users_class(tmp_path: Path) -> None:
    module = Counted()
    module.train()(images_of())  # counts
    before = {key: values.clone() for key, values in module.state_dict().items()}
    imported = from_torch(module, images_of())
    checkpoint = ParameterVector(imported.network)
    checkpoint.packed[:] = np.arange(checkpoint.packed.size)
    save_file(checkpoint.views, tmp_path / "center.safetensors")
    load_weights(imported.parameters, tmp_path / "center.safetensors")
    trained = imported.to_torch()
    assert isinstance(trained, Counted)
    torch.save(trained.state_dict(), tmp_path / "trained.pt")
    other = Counted()
    assert not any(other.load_state_dict(torch.load(tmp_path / "trained.pt"), strict=True))
    state = other.state_dict()
    assert list(state) == list(before)
    for name, key in imported.keys.items():
        np.testing.assert_array_equal(state[key], checkpoint.views[name])
    kept = state.keys() - imported.keys.values()
    assert kept == {"norm.num_batches_tracked", "mean", "unused.weight", "unused.bias"}
    for key in kept:
        torch.testing.assert_close(state[key], before[key])
    assert state["norm.num_batches_tracked"] == 1


def test_weights_of_losses_are_numbers() -> None:
    with pytest.raises(NetworkError, match=r"auxiliary_weights = 0.3: expected numbers, as in"):
        from_torch(Branched(), images_of(), 0.3)  # type: ignore[arg-type]


def test_parameters_that_forward_uses_itself_get_layers_of_its_operations() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(3, 2, 1, 1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return F.conv2d(images, self.kernel).mean((-1, -2))

    imported = from_torch(Own(), images_of(), name="mine")
    assert imported.keys == {"conv2d.weights": "kernel"}
    assert imported.network.name == "mine"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_wrappers_are_taken_off() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    wrapped = nn.DataParallel(torch.compile(module))
    imported = from_torch(wrapped, images_of())
    assert imported.keys == {"0.weights": "0.weight", "0.bias": "0.bias"}
    assert imported.to_torch() is module


def test_optimised_module_is_imported_once_it_is_plain() -> None:
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    from_torch(plain(optimize(module, keep_memory=False)), images_of())


def test_example_stays_as_it_is() -> None:
    images = images_of()
    before = images.clone()
    module = Forward(lambda own, images: own.conv(F.relu_(images)), conv=nn.Conv2d(2, 2, 1))
    from_torch(module, images)
    torch.testing.assert_close(images, before)
