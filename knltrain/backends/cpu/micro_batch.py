"""Chooses the micro-batch: how many images of a batch go through the plan at a time.

A smaller one needs a smaller arena, which may stay in the caches. But every micro-batch reads the
weights, and writes and adds their gradient.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, partial
from typing import Literal, TypeAlias, final

from knltrain.backends.cpu.executor import Passes
from knltrain.backends.cpu.lowering import NO_CHOICE, Algorithms
from knltrain.backends.loss import PLAIN, Loss
from knltrain.data.dataset import Batch
from knltrain.errors import ConfigError
from knltrain.network import layers
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import padded_images

MicroBatch: TypeAlias = int | Literal["auto"]
"""A number of images; 0: the whole batch; "auto": whichever is measured to be fastest."""

LEAST_BATCH = 32
"""Smaller batches are not measured: half of one is less than a vector."""

TIMED_FLOPS = 20e9
"""Of steps that are timed together: the time of a short one alone is too inaccurate."""

MOST_STEPS = 20


def check_micro_batch(network: Network, batch: int, asked: MicroBatch) -> None:
    """Refuse micro-batches for a network that normalises over the batch: `ConfigError`."""
    layer = _normalisation(network)
    if layer is not None and asked != "auto" and 0 < asked < batch:
        raise ConfigError(
            f"backend.micro_batch = {asked} with batches of {batch} images of network "
            f"'{network.name}', whose layer '{layer}' normalises by the statistics of the batch, "
            f"which slices of it do not have: leave it at 0, or give {batch} or more"
        )


def make_passes(
    network: Network,
    batch: int,
    asked: MicroBatch,
    operations: Operations,
    options: str = "",
    loss: Loss = PLAIN,
    algorithms: Algorithms = NO_CHOICE,
) -> tuple[Passes, list[dict[str, float]]]:
    """Return the passes asked for, and the measurements made: seconds of a step by micro-batch.

    "auto" halves the micro-batch for as long as that is clearly faster. The result is remembered
    for this network, batch, `options`, number of threads and machine. Nothing is measured, and the
    batch stays whole, with less than 32 images, batch normalisation, or an implementation without
    autotuning.
    """
    if asked != "auto":
        images = min(asked or batch, batch)
        return Passes(network, batch, images, operations, loss, algorithms), []
    candidates = _Candidates(network, batch, operations, loss, algorithms)
    compared = list[dict[str, float]]()
    images, question = batch, f"{candidates.steps} steps of {batch} {options} {_digest(network)}"
    measured = operations.chosen is not None and batch >= LEAST_BATCH
    while measured and _normalisation(network) is None and (half := _half(images)) < images:
        assert operations.chosen is not None
        runs = {str(number): partial(candidates.run, number) for number in (images, half)}
        choice = operations.chosen(question, runs)
        compared.append({name: of / candidates.steps for name, of in choice.seconds.items()})
        measured = choice.name == str(half)
        candidates.drop(images if measured else half)
        images = half if measured else images
    chosen = candidates.of(images)
    chosen.forget()  # the vectors that were measured with
    return chosen, compared


@final
class _Candidates:
    """Passes by their number of images, made when needed, and steps to measure them by."""

    def __init__(
        self,
        network: Network,
        batch: int,
        operations: Operations,
        loss: Loss = PLAIN,
        algorithms: Algorithms = NO_CHOICE,
    ) -> None:
        self._network, self._batch, self._operations = network, batch, operations
        self._loss, self._algorithms = loss, algorithms
        self._made: dict[int, Passes] = {}
        flops = batch * network.training_flops_per_image
        self.steps = int(min(max(TIMED_FLOPS / flops, 1), MOST_STEPS))

    def of(self, images: int) -> Passes:
        """Return the passes that take so many images at a time."""
        if images not in self._made:
            self._made[images] = Passes(
                self._network,
                self._batch,
                images,
                self._operations,
                self._loss,
                self._algorithms,
            )
        return self._made[images]

    def run(self, images: int) -> None:
        """Take `steps` steps."""
        passes, (parameters, gradient) = self.of(images), self._vectors
        for _ in range(self.steps):
            passes.loss_and_gradient(
                self._images, parameters.views, gradient.packed, gradient.views
            )

    def drop(self, images: int) -> None:
        """Release the memory of the passes for this number of images."""
        if images in self._made:
            self._made.pop(images).release()

    @cached_property
    def _images(self) -> Batch:
        return Batch.allocate(self._batch, self._network.input_shape)

    @cached_property
    def _vectors(self) -> tuple[ParameterVector, ParameterVector]:
        return ParameterVector(self._network), ParameterVector(self._network)


def _half(images: int) -> int:
    """Return half of the images, in whole vectors."""
    return padded_images(-(-images // 2))


def _normalisation(network: Network) -> str | None:
    """Return the name of a layer that normalises over the batch."""
    named = (each for each in network.layers if type(each).__name__ == "BatchNormalisation")
    found = (each for each in named if isinstance(each, layers.BatchNormalisation))
    return next((each.name for each in found if not each.frozen), None)


def _digest(network: Network) -> str:
    """Return an identifier of a network: its name, and a digest of all layers and their shapes."""
    return f"{network.name} {hashlib.sha256(repr(network).encode()).hexdigest()[:16]}"
