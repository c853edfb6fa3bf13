"""The rate of training on decoded pictures, beside that on computed ones, on the same cores."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from knltrain.bench.data.written import CLASSES, smooth_pictures, written_packed
from knltrain.bench.methods.one_run import carry_out
from knltrain.config import RunConfig
from knltrain.data.packed_records import StoredAs
from knltrain.errors import ConfigError, KnltrainError
from knltrain.network.zoo.networks import network_named

PICTURES: Final = 256


def check_network(network: str, batch: int) -> None:
    """Raise ConfigError for what `run_training_benchmark` cannot train."""
    channels = network_named(network, CLASSES).input_shape[2]
    if channels != 3:
        raise ConfigError(f"--network {network}: has {channels} channel: expected one of 3, RGB")
    if batch > PICTURES:
        raise ConfigError(f"--batch {batch}: expected {PICTURES} at most, all pictures there are")


def run_training_benchmark(
    network: str, pixels: int, batch: int, steps: int, rounds: int, decoded_per_second: float
) -> dict[str, Any]:
    """Train `network` in one thread, with a data core beside it, on JPEGs of `pixels` pixels.

    The report has `images_per_second` of both kinds, medians over rounds in turns;
    `share_of_synthetic`; `data_share`, the share of the time in which the worker had no batch; and
    `data_cores`, how many cores that make `decoded_per_second` images each would do. Raises
    KnltrainError where there are no two cores, or a run fails.
    """
    side = network_named(network, CLASSES).input_shape[0]
    rates: dict[str, list[float]] = {"synthetic": [], "decoded": []}
    waited: list[float] = []
    with TemporaryDirectory(prefix="knltrain-bench-") as folder:
        path = Path(folder) / "jpeg.pack"
        written_packed(path, smooth_pictures(PICTURES, pixels, 3), StoredAs(short_side=pixels))
        data: dict[str, dict[str, Any]] = {
            "synthetic": {"name": "random", "image": (pixels, pixels, 3), "classes": CLASSES},
            "decoded": {"name": "packed", "root": str(path)},
        }
        for _ in range(rounds):
            for kind, rate in rates.items():
                found = carry_out(_configuration(network, data[kind], side, batch, steps))
                if found.failure is not None:
                    raise KnltrainError(f"training on {kind} pictures failed: {found.failure}")
                rate.append(found.result["images_per_second"])
                if kind == "decoded":
                    waited.append(found.result["data_share"])
    synthetic, decoded = (statistics.median(rates[kind]) for kind in ("synthetic", "decoded"))
    return {
        "network": network,
        "batch": batch,
        "steps": steps,
        "images_per_second": {"synthetic": synthetic, "decoded": decoded},
        "share_of_synthetic": decoded / synthetic,
        "data_share": statistics.median(waited),
        "decoded_per_second": decoded_per_second,
        "data_cores": math.ceil(synthetic / decoded_per_second),
    }


def _configuration(
    network: str, data: dict[str, Any], side: int, batch: int, steps: int
) -> RunConfig:
    numbers = {"mean": "imagenet", "deviation": "imagenet"}
    sizes = {"train_images": PICTURES, "test_images": CLASSES}
    return RunConfig.model_validate(
        {
            "workers": 1,
            "network": {"name": network, "classes": CLASSES},
            "data": {**data, **numbers, **sizes, "side_pixels": side, "recipe": "caffe"},
            "train": {"steps": steps, "batch": batch},
            "learning_rate": {"base": 0.0001},
            "backend": {"threads": 1},
            "evaluation": {"every_epochs": 0},
            "checkpoint": {"every_epochs": 0},
            "placement": {"data_cores": 1},
        }
    )
