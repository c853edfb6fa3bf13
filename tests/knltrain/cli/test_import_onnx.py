"""Networks of ONNX files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.interchange.weights import load_weights
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import network_named

from ..interchange.onnx.onnx_files import behind, node

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    behind([node("Relu", "x", "m")], {}, Path("a.onnx"))
    yield
    os.chdir(before)


def test_network_is_written_with_its_weights(invoke: Invoke) -> None:
    lines = invoke("import-onnx", "a.onnx").output.splitlines()
    assert lines[0] == "a.json: network 'small', 15 parameters"
    assert "--set network.name=a.json --set network.weights=a.safetensors" in lines[1]
    network = network_named("a.json")
    assert load_weights(ParameterVector(network), "a.safetensors") == ()


def test_half_of_the_files_is_not_left(
    exit_code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module("knltrain.cli.import_onnx")
    write = module.write_whole_bytes

    def full(path: Path, parts: list[bytes]) -> None:
        if path.suffix == ".json":
            raise OSError(28, "No space left on device")
        write(path, parts)

    monkeypatch.setattr(module, "write_whole_bytes", full)
    assert exit_code("import-onnx", "a.onnx") == 2
    assert "a.json cannot be written (No space left on device)" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["a.onnx"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.onnx", "--out", "a.toml"), "--out a.toml: expected a name that ends in .json"),
        (("a.onnx", "--out", "there.json"), "there.safetensors exists: give another name"),
        (("none.onnx",), "none.onnx cannot be read"),
    ],
)
def test_bad_words_are_named(
    exit_code: ExitCode,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there.safetensors").write_text("")
    assert exit_code("import-onnx", *words) == 2
    assert message in capsys.readouterr().err
