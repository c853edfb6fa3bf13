from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.onnx import exporting, installation
from knltrain.network.zoo.lenet import lenet

from ..caffe.exported import filled


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = installation.find_spec
    monkeypatch.setattr(
        installation, "find_spec", lambda name: None if name == "onnxscript" else found("re")
    )
    with pytest.raises(NetworkError, match="takes the package onnxscript, which is not installed"):
        exporting.onnx_file(lenet(), filled(lenet()))


def test_network_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    monkeypatch.setattr(exporting, "_LARGEST_FILE", 1000)
    with pytest.raises(NetworkError, match=r"'lenet' has 1,724,608 bytes of weights: expected at"):
        exporting.onnx_file(lenet(), filled(lenet()))
