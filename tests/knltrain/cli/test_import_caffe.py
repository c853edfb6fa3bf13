from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from ..interchange.caffe.caffe_files import blob, field

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]

NETS = Path(__file__).parents[1] / "interchange/caffe/nets"
SOLVER = str(NETS / "lenet_solver.prototxt")


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


def test_solver_is_imported_beside_its_network(invoke: Invoke) -> None:
    lines = invoke("import-caffe", SOLVER, "--out", "lenet.toml").output.splitlines()
    assert lines[:2] == [
        "lenet.json: network 'LeNet', 431,080 parameters",
        "lenet.toml: the run; start it with `knltrain train lenet.toml`",
    ]
    assert any("display: 100 dropped" in line for line in lines)
    assert '"conv1"' in Path("lenet.json").read_text()
    assert "# max_iter, line 13\nsteps = 10000\n" in Path("lenet.toml").read_text()
    assert "conv1  Convolution" in invoke("networks", "lenet.json").output


def test_net_alone_gives_a_network(invoke: Invoke) -> None:
    out = invoke("import-caffe", str(NETS / "lenet_train_test.prototxt")).output
    assert "--set network.name=lenet_train_test.json" in out
    assert [path.name for path in Path().iterdir()] == ["lenet_train_test.json"]


def test_half_of_the_files_is_not_left(
    exit_code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module("knltrain.cli.import_caffe")
    write = module.write_whole_bytes

    def full(path: Path, parts: list[bytes]) -> None:
        if path.suffix == ".toml":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, parts)

    monkeypatch.setattr(module, "write_whole_bytes", full)
    assert exit_code("import-caffe", SOLVER, "--out", "lenet.toml") == 2
    assert "lenet.toml cannot be written (No space left on device)" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_state_of_the_solver_is_written_beside(invoke: Invoke) -> None:
    sizes = (500, 20, 25000, 50, 400000, 500, 5000, 10)
    history = [field(3, blob((size,), [1] * size)) for size in sizes]
    Path("a.solverstate").write_bytes(field(1, 7) + b"".join(history))
    words = ("--solverstate", "a.solverstate", "--weights", "a.caffemodel", "--out", "a.toml")
    lines = invoke("import-caffe", SOLVER, *words).output.splitlines()
    assert lines[2] == "a-state.safetensors: the state of its optimizer, from a.solverstate"
    assert 'optimizer_state = "a-state.safetensors"' in Path("a.toml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.prototxt",), "none.prototxt cannot be read (No such file or directory)"),
        ((SOLVER, "--out", "a.txt"), "--out a.txt: expected a name that ends in .toml"),
        ((SOLVER, "--out", "there.toml"), "there.toml exists: give another name with --out"),
        ((SOLVER, "--out", "/nowhere/a.toml"), "/nowhere/a.json cannot be written (No such file"),
        ((SOLVER, "--input", "28x28"), "'28x28': expected HEIGHTxWIDTHxCHANNELS, as 227x227x3"),
        ((SOLVER, "--data", "cifar"), "unknown data.name 'cifar'"),
        ((SOLVER, "--weights", "a.caffemodel"), "--weights is for --solverstate"),
        ((SOLVER, "--solverstate", "none"), "none cannot be read (No such file or directory)"),
    ],
)
def test_bad_words_are_named_and_nothing_is_written(
    exit_code: ExitCode,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there.toml").write_text("")
    assert exit_code("import-caffe", *words) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["there.toml"]
