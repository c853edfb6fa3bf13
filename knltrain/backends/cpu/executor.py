"""Executes a plan: forward and backward through a batch, in slices where the batch is larger."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple, Protocol, final

from knltrain.backends.backend import Ready, nobody_waits
from knltrain.backends.cpu.lowering import NO_CHOICE, Algorithms
from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.plan import Plan
from knltrain.backends.cpu.stages import Run, Stage, Views
from knltrain.backends.loss import PLAIN, Loss
from knltrain.clocks import UNOBSERVED, Marks
from knltrain.data.dataset import Batch
from knltrain.network.network import ALIGNMENT_FLOATS, Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray
from vectorized_ops.implementations import Operations

BEFORE, LOAD, LOSS, SUM, READY = -1, 0, 1, 2, 3
"""Numbers in marks: what is before a slice, the parts that are no stage's, and behind them the
forward stages and the parts of the backward ones.
"""

MOST_KNOWN: Final = 8
"""So many pairs of vectors and numbers of images are remembered."""

NO_STAGE: Final = ("load", "loss", "sum", "ready")
"""By number. sum: of slices' gradients. ready: what the caller does with a stage's gradient."""


class BackwardPart(NamedTuple):
    """A stage in one direction of the backward pass."""

    stage: Stage
    direction: str
    run: Callable[[Run], None]


class Parts(Protocol):
    """Parts of a pass in order, numbered from 0."""

    @abstractmethod
    def run(self, first: int, last: int, given: Run, /) -> None:
        """Run those from number `first` to before `last`."""


@final
class _InTurn:
    """Parts that are called one by one."""

    def __init__(self, parts: Sequence[Callable[[Run], None]]) -> None:
        self._parts = parts

    def run(self, first: int, last: int, given: Run, /) -> None:
        """Run those from number `first` to before `last`."""
        for part in self._parts[first:last]:
            part(given)


class _Known(NamedTuple):
    """The parts of passes over the same vectors, which are kept alive for that."""

    views: tuple[Views, Views]
    parts: Parts


@final
class Passes:
    """Runs a plan for `images` images over batches of up to `batch`.

    Where the implementation can, passes over the same vectors are a few calls of a program from
    the fourth on, see `vectorized_ops.numba.compiling.replay`.

    The gradient of a batch in slices is the sum of the slices' gradients. The first is written in
    place, each later one into a separate vector, which is then added: two reads and a write of the
    packed size per slice. Networks must not normalise over the batch then.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        images: int,
        operations: Operations,
        loss: Loss = PLAIN,
        algorithms: Algorithms = NO_CHOICE,
    ) -> None:
        self.images, self._operations, self.trained = images, operations, loss
        self.plan = Plan(network, images, operations, algorithms)
        self._later = ParameterVector(network) if images < batch else None
        self.backward = _backward(self.plan.stages)
        offsets = _done_from(network, [stage.name for stage in self.plan.stages])
        ends = accumulate(map(len, self.backward), initial=len(self.plan.stages))
        self._done_from = list(zip(islice(ends, 1, None), offsets, strict=True))
        self._known: dict[tuple[int, int, int, bool], _Known] = {}
        self.marks: Marks = UNOBSERVED

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: Views,
        gradient: FloatArray,
        gradients: Views,
        ready: Ready = nobody_waits,
    ) -> float:
        """Mean loss over the batch; its gradient goes into `gradient`, which `gradients` views.

        `ready` is called with an offset after each stage of the last slice.
        """
        loss = 0.0
        for first, part in self._slices(batch):
            mass = self.trained.mass
            share = 1.0 if part is batch else mass(part.labels) / mass(batch.labels)
            told = ready if first + len(part.labels) == len(batch.labels) else nobody_waits
            if first == 0:
                loss += self._slice(_run(part, parameters, gradients, first), part, share, told)
                continue
            assert self._later is not None
            run = _run(part, parameters, self._later.views, first)
            loss += self._slice(run, part, share, self._adding_to(gradient, told))
        return loss

    def evaluate(
        self, batch: Batch, parameters: Views, out: FloatArray | None = None
    ) -> tuple[float, int]:
        """Sum of the images' losses at the first output, and number of right classifications.

        The logits are written into `out`, (images, classes), if that is given.
        """
        loss, correct = 0.0, 0
        for first, part in self._slices(batch):
            run = _run(part, parameters, {}, first, training=False)
            self._load(part)
            self._parts_of(run).run(0, len(self.plan.evaluation), run)
            output, _ = self.plan.outputs[0]
            logits = output.values.array[: run.images]
            correct += self.trained.right(logits, part.labels)
            if out is not None:
                out[first : first + run.images] = logits
            loss += self._loss(part, output, self.trained.plain)
        return loss, correct

    def first_non_finite(self, batch: Batch, parameters: Views) -> str | None:
        """Name of the first stage whose output is not finite for any image of the batch."""
        from vectorized_ops.bfloat16 import are_finite

        stages = self.plan.stages
        found = len(stages)
        for first, part in self._slices(batch):
            run = _run(part, parameters, {}, first)
            self._load(part)
            for number, stage in enumerate(stages[:found]):
                stage.forward(run)
                if not are_finite(stage.output.values.array[: run.images]):
                    found = number
                    break
        return stages[found].name if found < len(stages) else None

    def forget(self) -> None:
        """Let the next pass count as the first, and go of the vectors of those before."""
        self._known.clear()

    def load(self) -> None:
        """Load what passes are repeated with."""
        if self._operations.repetition is not None:
            self._operations.repetition([], [])

    def release(self) -> None:
        """Release the plan's memory."""
        self.forget()
        self.backward.clear()
        self.plan.release()

    def _slices(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        """Return the slices of a batch, each with the number of its first image."""
        images, number = len(batch.labels), self.images
        if images <= number:
            yield 0, batch
            return
        for first in range(0, images, number):
            part = slice(first, min(first + number, images))
            yield first, Batch(batch.images_nhwc[part], batch.labels[part], batch.key)

    def _adding_to(self, gradient: FloatArray, ready: Ready) -> Ready:
        """Add the complete part of a later slice's gradient before `ready` is called."""
        end = gradient.size

        def add(offset: int) -> None:
            nonlocal end
            if offset < end:
                assert self._later is not None
                total = _lines(gradient[offset:end])
                self._operations.add(total, _lines(self._later.packed[offset:end]), total)
                end = offset
                self.marks.mark(SUM)
            ready(offset)

        return add

    def _slice(self, run: Run, part: Batch, share: float, ready: Ready) -> float:
        """Write the gradient of a slice that is `share` of the batch; return its part of the loss.

        That is the sum of its images' losses divided by the number of all images.
        """
        mark, parts = self.marks.mark, self._parts_of(run)
        mark(BEFORE)
        self._load(part)
        mark(LOAD)
        first = len(self.plan.stages)
        self._take(parts, 0, first, run)
        loss = sum(
            self._loss(part, output, self.trained, share * weight)
            for output, weight in self.plan.outputs
        )
        mark(LOSS)
        at_once = ready is nobody_waits and self.marks is UNOBSERVED
        for last, offset in self._done_from[-1:] if at_once else self._done_from:
            self._take(parts, first, last, run)
            first = last
            ready(offset)
            mark(READY)
        return loss / run.images

    def _take(self, parts: Parts, first: int, last: int, run: Run) -> None:
        """Run parts, each with its mark if anybody reads these."""
        if self.marks is UNOBSERVED:
            parts.run(first, last, run)
            return
        for number in range(first, last):
            parts.run(number, number + 1, run)
            self.marks.mark(len(NO_STAGE) + number)

    def _parts_of(self, run: Run) -> Parts:
        """Return the stages of evaluation, or of training forward and then the backward parts.

        What the implementation repeats passes with is not loaded for a single one.
        """
        place = id(run.parameters), id(run.gradients) * run.training, run.images, run.training
        if (known := self._known.pop(place, None)) is None:
            calls, _ = self._calls(run.training)
            known = _Known((run.parameters, run.gradients), _InTurn(calls))
            if len(self._known) == MOST_KNOWN:
                del self._known[next(iter(self._known))]
        elif isinstance(known.parts, _InTurn) and self._operations.repetition is not None:
            repetition: Parts = self._operations.repetition(*self._calls(run.training))
            known = known._replace(parts=repetition)
        self._known[place] = known  # as the latest
        return known.parts

    def _calls(self, training: bool) -> tuple[list[Callable[[Run], None]], list[bool]]:
        """Return the parts of a pass, and of each whether it repeats."""
        stages = self.plan.stages if training else self.plan.evaluation
        backward = [part for group in self.backward for part in group] if training else []
        calls = [stage.forward for stage in stages] + [part.run for part in backward]
        return calls, [each.repeats for each in (*stages, *(part.stage for part in backward))]

    def _load(self, part: Batch) -> None:
        self._operations.load_images(part.images_nhwc, self.plan.input.values.array)

    def _loss(self, part: Batch, output: Tensor, loss: Loss, weight: float = 1.0) -> float:
        assert output.gradient is not None
        values, gradient = output.values.array, output.gradient.array
        return loss.compute(self._operations, values, part.labels, gradient, weight)


def _run(
    part: Batch, parameters: Views, gradients: Views, first: int, training: bool = True
) -> Run:
    return Run(parameters, gradients, len(part.labels), training, int(part.key[0]), first)


def _backward(stages: list[Stage]) -> list[list[BackwardPart]]:
    """Of each stage, backwards, the parts of its backward pass; none without a gradient."""
    found = []
    for stage in reversed(stages):
        parts = stage.backward_parts if stage.output.gradient is not None else ()
        found.append([BackwardPart(stage, *part) for part in parts])
    return found


def _done_from(network: Network, stages: list[str]) -> list[int]:
    """The offset from which the packed gradient is complete after each stage, backwards.

    A stage has the name of its layer. Of two stages with one name, the first in order completes it.
    """
    ends = dict.fromkeys(stages, 0)
    for spec in network.parameters:
        layer = spec.name.rpartition(".")[0]
        end = -(-(spec.offset + spec.size) // ALIGNMENT_FLOATS) * ALIGNMENT_FLOATS
        ends[layer] = max(ends.get(layer, 0), end)
    before = [0, *accumulate((ends[name] for name in stages), max)]
    return before[-2::-1]


def _lines(vector: FloatArray) -> FloatArray:
    """Return a packed vector as an array of activations: rows of 16 images."""
    lines: FloatArray = vector.reshape(-1, ALIGNMENT_FLOATS).T
    return lines
