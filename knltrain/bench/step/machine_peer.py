"""The machine's bounds, measured beside the contestants.

    python -m knltrain.bench.step.machine_peer THREADS [PRECISION [DEVICE]]

Answers {"sgemm_gflops", "copy_gbytes_per_second"}: the faster of NumPy's and PyTorch's product of
two 2048 x 2048 float32 matrices, and a copy of 128 MiB, bytes read and bytes written counted. With
PRECISION bfloat16 also "bfloat16_gemm_gflops", PyTorch's product of such matrices in it, and
"bfloat16_convolution_gflops", the cpu backend's 1x1 convolution by direct sums, or by AMX if the
processor has it.

On a device, PyTorch's product of two 8192 x 8192 matrices in that precision is "sgemm_gflops", and
the copy one of 1 GiB there; where DEVICE is the host, of the sizes above.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from knltrain.bench.step.protocol import serve
from vectorized_ops.bfloat16 import rounded
from vectorized_ops.implementations import operations
from vectorized_ops.shapes import ConvolutionShape

SIDE = 2048
CONVOLUTION = ConvolutionShape(32, 14, 14, 512, 512, (1, 1))
COPIED_BYTES = 128 << 20
DEVICE_SIDE = 8192
DEVICE_COPIED_BYTES = 1 << 30


def main(threads: int, precision: str = "float32") -> None:
    """Measure the host on request."""
    torch.set_num_threads(threads)
    left, right, product = (np.ones((SIDE, SIDE), np.float32) for _ in range(3))
    tensors = [torch.from_numpy(matrix) for matrix in (left, right, product)]
    source = torch.ones(COPIED_BYTES // 4, dtype=torch.float32, device="cpu")
    target = source.clone()
    more: dict[str, tuple[int, Callable[[], object]]] = {}
    if precision == "bfloat16":
        halves = [tensor.bfloat16() for tensor in tensors]
        more = {
            "bfloat16_gemm_gflops": (
                2 * SIDE**3,
                lambda: torch.mm(halves[0], halves[1], out=halves[2]),
            ),
            "bfloat16_convolution_gflops": (CONVOLUTION.flops, _own_convolution(threads)),
        }

    def measure(seconds: float) -> dict[str, float]:
        share = seconds / (3 + len(more))
        sgemm_seconds = min(
            _fastest(share, lambda: np.matmul(left, right, out=product)),
            _fastest(share, lambda: torch.mm(tensors[0], tensors[1], out=tensors[2])),
        )
        copy_seconds = _fastest(share, lambda: target.copy_(source))
        return {
            "sgemm_gflops": 2 * SIDE**3 / sgemm_seconds / 1e9,
            "copy_gbytes_per_second": 2 * COPIED_BYTES / copy_seconds / 1e9,
            **{key: flops / _fastest(share, work) / 1e9 for key, (flops, work) in more.items()},
        }

    measure(0.0)
    serve({}, measure)


def _own_convolution(threads: int) -> Callable[[], object]:
    """Return what computes CONVOLUTION in bfloat16."""
    from vectorized_ops.numba.tuned_convolution import DIRECTIONS, amx_missing

    ours = operations("numba", precision="bfloat16")
    algorithm = "direct" if amx_missing() else "amx"
    ours.use_threads(threads)
    images, out = (
        ours.activations(shape, ours.kept) for shape in (CONVOLUTION.inputs, CONVOLUTION.outputs)
    )
    images[...] = rounded(np.ones((), np.float32))
    weights = np.ones(CONVOLUTION.weights, np.float32)
    convolution = ours.convolution(CONVOLUTION, asked=dict.fromkeys(DIRECTIONS, algorithm))
    return partial(convolution.forward, images, weights, None, out)


def on_device(device: torch.device, precision: str) -> None:
    """Measure a device on request."""
    if device.type != "cpu":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.accelerator.set_device_index(device.index or 0)
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    # The host is large enough for tests.
    is_host = device.type == "cpu"
    side, copied = (SIDE, COPIED_BYTES) if is_host else (DEVICE_SIDE, DEVICE_COPIED_BYTES)
    # Of random numbers: others take less power, at a higher clock.
    left, right = (torch.randn((side, side), dtype=kind, device=device) for _ in range(2))
    product = torch.empty_like(left)
    source = torch.ones(copied // 4, dtype=torch.float32, device=device)
    target = source.clone()

    def ended(work: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            work()
            if not is_host:
                torch.accelerator.synchronize(device)

        return run

    def measure(seconds: float) -> dict[str, float]:
        product_seconds = _fastest(seconds / 2, ended(lambda: torch.mm(left, right, out=product)))
        copy_seconds = _fastest(seconds / 2, ended(lambda: target.copy_(source)))
        return {
            "sgemm_gflops": 2 * side**3 / product_seconds / 1e9,
            "copy_gbytes_per_second": 2 * copied / copy_seconds / 1e9,
        }

    measure(0.0)
    serve({}, measure)


def _fastest(seconds: float, work: Callable[[], object]) -> float:
    """Return the least time of one call of `work` within `seconds`; at least two calls."""
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        on_device(torch.device(sys.argv[3]), sys.argv[2])
    else:
        main(int(sys.argv[1]), *sys.argv[2:])
