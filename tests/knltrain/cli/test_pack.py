from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from knltrain.assembly.names import build_dataset
from knltrain.config import load_config
from knltrain.data.dataset import Batch
from knltrain.data.preprocessing import Draws

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


@pytest.fixture
def digits(config_file: Path) -> list[str]:
    words = ["data.name=digits", "data.train_images=30", "data.test_images=10"]
    return [str(config_file), *(part for word in words for part in ("--set", word))]


def test_a_packed_data_set_trains_as_its_source(
    invoke: Invoke, digits: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "digits.pack"
    shown = invoke("pack", *digits, str(file))
    assert shown.output.splitlines() == [
        f"{file}: 30 training and 10 test pictures, {file.stat().st_size / 1024:.1f} KiB",
        f"train on it by --set data.name=packed --set data.root={file}",
    ]
    given = ["data.recipe=cifar", "data.shift_pixels=1", "data.side_pixels=8"]
    source = load_config(Path(digits[0]), (*digits[2::2], *given))
    packed = load_config(
        Path(digits[0]),
        (
            "data.name=packed",
            f"data.root={file}",
            "data.train_images=",
            "data.test_images=",
            *given,
        ),
    )
    batches, contents = [], []
    for config in (source, packed):
        dataset = build_dataset(config)
        batch = Batch.allocate(7, dataset.train.image_shape)
        dataset.train.write(np.arange(7) * 4, batch, Draws(5, 2))
        batches.append(batch)
        contents.append(dataset.contents)
    np.testing.assert_array_equal(batches[0].images_nhwc, batches[1].images_nhwc)
    np.testing.assert_array_equal(batches[0].labels, batches[1].labels)
    assert contents[0] is not None
    assert contents[1] is not None
    assert contents[0].same_as(contents[1])


def test_checksums_are_verified(
    invoke: Invoke,
    exit_code: ExitCode,
    digits: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "digits.pack"
    invoke("pack", *digits, str(file), "--short-side", "4", "--quality", "50", "--threads", "1")
    assert invoke("pack", "--check", str(file)).output == f"{file}: all checksums agree\n"
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    assert exit_code("pack", "--check", str(file)) == 2
    assert "damaged: training pictures 0 to 29, or some of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check", "a", "b"], "--check takes one FILE, and no CONFIG"),
        (["a"], "expected CONFIG and FILE, or --check FILE"),
        (["a", "b", "--side", "3", "--short-side", "4"], "expected one of them"),
        (["a", "b", "--quality", "3"], "expected --short-side, too"),
        (["--check", "none"], "data.root = 'none': cannot be read (No such file or directory)"),
    ],
)
def test_bad_words_are_named(
    exit_code: ExitCode, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("pack", *words) == 2
    assert message in capsys.readouterr().err


def test_the_file_is_asked_for(
    exit_code: ExitCode, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("data", str(config_file), "--set", "data.name=packed") == 2
    assert "data.root is missing: expected the file" in capsys.readouterr().err
