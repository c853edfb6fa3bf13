"""PyTorch as a contestant: runs under any Python with torch 2.8 or newer, knltrain not needed.

    python torch_peer.py JOB THREADS [eager|compile|optimized|ipex]

JOB is a folder written by `knltrain.bench.step.job`. The peer speaks the protocol of `protocol.py`
and builds the network by `torch_graph.py`; both files are beside it. It trains in float32 and
channels_last, with the fastest SGD that its way of computing has.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import sysconfig
from pathlib import Path

import numpy as np
import torch

if __package__:
    from . import protocol
    from .torch_graph import Graph
else:  # Run by its path: Python then looks for modules in this folder first.
    import protocol  # type: ignore[import-not-found, no-redef, unused-ignore]
    from torch_graph import Graph  # type: ignore[import-not-found, no-redef, unused-ignore]

IPEX = "intel-extension-for-pytorch"
IPEX_RELEASE = "2.8"
"""The last one; it works with the PyTorch of the same number alone."""


def eager(network: Graph) -> tuple[torch.optim.Optimizer, str]:
    """Leave the modules as they are; return the optimizer and PyTorch's version."""
    return _sgd(network, fused=True), f"torch {torch.__version__}"


def compiled(network: Graph) -> tuple[torch.optim.Optimizer, str]:
    """Let torch.compile's inductor translate the modules, which happens in the first step."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    header = Path(sysconfig.get_path("include"), "Python.h")
    try:
        get_cpp_compiler()
        missing = None if header.exists() else str(header)
    except InvalidCxxCompiler:
        missing = "g++"
    if missing:
        sys.exit(
            f"torch.compile needs a C++ compiler and Python's headers, but there is no {missing}: "
            "install g++ and python3-dev, or name a compiler by CXX"
        )
    network.compile()  # type: ignore[no-untyped-call, unused-ignore]
    return _sgd(network, fused=True), f"torch {torch.__version__} compiled"


def optimized(network: Graph) -> tuple[torch.optim.Optimizer, str]:
    """Let `vectorized_ops.torch.optimize` replace modules where it can; needs vectorized_ops."""
    from vectorized_ops.torch import optimize

    return _sgd(optimize(network), fused=True), f"torch {torch.__version__} optimized"


def ipex(network: Graph) -> tuple[torch.optim.Optimizer, str]:
    """Let IPEX lay out the weights for its kernels, and use its fused SGD."""
    found = {name: _version(name) for name in ("torch", IPEX)}
    if not all(f"{version}.".startswith(f"{IPEX_RELEASE}.") for version in found.values()):
        has = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
        sys.exit(
            f"IPEX needs torch {IPEX_RELEASE} and {IPEX} {IPEX_RELEASE}, but {sys.executable} has "
            f"{has}: `scripts/setup --ipex` makes .venv-ipex with both; another such Python is "
            "named by --ipex-python"
        )
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # Or IPEX has torch start processes that compile, for nothing.
    import intel_extension_for_pytorch as extension  # type: ignore[import-not-found, unused-ignore]

    plain = _sgd(network, fused=False)
    optimizer: torch.optim.Optimizer
    _, optimizer = extension.optimize(network, torch.float32, plain, inplace=True)
    return optimizer, f"IPEX {found[IPEX]}, torch {torch.__version__}"


WAYS = {"eager": eager, "compile": compiled, "optimized": optimized, "ipex": ipex}


def main(job: Path, threads: int, way: str = "eager") -> None:
    """Train on the job's batch in one of the WAYS."""
    torch.set_num_threads(threads)
    description = json.loads((job / "job.json").read_text(encoding="utf-8"))
    arrays = np.load(job / "arrays.npz")
    network = Graph(description)
    network.load(description["parameters"], arrays)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
    optimizer, version = WAYS[way](network)
    images = torch.from_numpy(arrays["images_nhwc"]).permute(0, 3, 1, 2)
    labels = torch.from_numpy(arrays["labels"])

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = network.loss(images, labels)
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimizer.step()
        return loss

    first_loss = step().item()
    protocol.warm_up(step)
    ready = {"loss": first_loss, "version": version}
    protocol.serve(ready, lambda seconds: protocol.steps_within(seconds, step))


def _sgd(network: Graph, fused: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        network.parameters(),
        protocol.LEARNING_RATE,
        protocol.MOMENTUM,
        weight_decay=protocol.WEIGHT_DECAY,
        fused=fused,
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
