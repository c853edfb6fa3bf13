"""PyTorch as a contestant: runs under any Python with torch and NumPy, knltrain not needed.

    python torch_peer.py JOB THREADS

JOB is a folder written by `knltrain.bench.job`. The peer speaks the protocol of `protocol.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __package__:
    from . import protocol
else:  # Run by its path: Python then looks for modules in this folder first.
    import protocol  # type: ignore[import-not-found, no-redef, unused-ignore]


def build_modules(layers: list[dict[str, Any]], shapes: list[list[int]]) -> Any:
    """Return the network as torch modules; layers as `job` describes them, shapes per input."""
    from torch import nn

    modules: list[nn.Module] = []
    for layer, shape in zip(layers, shapes, strict=False):
        kind = layer["type"]
        if kind == "Convolution":
            modules.append(
                nn.Conv2d(
                    shape[2], layer["filters"], layer["kernel"], layer["stride"], layer["padding"]
                )
            )
        elif kind == "MaxPooling":
            modules.append(nn.MaxPool2d(layer["kernel"], layer["stride"]))
        elif kind == "Dense":
            inputs = 1
            for extent in shape:
                inputs *= extent
            if len(shape) == 3:
                modules.append(nn.Flatten())
            modules.append(nn.Linear(inputs, layer["units"]))
        elif kind == "ReLU":
            modules.append(nn.ReLU())
        else:
            raise ValueError(f"layer type {kind!r} is unknown to the PyTorch peer")
    return nn.Sequential(*modules)


def main(job: Path, threads: int) -> None:
    """Train eagerly in channels_last with the fused SGD of PyTorch."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    description = json.loads((job / "job.json").read_text(encoding="utf-8"))
    arrays = np.load(job / "arrays.npz")
    network = build_modules(description["layers"], description["shapes"])
    with torch.no_grad():
        for parameter, name in zip(network.parameters(), description["parameters"], strict=True):
            parameter.copy_(torch.from_numpy(arrays[name]))
    network = network.to(memory_format=torch.channels_last)
    images = torch.from_numpy(arrays["images_nhwc"]).permute(0, 3, 1, 2)
    labels = torch.from_numpy(arrays["labels"])
    optimizer = torch.optim.SGD(
        network.parameters(),
        protocol.LEARNING_RATE,
        protocol.MOMENTUM,
        weight_decay=protocol.WEIGHT_DECAY,
        fused=True,
    )

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimizer.step()
        return loss

    first_loss = step().item()
    for _ in range(protocol.WARM_UP_STEPS):
        step()
    ready = {"loss": first_loss, "version": f"torch {torch.__version__}"}
    protocol.serve(ready, lambda seconds: protocol.steps_within(seconds, step))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
