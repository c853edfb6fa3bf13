"""PyTorch as a contestant: runs under any Python with torch 2.8 or newer, knltrain not needed.

    python torch_peer.py JOB THREADS [eager|compile|graph|optimized|ipex] [DEVICE] [PRECISION]

JOB is a folder written by `knltrain.bench.step.job`. The peer speaks the protocol of `protocol.py`
and builds the network by `torch_graph.py`; both files are beside it. It trains in channels_last,
with the fastest SGD that its way of computing has.

On a device the batch is copied there in each step, from page-locked memory. The next step is sent
while one runs, so that the device never waits for Python.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import sysconfig
from collections.abc import Callable
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
    on_host = all(each.device.type == "cpu" for each in network.parameters())
    try:
        get_cpp_compiler()
        missing = None if header.exists() else str(header)
    except InvalidCxxCompiler:
        missing = "g++"
    if missing and on_host:
        sys.exit(
            f"torch.compile needs a C++ compiler and Python's headers, but there is no {missing}: "
            "install g++ and python3-dev, or name a compiler by CXX"
        )
    network.compile()  # type: ignore[no-untyped-call, unused-ignore]
    return _sgd(network, fused=True), f"torch {torch.__version__} compiled"


def graphed(network: Graph) -> tuple[torch.optim.Optimizer, str]:
    """Leave the modules as they are: `main` records the whole step as a CUDA graph."""
    device = next(network.parameters()).device.type
    if device != "cuda" or torch.version.hip is not None:
        sys.exit(f"the peer 'torch-graph' needs an NVIDIA GPU, the device is '{device}'")
    return _sgd(network, fused=True), f"torch {torch.__version__} as a CUDA graph"


def optimized(network: Graph) -> tuple[torch.optim.Optimizer, str]:
    """Let `vectorized_ops.torch.optimize` replace modules where it can; needs vectorized_ops."""
    from vectorized_ops.torch import optimize

    return _sgd(optimize(network), fused=True), f"torch {torch.__version__} optimized"


def ipex(
    network: Graph, precision: torch.dtype = torch.float32
) -> tuple[torch.optim.Optimizer, str]:
    """Let IPEX lay out the weights for its kernels, and use its fused SGD.

    Weights of `precision` bfloat16 keep the lower halves of their float32 in that SGD.
    """
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
    _, optimizer = extension.optimize(network, precision, plain, inplace=True)
    return optimizer, f"IPEX {found[IPEX]}, torch {torch.__version__}"


WAYS: dict[str, Callable[..., tuple[torch.optim.Optimizer, str]]] = {
    "eager": eager,
    "compile": compiled,
    "graph": graphed,
    "optimized": optimized,
    "ipex": ipex,
}


def main(
    job: Path, threads: int, way: str = "eager", device: str = "cpu", precision: str = "float32"
) -> None:
    """Train on the job's batch in one of the WAYS, or evaluate it."""
    torch.set_num_threads(threads)
    if device != "cpu":
        torch.accelerator.set_device_index(torch.device(device).index or 0)
        rounds = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = rounds
        torch.backends.cudnn.benchmark = True
    description = json.loads((job / "job.json").read_text(encoding="utf-8"))
    arrays = np.load(job / "arrays.npz")
    network = Graph(description)
    network.load(description["parameters"], arrays)
    network = network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload, unused-ignore]
    rounded = precision == "bfloat16"
    kind = (torch.bfloat16,) if rounded and way == "ipex" else ()
    optimizer, version = WAYS[way](network, *kind)
    images = torch.from_numpy(arrays["images_nhwc"]).permute(0, 3, 1, 2)
    batch = _Batch(images, torch.from_numpy(arrays["labels"]), torch.device(device))

    def compute() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(
            batch.device.type, torch.bfloat16, enabled=rounded, cache_enabled=way != "graph"
        ):
            loss: torch.Tensor = network.loss(batch.images, batch.labels)
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimizer.step()
        return loss

    @torch.inference_mode()
    def evaluate() -> torch.Tensor:
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=rounded):
            loss: torch.Tensor = network.loss(batch.images, batch.labels)
        return loss

    work = compute
    if description["evaluates"]:
        network.eval()
        work = evaluate
    batch.send()
    first_loss = work().item()
    run = _recorded(work) if way == "graph" else work

    def step() -> None:
        batch.send()
        run()
        batch.wait_for_the_step_before()

    forget_peak(batch.device)
    protocol.warm_up(step)
    ready = {"loss": first_loss, "version": version, **peak(batch.device)}
    protocol.serve(ready, lambda seconds: protocol.steps_within(seconds, step))


class _Batch:
    """Images and labels where they are computed with."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, device: torch.device) -> None:
        self.device = device
        self.images, self.labels = images, labels
        self._here: tuple[torch.Tensor, ...] = ()
        if device.type == "cpu":
            return
        self._here = images.pin_memory(), labels.pin_memory()
        self.images, self.labels = (torch.empty_like(each, device=device) for each in self._here)
        events = getattr(torch, device.type).Event
        self._ends = [events(), events()]

    def send(self) -> None:
        """Copy the batch to a device."""
        for there, here in zip((self.images, self.labels), self._here, strict=False):
            there.copy_(here, non_blocking=True)

    def wait_for_the_step_before(self) -> None:
        """On a device, return when the step before the last one has ended."""
        if self._here:
            self._ends.reverse()
            self._ends[0].record()
            self._ends[1].synchronize()


def forget_peak(device: torch.device) -> None:
    """Count the memory of a device from here on: a library tries algorithms in a first step."""
    if device.type != "cpu":
        torch.accelerator.synchronize()
        kind = getattr(torch, device.type)
        kind.empty_cache()
        kind.reset_peak_memory_stats()


def peak(device: torch.device) -> dict[str, int]:
    """The most memory of a device that PyTorch has had since, graphs' own included."""
    if device.type == "cpu":
        return {}
    return {"device_bytes": getattr(torch, device.type).max_memory_reserved()}


def _recorded(compute: Callable[[], torch.Tensor]) -> Callable[[], object]:
    """Return what replays `compute` as a CUDA graph."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call, unused-ignore]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            compute()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compute()
    return graph.replay


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
