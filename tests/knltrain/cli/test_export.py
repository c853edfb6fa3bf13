"""Trained networks for other programs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import Result
from safetensors.numpy import save_file

from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

from ..trained_run import trained_run, write_pictures

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    parameters = ParameterVector(lenet())
    parameters.initialise(1)
    save_file(parameters.views, "lenet.safetensors")
    yield
    os.chdir(before)


def test_network_with_weights_is_written_as_files_of_caffe(invoke: Invoke) -> None:
    words = ("export", "lenet", "--weights", "lenet.safetensors", "--out", "a.prototxt")
    assert invoke(*words).output.splitlines() == [
        "a.prototxt: network 'lenet' with the weights of lenet.safetensors",
        "a.caffemodel: network 'lenet' with the weights of lenet.safetensors",
    ]
    out = invoke("import-caffe", "a.prototxt", "--out", "back.toml").output
    assert "back.json: network 'lenet', 431,080 parameters" in out
    words = ("export", "back.json", "--weights", "a.caffemodel", "--out", "b.prototxt", "--opencv")
    invoke(*words)
    assert Path("a.caffemodel").read_bytes() == Path("b.caffemodel").read_bytes()


def test_half_of_the_files_is_not_left(
    exit_code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module("knltrain.cli.export")
    write = module.write_whole_bytes

    def full(path: Path, parts: list[bytes]) -> None:
        if path.suffix == ".caffemodel":
            raise OSError(28, "No space left on device")
        write(path, parts)

    monkeypatch.setattr(module, "write_whole_bytes", full)
    words = ("export", "lenet", "--weights", "lenet.safetensors", "--out", "a.prototxt")
    assert exit_code(*words) == 2
    assert "a.caffemodel cannot be written (No space left on device)" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["lenet.safetensors"]


def test_onnx_is_written_as_it_comes(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("knltrain.interchange.onnx.exporting")
    monkeypatch.setattr(module, "onnx_file", lambda network, *_: network.name.encode())
    invoke("export", "lenet", "--weights", "lenet.safetensors", "--out", "a.onnx")
    assert Path("a.onnx").read_bytes() == b"lenet"


def test_preprocessing_of_a_run_goes_with_its_model(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_pictures(tmp_path / "a", {"dark": "night", "light": "day", "split": "dusk"}, 4)
    run = trained_run(tmp_path / "run", root, train__steps=1)
    kept = (run / "preprocessing.json").read_text()
    told = invoke("export", str(run), "--out", "a.prototxt").output.splitlines()
    assert told[2] == "a.preprocessing.json: how pictures become images, and names of classes"
    assert Path("a.preprocessing.json").read_text() == kept
    assert "# transform_param { mean_value: " in Path("a.prototxt").read_text()
    assert invoke("import-caffe", "a.prototxt", "--out", "back.toml").exit_code == 0
    module = importlib.import_module("knltrain.interchange.onnx.exporting")
    monkeypatch.setattr(module, "onnx_file", lambda *given: given[2]["preprocessing"].encode())
    invoke("export", str(run / "checkpoint-1"), "--out", "b.onnx")
    assert Path("b.onnx").read_text() == Path("b.preprocessing.json").read_text() == kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lenet", "--out", "a.h5"), "--out a.h5: expected a name that ends in .prototxt or .onnx"),
        (("lenet", "--out", "a.onnx", "--opencv"), "--opencv is for a .prototxt"),
        (("lenet", "--out", "a.onnx"), "'lenet' is a network without weights: expected --weights"),
        (("lenett", "--out", "a.onnx"), "unknown network.name 'lenett'"),
        (
            ("lenet", "--weights", "lenet.safetensors", "--out", "there.prototxt"),
            "there.caffemodel exists: give another name with --out",
        ),
        ((".", "--weights", "a.pt", "--out", "a.onnx"), "'.' is a run's folder"),
        (
            ("resnet-18", "--weights", "lenet.safetensors", "--out", "a.onnx"),
            "conv1.weights is",
        ),
    ],
)
def test_bad_words_are_named(
    exit_code: ExitCode,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there.caffemodel").write_text("")
    assert exit_code("export", *words) == 2
    assert message in capsys.readouterr().err


def test_interrupted_write_leaves_nothing(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("knltrain.cli.export")

    def stop(path: Path, _parts: object) -> NoReturn:
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_whole_bytes", stop)
    invoke("export", "lenet", "--weights", "lenet.safetensors", "--out", "a.prototxt")
    assert not Path("a.prototxt").exists()
