"""Synchronous training by CaffeGPI's protocol: layer by layer, overlapped with backward."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import final

import numpy as np

from knltrain.clocks import UNOBSERVED, Clock, Marks
from knltrain.communication.gaspi import AddressSpace
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError
from knltrain.exchange.tree_exchange.agreement import agree
from knltrain.exchange.tree_exchange.edges import Edges
from knltrain.exchange.tree_exchange.gradient_reduction import GradientReduction
from knltrain.exchange.tree_exchange.member import Member
from knltrain.exchange.tree_exchange.progress import Progress
from knltrain.exchange.tree_exchange.schedule import Schedule
from knltrain.exchange.tree_exchange.trees import Branches, best_branches
from knltrain.exchange.tree_exchange.weight_broadcast import WeightBroadcast
from knltrain.vectors import FloatArray, aligned_zeros

Update = Callable[[str | None, FloatArray], None]
"""update(layer, sum): changes the weights of a layer by the sum of its gradients, (k,).

None: those of all layers, by the sum of all (n,).
"""

_QUEUES = 2
_CHECK_SECONDS = 0.1


@final
class TreeExchange:
    """Sums of gradients up a tree, an update at rank 0, and weights down another (collective).

    ``weights`` (n,) and ``gradient`` (n,), float32, have the layers in the order of
    ``layer_sizes``, that of the forward pass. Between `await_weights` and `gradient_ready` of a
    layer a training step may read its weights and write its gradient. At other times both belong to
    the exchange, which leaves partial sums in the gradient. At rank 0 alone, the exchange's thread
    calls ``update`` with each layer's sum, in backward order; it changes ``weights`` in place. If
    it ``updates_all``, it is called once for all layers, when the last sum is there.

    The sum is added up in the order of its tree. For an update that reads one layer at a time all
    ranks get the bits of one update with this sum.

    Layers are sent in backward order, in chunks of ``chunk_floats``. A rank may be ``slots`` chunks
    ahead of its parent. ``branches`` is that of the broadcast tree, by default the value for the
    shortest one. ``reduction_branches`` is that of the sums; without, their tree is binomial. No
    call waits longer than ``timeout_seconds``, or the limit it is given; ``check`` is called about
    every 0.1 s during waiting, and may raise.

    Source: CaffeGPI (Kuehn, Keuper, Pfreundt 2017, arXiv:1706.00095).
    Raises CollectiveError if arguments do not fit, or differ between ranks; ExchangeTimeout if
    ranks are missing.
    """

    def __init__(
        self,
        space: AddressSpace,
        layer_sizes: Mapping[str, int],
        update: Update,
        *,
        chunk_floats: int = 2**18,
        slots: int = 4,
        updates_all: bool = False,
        branches: int | None = None,
        reduction_branches: int | None = None,
        timeout_seconds: float = 60.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        branches = best_branches(space.size) if branches is None else branches
        _check(space, slots, branches, reduction_branches)
        self._schedule = schedule = Schedule(layer_sizes, chunk_floats)
        trees = Branches(reduction_branches, branches)
        described = f"layers {dict(layer_sizes)}, {chunk_floats=}, {slots=}, {trees}"
        agree(space, described, timeout_seconds)
        self._rank = space.rank
        self._member = Member(space, Edges(schedule, slots, trees, space.rank, space.size))
        self._timeout_seconds, self._check = timeout_seconds, check
        self._update, self._updates_all = update, updates_all
        self._given = [0] * schedule.layers
        self._updated = self._arrived = 0
        self.marks: Marks = UNOBSERVED
        """Told, in the exchange's thread, of each layer in backward order when its weights came."""
        self.gradient: FloatArray = aligned_zeros(schedule.size)
        self.weights: FloatArray = self._member.weights
        self._reduction = GradientReduction(self._member, self.gradient)
        self._broadcast = WeightBroadcast(self._member)
        self._changed = threading.Condition()
        name = f"tree exchange of rank {space.rank}"
        self._progress = Progress(self._step, self._is_idle, self._changed, name)

    def measure(self, clock: Clock) -> None:
        """Run ``clock`` from the next gradient until its weights have been passed on."""
        self._progress.clock = clock

    def part(self, layer: str) -> slice:
        """Return the slice of a layer in ``weights`` and ``gradient``."""
        return self._schedule.part(layer)

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the weights of all ranks to ``values`` of rank 0, (n,): version 0 (collective)."""
        if self._rank == 0:
            if values is None or values.shape != self.weights.shape:
                given = "none" if values is None else f"shape {values.shape}"
                raise CollectiveError(
                    f"start values at rank 0: {given}: expected shape {self.weights.shape}"
                )
            np.copyto(self.weights, values)
            with self._changed:
                self._broadcast.produced = self._schedule.chunks_until(self._schedule.layers)
                self._changed.notify_all()
        self.await_all_weights()

    def gradient_ready(self, layer: str) -> None:
        """Hand over the gradient of ``layer``; its backward pass is done.

        The layer's weights are no longer needed. Its gradient is sent when those of the layers
        behind it were handed over too, in any order. Raises CollectiveError if the weights of this
        iteration have not arrived yet.
        """
        position = self._schedule.position(layer)
        with self._changed:
            self._raise_failure()
            if not self._has_come(position):
                raise CollectiveError(
                    f"rank {self._rank}: gradient_ready({layer!r}) before version "
                    f"{self._given[position]} of its weights is there: expected await_weights "
                    "before the layer's forward pass"
                )
            self._given[position] += 1
            ready = self._reduction.ready
            while self._given[ready % self._schedule.layers] > ready // self._schedule.layers:
                ready += 1
            self._reduction.ready = self._broadcast.finished = ready
            self._changed.notify_all()

    def weights_ready(self, layer: str) -> bool:
        """Tell whether the weights after the last gradients of ``layer`` have arrived."""
        position = self._schedule.position(layer)
        with self._changed:
            self._raise_failure()
            return self._has_come(position)

    def await_weights(self, layer: str, timeout_seconds: float | None = None) -> None:
        """Return when `weights_ready`; the layer's gradient may be written again, too.

        Raises ExchangeTimeout with the rank that it waits for, the edge, layer and version; at rank
        0 the error of ``update``; CollectiveError if MPI failed.
        """
        position = self._schedule.position(layer)
        self._await(
            lambda: self._has_come(position),
            lambda: f"the weights of layer {layer!r}, version {self._given[position]}",
            timeout_seconds,
        )

    def await_all_weights(self, timeout_seconds: float | None = None) -> None:
        """Return when `weights_ready` for all layers; see `await_weights`."""
        self._await(
            lambda: all(map(self._has_come, range(self._schedule.layers))),
            lambda: "all weights",
            timeout_seconds,
        )

    def close(self) -> None:
        """Send what other ranks wait for, and end the thread (collective).

        All ranks must have finished the same iteration. Weights may be read until the address space
        is closed, which frees them. Raises what `await_weights` does; the thread ends in any case.
        """
        try:
            self._await(self._is_idle, lambda: "the end of its exchange")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End the thread without the others, after a failure (not collective)."""
        self._progress.end()

    def _step(self) -> bool:
        looked = self._member.counts.look()
        summed = self._reduction.step()
        updated = self._rank == 0 and self._update_layers()
        sent = self._broadcast.step()
        while self._broadcast.came >= self._schedule.chunks_until(self._arrived + 1):
            self.marks.mark(self._arrived % self._schedule.layers)
            self._arrived += 1
        return any([looked, summed, updated, sent])

    def _update_layers(self) -> bool:
        """Update a layer whose sum is complete, or all, once the old weights have been sent."""
        turn = self._updated
        after = turn + (self._schedule.layers if self._updates_all else 1)
        complete = self._reduction.summed >= self._schedule.chunks_until(after)
        if not complete or self._broadcast.released < after:
            return False
        if self._updates_all:
            self._update(None, self.gradient)
        else:
            layer = self._schedule.layer(turn)
            self._update(layer, self.gradient[self._schedule.part(layer)])
        self._updated = after
        self._broadcast.produced = self._schedule.chunks_until(after + self._schedule.layers)
        return True

    def _has_come(self, position: int) -> bool:
        """Tell whether a layer may begin its next iteration at this rank."""
        turn = self._given[position] * self._schedule.layers + position
        came = self._broadcast.came >= self._schedule.chunks_until(turn + 1)
        before = max(turn + 1 - self._schedule.layers, 0)
        return came and self._reduction.settled >= self._schedule.chunks_until(before)

    def _is_idle(self) -> bool:
        """Tell whether no rank waits for this one, nor this one for others."""
        ready = self._reduction.ready
        due = self._schedule.chunks_until(ready + self._schedule.layers)
        return (
            self._reduction.settled >= self._schedule.chunks_until(ready)
            and self._broadcast.released >= ready
            and self._broadcast.forwarded >= due
        )

    def _await(
        self,
        there: Callable[[], bool],
        what: Callable[[], str],
        timeout_seconds: float | None = None,
    ) -> None:
        limit_seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        with self._changed:
            came = self._look(there, limit_seconds)
            self._raise_failure()
            if not came:
                raise ExchangeTimeout(
                    f"rank {self._rank}: waited {limit_seconds:g} s in vain for {what()}: "
                    f"{'; '.join(self._awaited())}; if ranks can be so late, "
                    "raise timeout_seconds (of a run: exchange.timeout_seconds)"
                )

    def _look(self, there: Callable[[], bool], limit_seconds: float) -> bool:
        """Wait until ``there()``, or until the thread has failed; tell whether that was in time."""
        left_seconds = limit_seconds
        while not self._changed.wait_for(
            lambda: self._progress.failure is not None or there(),
            min(left_seconds, _CHECK_SECONDS),
        ):
            self._check()
            left_seconds -= _CHECK_SECONDS  # not by a clock: the whole job may have been stopped
            if left_seconds <= 0:
                return False
        return True

    def _awaited(self) -> list[str]:
        found = [self._reduction.awaited(), self._broadcast.awaited(), self._own_debt()]
        return [each for each in found if each] or ["this rank was too slow itself"]

    def _own_debt(self) -> str | None:
        """Describe the layer that this rank itself has not handed over, if it has another."""
        turn = self._reduction.ready
        if max(self._given) <= self._schedule.iteration(turn):
            return None
        return (
            f"rank {self._rank} itself has not called gradient_ready("
            f"{self._schedule.layer(turn)!r}) in iteration {self._schedule.iteration(turn)}"
        )

    def _raise_failure(self) -> None:
        failure = self._progress.failure
        if isinstance(failure, KnltrainError):
            raise failure
        if failure is not None:
            raise CollectiveError(
                f"rank {self._rank}: its exchange ended: {type(failure).__name__}: {failure}"
            ) from failure


def _check(space: AddressSpace, slots: int, branches: int, reduction_branches: int | None) -> None:
    for name, value, least in (
        ("slots", slots, 1),
        ("branches", branches, 1),
        ("reduction_branches", 1 if reduction_branches is None else reduction_branches, 1),
        ("queues of the address space", space.queues, _QUEUES),
    ):
        if value < least:
            raise CollectiveError(f"{name}: {value}: expected {least} or more")
