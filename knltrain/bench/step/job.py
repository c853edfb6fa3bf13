"""The job of all contestants: a network, its first parameters and one batch, in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from knltrain.interchange.torch_terms import TORCH_NAMES, terms_of
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


def write_job(
    folder: Path, network: Network, batch: int, seed: int, evaluates: bool = False
) -> None:
    """Write `job.json` (the graph and its parameters' names) and `arrays.npz` (batch, parameters).

    A layer is described by its name, the names of its inputs, the way these are joined, and the
    modules of torch.nn that follow. An output is described by its layer and weight; a parameter by
    its name, its layer and its name in PyTorch. Contestants train on the batch or, if this
    `evaluates`, compute its loss at the first output.
    """
    parameters = ParameterVector(network)
    parameters.initialise(seed)
    random = np.random.default_rng(seed)
    (folder / "job.json").write_text(json.dumps(describe(network, evaluates)), encoding="utf-8")
    arrays: dict[str, Any] = {
        "images_nhwc": random.standard_normal((batch, *network.input_shape), np.float32),
        "labels": random.integers(0, network.output_shape[0], batch),
        **parameters.views,
    }
    np.savez(folder / "arrays.npz", **arrays)


def describe(network: Network, evaluates: bool = False) -> dict[str, Any]:
    """The network as JSON that a reader without knltrain understands."""
    layers, outputs = network.layers, network.outputs
    if evaluates:
        layers, outputs = network.needed_for(outputs[:1]), (replace(outputs[0], weight=1.0),)
    names = {layer.name for layer in layers}
    return {
        "evaluates": evaluates,
        "network": network.name,
        "layers": [
            {
                "name": layer.name,
                "inputs": network.inputs_of(layer),
                **asdict(terms_of(layer, network.input_shapes(layer)[0])),
            }
            for layer in layers
        ],
        "outputs": [asdict(output) for output in outputs],
        "parameters": [
            {"name": spec.name, "layer": spec.layer, "attribute": TORCH_NAMES[spec.role]}
            for spec in network.parameters
            if spec.layer in names
        ],
    }
