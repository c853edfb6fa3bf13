from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from knltrain.errors import ConfigError, NetworkError
from knltrain.interchange.caffe.means import read_mean
from knltrain.interchange.caffe.net import CaffeNet

from .caffe_files import blob, real
from .prototxts import DENSE, LOSS, net


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


def _net(transform: str) -> CaffeNet:
    data = """layer { name: "data" type: "Data" top: "data" top: "label"
    data_param { source: "lmdb" batch_size: 4 } transform_param { TRANSFORM } }
    """.replace("TRANSFORM", transform)
    return net(data + DENSE + LOSS, (8, 8, 3))


def _write(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    Path("mean.binaryproto").write_bytes(blob(shape, list(range(size)), legacy=len(shape) == 4))


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (3, 10, 9)])
def test_mean_image_is_read_and_told(shape: tuple[int, ...]) -> None:
    _write(shape)
    found = read_mean(Path("mean.binaryproto"))
    assert found.shape == shape[-3:]
    notes = "\n".join(_net('mean_file: "mean.binaryproto"').notes)
    means = ", ".join(f"{each:.4g}" for each in found.mean(axis=(1, 2), dtype=np.float64))
    assert f"a.prototxt:2: layer 'data': mean_file 'mean.binaryproto' of {shape[-2]} x" in notes
    assert f"means of its channels {means}, dropped: knltrain standardises" in notes


def test_mean_that_caffe_has_written() -> None:
    found = read_mean(real("imagenet_256x256_mean.binaryproto"))
    assert found.shape == (3, 256, 256)
    means = found.mean(axis=(1, 2), dtype=np.float64)
    assert means == pytest.approx([104.0087, 116.6725, 122.6739], abs=1e-3)


def test_mean_that_is_not_here_is_told() -> None:
    for name in ("none.binaryproto", "x" * 5000, "a\\000b"):
        assert any(
            "is not here, and was not checked" in each
            for each in _net(f'mean_file: "{name}"').notes
        )


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ('mean_file: "mean.binaryproto" mean_value: 1', r"mean_file and mean_value \(line 2\)"),
        ("mean_value: 1 mean_value: 2", "2 mean_value: expected one, or one for each of 3"),
        ('mean_file: "mean.binaryproto"', "is 7 x 8 x 3: expected 8 x 8 x 3 or larger"),
        ('mean_file: "text"', "mean_file: text: byte 0"),
        (
            'mean_file: "flat"',
            r"mean_file: flat is an array of shape \(4,\): expected",
        ),
    ],
)
def test_means_that_do_not_fit_are_refused(transform: str, message: str) -> None:
    _write((1, 3, 7, 8))
    Path("text").write_text("no")
    Path("flat").write_bytes(blob((4,), (1, 2, 3, 4)))
    with pytest.raises(ConfigError, match=f"a.prototxt:2: layer 'data': .*{message}"):
        _net(transform)


def test_numbers_of_channels_are_told() -> None:
    for values in ("mean_value: 104", "mean_value: 104 mean_value: 117 mean_value: 123"):
        assert any("dropped: " in each and "mean_value" in each for each in _net(values).notes)


def test_damaged_mean_is_named() -> None:
    _write((1, 3, 8, 8))
    path = Path("mean.binaryproto")
    whole = path.read_bytes()
    for size in range(0, len(whole), 50):
        path.write_bytes(whole[:size])
        with pytest.raises(NetworkError, match=r"mean.binaryproto"):
            read_mean(path)
