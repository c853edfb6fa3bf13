from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx.comparison import check_same
from knltrain.interchange.onnx.graph import read_graph
from knltrain.interchange.onnx.importing import from_onnx

from .onnx_files import array, behind, file_of, node


def test_networks_that_differ_are_refused(tmp_path: Path) -> None:
    path = behind([node("Relu", "x", "m")], {}, tmp_path / "a.onnx")
    found = from_onnx(path)
    check_same(read_graph(path), found.network, found.parameters, path)
    found.parameters.views["fc.bias"][1] += 0.01
    with pytest.raises(NetworkError, match=r"a.onnx: the network's outputs differ .* by 0.01 of"):
        check_same(read_graph(path), found.network, found.parameters, path)


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = behind([node("Relu", "x", "m")], {}, tmp_path / "a.onnx")
    found = from_onnx(path)
    found.parameters.views["fc.bias"][1] = np.nan
    with pytest.raises(NetworkError, match="differ from the file's by nan"):
        check_same(read_graph(path), found.network, found.parameters, path)


@pytest.mark.parametrize("size", [3, 5])
def test_lrn_is_that_of_all_channels(size: int, tmp_path: Path) -> None:
    nodes = [node("LRN", "x", "m", size=size, alpha=2.0)]
    from_onnx(behind(nodes, {}, tmp_path / "a.onnx"))


def test_file_that_cannot_be_computed_is_named(tmp_path: Path) -> None:
    path = behind([node("Relu", "x", "m")], {}, tmp_path / "a.onnx")
    found = from_onnx(path)
    nodes = [node("Gemm", "x fc", "y")]
    other = file_of(tmp_path / "b.onnx", nodes, {"fc": array(5, 3)})
    with pytest.raises(NetworkError, match=r"b.onnx cannot be computed"):
        check_same(read_graph(other), found.network, found.parameters, other)
