from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


@pytest.fixture
def own(config_file: Path, tmp_path: Path) -> list[str]:
    """The words that choose a small data set of the user's."""
    for half, count in (("train", 40), ("test", 8)):
        pixels = np.full((count, 6, 7, 3), (10, 20, 250), np.uint8)
        np.savez(tmp_path / f"{half}.npz", images=pixels, labels=np.arange(count) % 3)
    return [
        *(str(config_file), "--set", "data.name=numpy", "--set", f"data.root={tmp_path}"),
        *("--set", "data.train=train.npz", "--set", "data.test=test.npz"),
        *("--set", "data.train_images=", "--set", "data.test_images="),
    ]


def test_a_data_set_is_described_and_drawn(invoke: Invoke, own: list[str], tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    shown = invoke("data", *own, "--sheet", str(sheet))
    assert shown.output.splitlines() == [
        f"numpy from {tmp_path}: 3 classes",
        "",
        "training images   40",
        "height            6",
        "width             7",
        "channels          3",
        "mean              10.00, 20.00, 250.00 of 255",
        "deviation         0.00, 0.00, 0.00 of 255",
        "broken            0",
        "",
        "test images       8",
        *["height            6", "width             7", "channels          3"],
        "mean              10.00, 20.00, 250.00 of 255",
        "deviation         0.00, 0.00, 0.00 of 255",
        "broken            0",
        "",
        "class  training      test",
        "0            14         3",
        "1            13         3",
        "2            13         2",
    ]
    with Image.open(sheet) as image:
        assert image.format == "PNG"


def test_an_order_that_is_no_true_shuffle_is_noted(invoke: Invoke, own: list[str]) -> None:
    order = ("--set", "data.order=blocks", "--set", "data.block_images=4")
    (note,) = json.loads(invoke("data", *own, *order, "--json").stdout)["notes"]
    assert note.startswith("data.order = 'blocks' is no true shuffle: 10 blocks of 4 images")


def test_json_has_all_of_it(invoke: Invoke, own: list[str]) -> None:
    found = json.loads(invoke("data", *own, "--json").output)
    assert found["class_names"] == ["0", "1", "2"]
    assert found["test"]["counts"] == [3, 3, 2]
    assert found["training"]["height"] == {"least": 6, "median": 6, "most": 6}
    assert found["training"]["mean"] == [10, 20, 250]
    assert found["notes"] == []


def test_many_classes_are_summed_up(invoke: Invoke, config_file: Path) -> None:
    words = ["data.name=random", "data.image=[8, 8, 1]", "data.classes=30"]
    words += ["data.train_images=100", "data.test_images=31"]
    shown = invoke("data", str(config_file), *(part for word in words for part in ("--set", word)))
    assert shown.output.splitlines()[-2:] == [
        "training images of a class: 3 ('10') to 4 ('0')",
        "test images of a class: 1 ('1') to 2 ('0')",
    ]


def test_broken_pictures_are_named_where_a_run_would_skip_them(
    invoke: Invoke, config_file: Path, tmp_path: Path
) -> None:
    for place in ("train/cat/1", "train/cat/2", "train/dog/1", "test/cat/1", "test/dog/1"):
        path = tmp_path / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, len(place)), "red").save(path)
    (tmp_path / "train/cat/2.png").write_bytes(b"no picture")
    words = ["data.name=folder", f"data.root={tmp_path}", "data.broken=skip"]
    words += ["data.train_images=", "data.test_images="]
    shown = invoke("data", str(config_file), *(part for word in words for part in ("--set", word)))
    lines = shown.output.splitlines()
    assert "broken            1" in lines
    assert any(line.startswith(f"  {tmp_path}/train/cat/2.png: ") for line in lines)
    assert "cat           2         1" in lines


@pytest.mark.parametrize("name", ["digits", "synthetic-labels"])
def test_data_sets_that_come_along_are_described(
    invoke: Invoke, config_file: Path, name: str
) -> None:
    words = [f"data.name={name}", "data.train_images=30", "data.test_images=10"]
    shown = invoke("data", str(config_file), *(part for word in words for part in ("--set", word)))
    assert "training images   30" in shown.output.splitlines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sheet", "a.svg"], "--sheet a.svg: expected a name that ends in .png"),
        (["--sheet", "/nowhere/a.png"], "cannot be written (No such file or directory)"),
        (["--set", "data.test="], "no files for test images"),
        (["--set", "data.train=none.npz"], "data.train = 'none.npz': no such file in"),
        (["--set", "data.channels=1"], "data.name = 'numpy' does not read it, only lmdb, parquet"),
        (["--set", "data.name=digits"], "data.train = ('train.npz',): data.name = 'digits' does"),
    ],
)
def test_bad_words_are_named(
    exit_code: ExitCode,
    own: list[str],
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code("data", *own, *words) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert message in err
