from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


def test_networks_are_listed(invoke: Invoke) -> None:
    lines = invoke("networks").output.splitlines()
    assert lines[0].split()[:3] == ["network", "input", "layers"]
    (line,) = (line for line in lines if line.startswith("googlenet "))
    assert "13,378,280" in line
    found = json.loads(invoke("networks", "--json").output)
    assert {"lenet", "resnet-50", "densenet-121"} <= {each["name"] for each in found}


def test_one_network_is_told_layer_by_layer_and_drawn(invoke: Invoke, tmp_path: Path) -> None:
    picture = tmp_path / "lenet.svg"
    out = invoke("networks", "lenet", "--picture", str(picture)).output
    assert out.splitlines()[2].startswith("conv1  Convolution")
    assert "431,080" in out
    assert "conv1" in picture.read_text()
    found = json.loads(invoke("networks", "lenet", "--json").output)
    assert [each["name"] for each in found["layers"]][:2] == ["conv1", "pool1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lenett",), "unknown network.name 'lenett'"),
        (("--picture", "a.svg"), "--picture draws one network: expected its NAME"),
        (("lenet", "--picture", "a.png"), "expected a name that ends in .svg"),
        (("lenet", "--picture", "/nowhere/a.svg"), "cannot be written (No such file or directory)"),
    ],
)
def test_bad_words_are_named(
    exit_code: ExitCode,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code("networks", *words) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
