"""What all contestants compute: a network, its first parameters and one batch, in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


def write_job(folder: Path, network: Network, batch: int, seed: int) -> None:
    """Write `job.json` (layers, shapes, parameter names) and `arrays.npz` (batch, parameters)."""
    parameters = ParameterVector(network)
    parameters.initialise(seed)
    random = np.random.default_rng(seed)
    classes = network.shapes[-1][0]
    description = {
        "network": network.name,
        "layers": [{"type": type(layer).__name__, **asdict(layer)} for layer in network.layers],  # type: ignore[call-overload]
        "shapes": network.shapes,
        "parameters": [spec.name for spec in network.parameters],
    }
    (folder / "job.json").write_text(json.dumps(description), encoding="utf-8")
    arrays: dict[str, Any] = {
        "images_nhwc": random.standard_normal((batch, *network.input_shape), np.float32),
        "labels": random.integers(0, classes, batch),
        **parameters.views,
    }
    np.savez(folder / "arrays.npz", **arrays)
