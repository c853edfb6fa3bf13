from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from knltrain.errors import NetworkError
from knltrain.interchange.optimizer_file import (
    OptimizerVectors,
    optimizer_file,
    read_optimizer_file,
)
from knltrain.network.layers import BatchNormalisation, Convolution, Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

NETWORK = Network(
    "small", (4, 4, 2), (Convolution("c", 3, 3), BatchNormalisation("n"), Dense("fc", 5))
)


def _state() -> OptimizerVectors:
    vectors = {name: ParameterVector(NETWORK) for name in ("first", "second")}
    for number, vector in enumerate(vectors.values(), 1):
        for spec in NETWORK.parameters:
            if not spec.is_statistic:
                vector.views[spec.name][...] = np.arange(spec.size).reshape(spec.shape) + number
    return OptimizerVectors("adam", vectors)


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, state = tmp_path / "a.safetensors", _state()
    path.write_bytes(optimizer_file(state))
    found = read_optimizer_file(path, NETWORK)
    assert found.optimizer == "adam"
    assert found.vectors.keys() == state.vectors.keys()
    for name, vector in state.vectors.items():
        assert found.vectors[name].packed.tobytes() == vector.packed.tobytes()


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {f"first:{name}": values for name, values in _state().vectors["first"].views.items()}
    tensors = {name: values for name, values in tensors.items() if "running" not in name}
    whole = {"optimizer": "adam"}
    for changed, metadata, message in (
        ({}, None, "tells no optimizer: expected a file of `knltrain import-caffe"),
        ({"first:c.bias": np.zeros(4, np.float32)}, whole, r"first:c.bias \(4,\) is no parameter"),
        ({"first:d.bias": np.zeros(4, np.float32)}, whole, "first:d.bias .* is no parameter"),
        ({"second:c.bias": np.zeros(3, np.float32)}, whole, "lacks second:c.weights"),
        ({"first:c.bias": np.full(3, np.nan, np.float32)}, whole, "not finite"),
    ):
        save_file({**tensors, **changed}, path, metadata)
        with pytest.raises(NetworkError, match=f"train.optimizer_state = '{path}'.*{message}"):
            read_optimizer_file(path, NETWORK)
    path.write_bytes(b"no")
    for each in (path, tmp_path / "none"):
        with pytest.raises(NetworkError, match="cannot be read"):
            read_optimizer_file(each, NETWORK)
