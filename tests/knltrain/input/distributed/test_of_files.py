"""Data sets read from files of several formats: the same images from the memories of nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from knltrain.assembly import build_dataset
from knltrain.config import RunConfig
from knltrain.data.dataset import Batch, Dataset
from knltrain.data.preprocessing import Draws

from ...data.packed import encoded_halves, packed, raw_halves
from ...data.readers.written import write_idx
from .conftest import Spread


def folder(root: Path) -> dict[str, str]:
    encoded_halves(root)
    return {"name": "folder"}


def packed_raw(root: Path) -> dict[str, str]:
    return {"name": "packed", "root": str(packed(root / "raw.pack", raw_halves()))}


def packed_encoded(root: Path) -> dict[str, str]:
    return {"name": "packed", "root": str(packed(root / "e.pack", encoded_halves(root)))}


def idx(root: Path) -> dict[str, str]:
    random = np.random.default_rng(1)
    for half, count in (("train", 11), ("t10k", 5)):
        write_idx(root / f"{half}-images-idx3-ubyte", random.integers(0, 256, (count, 9, 8)))
        write_idx(root / f"{half}-labels-idx1-ubyte", np.arange(count) % 3)
    return {"name": "idx"}


def images_of(dataset: Dataset) -> list[Batch]:
    found = []
    for half, draws in ((dataset.train, Draws(1, 2)), (dataset.test, None)):
        rows = np.random.default_rng(3).permutation(len(half))
        batch = Batch.allocate(len(half), half.image_shape)
        half.write(rows, batch, draws)
        found.append(batch)
    return found


@pytest.mark.parametrize("made", [folder, packed_raw, packed_encoded, idx])
def test_nodes_have_the_images_of_the_whole(
    made: Callable[[Path], dict[str, str]], tmp_path: Path, spread: Spread
) -> None:
    data = {"root": str(tmp_path), "side_pixels": 8, "recipe": "cifar", **made(tmp_path)}
    whole = build_dataset(
        RunConfig.model_validate(
            {
                "network": {"name": "lenet"},
                "data": data,
                "train": {"steps": 1, "batch": 2},
                "learning_rate": {"base": 0.1},
            }
        )
    )
    expected = images_of(whole)
    for node in spread(whole):
        for found, wanted in zip(images_of(node), expected, strict=True):
            np.testing.assert_array_equal(found.images_nhwc, wanted.images_nhwc)
            np.testing.assert_array_equal(found.labels, wanted.labels)
