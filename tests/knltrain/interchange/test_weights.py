from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from knltrain.errors import NetworkError
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.weights import load_weights
from knltrain.network.layers import (
    BatchNormalisation,
    ChannelScale,
    Convolution,
    Dense,
    GlobalAveragePooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

from .caffe.caffe_files import real

NETWORK = Network(
    "small",
    (4, 4, 2),
    (
        Convolution("stage/conv", 3, 3),
        BatchNormalisation("stage/norm"),
        ReLU("relu"),
        GlobalAveragePooling("mean"),
        Dense("fc", 5),
    ),
)


@pytest.fixture
def full() -> ParameterVector:
    vector = ParameterVector(NETWORK)
    vector.initialise(3)
    vector.packed[vector.packed == 0] = 0.25
    return vector


def _views(vector: ParameterVector) -> dict[str, np.ndarray]:
    return {name: values.copy() for name, values in vector.views.items()}


def _state(vector: ParameterVector, prefix: str = "") -> dict[str, torch.Tensor]:
    """With the names that torchvision has: dots."""
    state = to_torch(NETWORK, vector).state_dict()
    return {prefix + key.replace("/", "."): value.clone() for key, value in state.items()}


def _loaded(file: Path, *new_layers: str) -> tuple[ParameterVector, tuple[str, ...]]:
    vector = ParameterVector(NETWORK)
    return vector, load_weights(vector, file, new_layers)


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("kind", ["own", "safetensors", "pt", "checkpoint"])
def test_tensors_are_taken_by_their_names(
    kind: str, prefix: str, full: ParameterVector, tmp_path: Path
) -> None:
    file = tmp_path / ("a.pt" if kind in ("pt", "checkpoint") else "a.safetensors")
    if kind == "own":
        save_file({prefix + name: values for name, values in _views(full).items()}, file)
    elif kind == "safetensors":
        save_torch_file(_state(full, prefix), file)
    else:
        state: Any = _state(full, prefix)
        torch.save({"state_dict": state, "epoch": 3} if kind == "checkpoint" else state, file)
    found, notes = _loaded(file)
    assert notes == ()
    for name, values in full.views.items():
        np.testing.assert_array_equal(found.views[name], values)


def test_1x1_convolutions_of_means_are_dense_layers(full: ParameterVector, tmp_path: Path) -> None:
    file, views = tmp_path / "a.safetensors", _views(full)
    weights = views["fc.weights"]
    save_file({**views, "fc.weights": weights[:, :, None, None]}, file)
    found, _ = _loaded(file)
    np.testing.assert_array_equal(found.views["fc.weights"], weights)
    save_file({**views, "fc.weights": np.ones((5, 3, 1, 2), np.float32)}, file)
    with pytest.raises(NetworkError, match=r"fc.weights is float32 \(5, 3, 1, 2\): expected"):
        _loaded(file)


def test_files_with_channels_in_other_places_fit(tmp_path: Path) -> None:
    """As torchvision's ConvNeXts: dense layers with channels last, and factors (C,1,1) alone."""
    layers = Convolution("block/3", 4, 1), ChannelScale("block/factors"), Dense("fc", 2)
    vector = ParameterVector(Network("small", (1, 1, 3), layers))
    views = _views(vector)
    rng = np.random.default_rng(0)
    for values in views.values():
        values[...] = rng.normal(size=values.shape)
    theirs = {
        "block.3.weight": views["block/3.weights"][:, :, 0, 0],
        "block.3.bias": views["block/3.bias"],
        "block.factors": views["block/factors.scale"][:, None, None],
        "fc.weight": views["fc.weights"],
        "fc.bias": views["fc.bias"],
    }
    file, found = tmp_path / "a.safetensors", ParameterVector(vector.network)
    save_file({name: np.ascontiguousarray(each) for name, each in theirs.items()}, file)
    assert load_weights(found, file) == ()
    for name, values in views.items():
        np.testing.assert_array_equal(found.views[name], values)


def test_new_layers_keep_their_values(full: ParameterVector, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_file({**_views(full), "fc.weights": np.ones((7, 3), np.float32)}, file)
    found, notes = _loaded(file, "f*")
    assert not found.views["fc.weights"].any()
    assert found.views["stage/conv.weights"].any()
    assert notes == ()


def test_what_the_file_has_beside_them_is_told(full: ParameterVector, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    more = {f"head{number}": np.ones(1, np.float32) for number in range(7)}
    save_file({**_views(full), **more}, file)
    (note,) = _loaded(file)[1]
    assert note.endswith("head0, head1, head2, head3, head4 and 2 more not used by the network")


def test_what_does_not_fit_is_named_with_the_way_out(full: ParameterVector, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    views = _views(full)
    save_file({**views, "fc.weights": np.ones((7, 3), np.float32)}, file)
    message = r"fc.weights is float32 \(7, 3\): expected float32 \(5, 3\).*new_layers = \['fc'\]"
    with pytest.raises(NetworkError, match=message):
        _loaded(file)
    save_file({**views, "fc.weights": np.ones((5, 3), np.int64)}, file)
    with pytest.raises(NetworkError, match=r"fc.weights is I64"):
        _loaded(file)
    del views["fc.bias"]
    save_file(views, file)
    with pytest.raises(NetworkError, match=r"lacks fc.bias: expected all .*'small'; it has fc.w"):
        _loaded(file)


def test_files_that_cannot_be_read_are_named(full: ParameterVector, tmp_path: Path) -> None:
    for name, message in (
        ("a.bin", "expected a file that ends in one of .caffemodel, .pt, .pth, .safetensors"),
        ("none.pt", "there is no such file"),
    ):
        with pytest.raises(NetworkError, match=message):
            _loaded(tmp_path / name)
    for name in ("a.pt", "a.safetensors", "a.caffemodel"):
        (tmp_path / name).write_bytes(b"\x80\x04 no such file at all")
        with pytest.raises(NetworkError, match=f"{name}.*expected"):
            _loaded(tmp_path / name)


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("run",))


def test_pickles_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.pt"
    torch.save({"fc.weight": Evil()}, file)
    with pytest.raises(NetworkError, match=r"expected tensors only.*could run any program"):
        _loaded(file)
    assert "run" not in capsys.readouterr().out
    torch.save([1, 2], file)
    with pytest.raises(NetworkError, match="holds list: expected a state dictionary"):
        _loaded(file)


def test_bfloat16_is_named(full: ParameterVector, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_torch_file({key: value.bfloat16() for key, value in _state(full).items()}, file)
    with pytest.raises(NetworkError, match="is BF16: expected F32; save its float"):
        _loaded(file)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.ones(5, dtype=torch.int64), "fc.bias is torch.int64"),
        (torch.ones(5, dtype=torch.complex64), "fc.bias is torch.complex64"),
        (torch.full((5,), torch.nan), "fc.bias has values that are not finite"),
        (torch.full((5,), 1e300, dtype=torch.float64), "fc.bias has values that are not finite"),
        (torch.ones(5).to_sparse(), "fc.bias is torch.float32, torch.sparse_coo"),
    ],
)
def test_values_that_are_no_weights_are_named(
    value: torch.Tensor, message: str, full: ParameterVector, tmp_path: Path
) -> None:
    file = tmp_path / "a.pt"
    torch.save({**_state(full), "unused": value}, file)
    _loaded(file)
    torch.save({**_state(full), "fc.bias": value}, file)
    vector = ParameterVector(NETWORK)
    with pytest.raises(NetworkError, match=message):
        load_weights(vector, file)
    assert not vector.packed.any()


def test_new_layers_that_there_are_not_are_named(full: ParameterVector, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_file(_views(full), file)
    with pytest.raises(NetworkError, match=r"unknown layer in network.new_layers 'fcc'.*'fc'"):
        _loaded(file, "fcc")


def test_network_with_the_names_of_a_wrapper_takes_its_own_file(tmp_path: Path) -> None:
    network = Network("own", (4, 4, 2), (Convolution("module.conv", 3, 3), ReLU("relu")))
    kept, found = ParameterVector(network), ParameterVector(network)
    kept.initialise(3)
    save_file(_views(kept), tmp_path / "a.safetensors")
    load_weights(found, str(tmp_path / "a.safetensors"))
    np.testing.assert_array_equal(found.packed, kept.packed)


def test_half_precision_becomes_single(full: ParameterVector, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_file({name: values.astype(np.float16) for name, values in _views(full).items()}, file)
    found, _ = _loaded(file)
    np.testing.assert_allclose(found.views["fc.weights"], full.views["fc.weights"], rtol=1e-3)


def test_weights_of_real_caffe_fit_its_lenet() -> None:
    vector = ParameterVector(lenet())
    assert load_weights(vector, real("lenet_iter_10000.caffemodel")) == ()
    assert all(values.any() for values in vector.views.values())
