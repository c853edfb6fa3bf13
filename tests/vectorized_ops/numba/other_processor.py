"""What a process that compiles for another processor does: `other_processor.py KERNELS FOLDER`.

KERNELS is a function of this module. The cache must be empty: code that comes from one cannot be
read. The assembly goes to FOLDER/assembly.txt, what was computed, and what the reference makes of
it, to FOLDER/results.npz.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.dense import Dense
from vectorized_ops.numba.emit.lanes import LANES

THREE_BY_THREE: dict[str, Any] = {
    "images": 48, "height": 5, "width": 6, "channels": 28, "filters": 42, "kernel": (3, 3),
    "padding": (1, 1),
}  # fmt: skip
EACH_ALONE: dict[str, Any] = {"width": 11, "channels": 7, "filters": 7, "groups": 7}


def product() -> tuple[np.ndarray, np.ndarray]:
    """A dense layer whose products need tiles of all shapes."""
    rng, (images, inputs, outputs) = np.random.default_rng(0), (40, 41, 26)
    weights, values, gradient = (
        rng.integers(-4, 5, size).astype(np.float32)
        for size in [(outputs, inputs), (images, inputs), (images, outputs)]
    )
    operation, weights_out = Dense(images, inputs, outputs), np.empty_like(weights)
    vectors, out = activations(values.shape), activations(gradient.shape)
    arriving, back = activations(gradient.shape), activations(values.shape)
    vectors[:images], arriving[:images] = values, gradient
    operation.forward(vectors, weights, None, out)
    operation.backward_data(arriving, weights, back)
    operation.backward_weights(vectors, arriving, weights_out, None)
    found = out[:images], back[:images], weights_out
    expected = values @ weights.T, gradient @ weights, gradient.T @ values
    return _joined(found), _joined(expected)


def _joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays])


def convolution() -> tuple[np.ndarray, np.ndarray]:
    """A convolution in all directions, in tiles as tall as they can be and of both widths."""
    from vectorized_ops.numba.convolution import Convolution

    return _convolved([Convolution])


def winograd() -> tuple[np.ndarray, np.ndarray]:
    """The same by Winograd's tiles of both sizes."""
    from vectorized_ops.numba.winograd_convolution import WinogradConvolution

    return _convolved([partial(WinogradConvolution, outputs=size) for size in (2, 4)])


def convolution_in_order() -> tuple[np.ndarray, np.ndarray]:
    """Convolutions of channels_last arrays, in panels of whole vectors and of others."""
    from vectorized_ops.channels_last.convolution import Convolution

    return _convolved([Convolution], "channels_last")


def winograd_in_order() -> tuple[np.ndarray, np.ndarray]:
    """The same of whole vectors, by Winograd's tiles of both sizes."""
    from vectorized_ops.channels_last.winograd_convolution import WinogradConvolution

    sizes = THREE_BY_THREE | {"images": 5, "channels": 16, "filters": 32}
    made = [partial(WinogradConvolution, outputs=size) for size in (2, 4)]
    return _convolved(made, "channels_last", **sizes)


def strassen() -> tuple[np.ndarray, np.ndarray]:
    """A 1x1 convolution of an odd number of pixels, its weights' gradient by direct sums."""
    from vectorized_ops.numba.convolution import Convolution
    from vectorized_ops.numba.strassen_convolution import StrassenConvolution

    def made(shape: Any) -> Any:
        fast, direct = StrassenConvolution(shape), Convolution(shape)
        return SimpleNamespace(
            forward=fast.forward,
            backward_data=fast.backward_data,
            backward_weights=direct.backward_weights,
        )

    return _convolved([made], images=32, height=3, width=3, channels=84, filters=84, kernel=(1, 1))


def depthwise() -> tuple[np.ndarray, np.ndarray]:
    """Filters of one channel each: groups of pixels of all sizes, with stride and dilation."""
    from vectorized_ops.numba.depthwise_convolution import DepthwiseConvolution

    results: list[list[np.ndarray]] = [[], []]
    for more in ({}, {"stride": (2, 2)}, {"dilation": (1, 2)}, {"width": 1, "padding": (1, 3)}):
        for both, found in zip(
            results,
            _convolved([DepthwiseConvolution], **THREE_BY_THREE | EACH_ALONE | more),
            strict=True,
        ):
            both.append(found)
    return _joined(results[0]), _joined(results[1])


def _convolved(
    operations_of: Sequence[Callable[..., Any]], implementation: str = "numba", **sizes: Any
) -> tuple[np.ndarray, np.ndarray]:
    sys.path.append(str(Path(__file__).parents[1]))
    from contracts.convolution import whole_operands
    from contracts.memory import REFERENCE, Memory, operations

    from vectorized_ops.shapes import ConvolutionShape

    shape = ConvolutionShape(**(sizes or THREE_BY_THREE))
    operands, place = whole_operands(shape), Memory(operations(implementation))
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    found = [part for made in operations_of for part in operands.results(made(shape), place)]
    return _joined(found), _joined(expected * len(operations_of))


def pooling() -> tuple[np.ndarray, np.ndarray]:
    """Means, and maxima one by one and in blocks, with a NaN."""
    from vectorized_ops.numba import pooling
    from vectorized_ops.reference import pooling as reference
    from vectorized_ops.shapes import PoolingShape

    results: list[list[np.ndarray]] = [[], []]
    for stride in (1, 2):
        shape = PoolingShape(9, 10, (3, 3), (stride, stride), (1, 1))
        values = np.random.default_rng(0).integers(-3, 4, (32, 9, 10, 5)).astype(np.float32)
        values[1, 2, 3, 4] = np.nan
        outputs = 32, shape.lines, shape.pixels, 5
        for operations, found in zip((pooling, reference), results, strict=True):
            arrays = activations(values.shape), activations(outputs), activations(values.shape)
            images, out, back = arrays
            which, images[...] = activations(outputs, np.uint8), values
            operation = operations.MaxPooling(shape)
            operation.forward(images, out, which)
            found += [np.nan_to_num(out, nan=9), which]
            operation.backward(np.nan_to_num(out, nan=9), which, back)
            operations.AveragePooling(shape).forward(back, out)
            found += [back, out]
    return _joined(results[0]), _joined(results[1])


def lenet() -> tuple[np.ndarray, np.ndarray]:
    """LeNet's loss and gradient, by Numba and by the reference."""
    from knltrain.backends.cpu import CpuBackend
    from knltrain.data.dataset import Batch
    from knltrain.network.parameters import ParameterVector
    from knltrain.network.zoo.lenet import lenet as layers

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


def layers() -> tuple[np.ndarray, np.ndarray]:
    """Loss and gradient of a network of many layers, by Numba and by the reference."""
    sys.path.append(str(Path(__file__).parents[2] / "knltrain" / "backends"))
    from seam.graphs import GRAPHS
    from seam.material import batch_of, direct, parameters_of

    names = ("a block of ConvNeXt", "slices and shuffles of channels", "slopes that are learned")
    results: list[list[np.ndarray]] = [[], []]
    for network in (each for each in GRAPHS if each.name.startswith(names)):
        parameters, batch = parameters_of(network).packed, batch_of(network, 20)
        for implementation, found in zip(("numba", "reference"), results, strict=True):
            backend, gradient = direct(network, 20, implementation), np.empty_like(parameters)
            loss = backend.loss_and_gradient(batch, parameters, gradient)
            found.append(np.append(gradient, np.float32(loss)))
    return _joined(results[0]), _joined(results[1])


def compiled_kernels() -> list[Any]:
    """Every kernel that this process has compiled, those that factories made among them."""
    found = (thing for thing in gc.get_objects() if isinstance(thing, Dispatcher))
    ours = (each for each in found if each.py_func.__module__.startswith("vectorized_ops.numba"))
    return [kernel for kernel in ours if kernel.signatures]


def tiles() -> list[str]:
    """The assembly of all tiles that are functions of their own."""
    functions = (it for it in gc.get_objects() if isinstance(it, TileFunction))
    return [library.get_asm_str() for it in functions for library in it._libraries]


if __name__ == "__main__":
    compute, folder = globals()[sys.argv[1]], Path(sys.argv[2])
    found, expected = compute()
    np.savez(folder / "results.npz", found=found, expected=expected, lanes=LANES)
    texts = [text for kernel in compiled_kernels() for text in kernel.inspect_asm().values()]
    text = "\n".join((*texts, *tiles()))
    (folder / "assembly.txt").write_text(text, encoding="utf-8")
