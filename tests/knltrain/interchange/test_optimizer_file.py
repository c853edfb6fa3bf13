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
    vectors = {name: ParameterVector(NETWORK) for name in ("first_moment", "second_moment")}
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
    tensors = {
        f"{name}:{key}": values
        for name, vector in _state().vectors.items()
        for key, values in vector.views.items()
        if "running" not in key
    }
    first = {name: values for name, values in tensors.items() if "first" in name}
    whole = {"optimizer": "adam"}
    for changed, metadata, message in (
        ({}, None, "tells no optimizer: expected a file of `knltrain import-caffe"),
        (
            {"first_moment:c.bias": np.zeros(4, np.float32)},
            whole,
            r"first_moment:c.bias \(4,\) is no parameter",
        ),
        (
            {"first_moment:d.bias": np.zeros(4, np.float32)},
            whole,
            "first_moment:d.bias .* is no parameter",
        ),
        ({"velocity:c.bias": np.zeros(3, np.float32)}, whole, r"vectors \['first_moment', 'sec"),
        ({}, {"optimizer": "sgd"}, r"of optimizer 'sgd': expected \['velocity'\]"),
        ({}, {"optimizer": "none"}, r"of optimizer 'none': expected {'sgd': "),
        ({"first_moment:c.bias": np.full(3, np.nan, np.float32)}, whole, "not finite"),
    ):
        save_file({**tensors, **changed}, path, metadata)
        with pytest.raises(NetworkError, match=f"train.optimizer_state = '{path}'.*{message}"):
            read_optimizer_file(path, NETWORK)
    for kept, message in (
        ({}, r"has the vectors \[\] of optimizer 'adam'"),
        (first, r"has the vectors \['first_moment'\] of optimizer 'adam': expected \['first_mo"),
        (
            {**first, "second_moment:c.bias": np.zeros(3, np.float32)},
            "lacks second_moment:c.weights",
        ),
    ):
        save_file(kept, path, whole)
        with pytest.raises(NetworkError, match=message):
            read_optimizer_file(path, NETWORK)
    path.write_bytes(b"no")
    for each in (path, tmp_path / "none"):
        with pytest.raises(NetworkError, match="cannot be read"):
            read_optimizer_file(each, NETWORK)
