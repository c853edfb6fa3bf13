"""What a process that compiles for another processor does: `other_processor.py KERNELS FOLDER`.

KERNELS is `product` or `lenet`. The assembly goes to FOLDER/assembly.txt, what was computed, and
what the reference makes of it, to FOLDER/results.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numba import jit

from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import product_rows


def product() -> tuple[np.ndarray, np.ndarray]:
    """A product whose rows and columns need tiles of all shapes."""
    rng = np.random.default_rng(0)
    weights, inputs = (
        rng.integers(-4, 5, size).astype(np.float32) for size in [(26, 9), (9, 7 * LANES)]
    )
    out = np.zeros((26, 7 * LANES), np.float32)
    product_rows(
        7, 0, 26, out, 0, 7 * LANES, weights, 0, 9, 1, inputs, 0, np.arange(9) * 7 * LANES, 9
    )
    return out, weights @ inputs


def lenet() -> tuple[np.ndarray, np.ndarray]:
    """LeNet's loss and gradient, by Numba and by the reference."""
    from knltrain.backends.cpu import CpuBackend
    from knltrain.data.dataset import Batch
    from knltrain.network.lenet import lenet as layers
    from knltrain.network.parameters import ParameterVector

    network, rng = layers(), np.random.default_rng(0)
    parameters, gradient = ParameterVector(network), ParameterVector(network)
    parameters.initialise(1)
    images = rng.standard_normal((20, 28, 28, 1)).astype(np.float32)
    batch, results = Batch(images, rng.integers(0, 10, 20)), []
    for implementation in ("numba", "reference"):
        backend = CpuBackend(network, 20, 1, implementation)
        loss = backend.loss_and_gradient(batch, parameters.packed, gradient.packed)
        results.append(np.append(gradient.packed, np.float32(loss)))
    return results[0], results[1]


def assembly(kernel: Any) -> str:
    """All code of a compiled kernel; what came from the cache cannot be read and is made again."""
    again = jit(kernel.signatures, **kernel.targetoptions)(kernel.py_func)
    return "\n".join(again.inspect_asm().values())


def compiled_kernels() -> list[Any]:
    """Every kernel in this process that has been compiled."""
    modules = [
        module for name, module in sys.modules.items() if name.startswith("vectorized_ops.numba")
    ]
    found = {id(part): part for module in modules for part in vars(module).values()}
    return [part for part in found.values() if getattr(part, "signatures", None)]


if __name__ == "__main__":
    kernels, folder = sys.argv[1], Path(sys.argv[2])
    found, expected = {"product": product, "lenet": lenet}[kernels]()
    np.savez(folder / "results.npz", found=found, expected=expected, lanes=LANES)
    chosen = [product_rows] if kernels == "product" else compiled_kernels()
    text = "\n".join(assembly(kernel) for kernel in chosen)
    (folder / "assembly.txt").write_text(text, encoding="utf-8")
