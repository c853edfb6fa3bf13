"""A worker of distributed training by a method of exchange, in any training loop of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from knltrain.backends.torch.mirrors import HOST as CPU
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.elastic.membership import Membership
from knltrain.elastic.packed_model import PackedModel, Place
from knltrain.errors import CheckpointError, ElasticError
from knltrain.exchange.strategies.strategy import Moment
from knltrain.exchange.transports.team import Team
from knltrain.vectors import HOST, VectorSpace, aligned_zeros
from knltrain.worker.step import on_host
from knltrain.worker.termination import MEETING_SECONDS


@final
class Elastic:
    """A worker's `model` and `optimizer`, which take part in the exchanges of a method.

    Every process of a launch (torchrun, srun, mpirun, `knltrain launch`) makes one and calls
    `step` after each backward pass; all start from the values of rank 0. Without a launcher the
    process is the only worker. Models may have any floating-point dtype, and lie on any device; the
    exchange is in float32 on the host. Those of float32 on the CPU lie in the memory that the
    workers of a node share, so nothing is copied; those on one other device lie in one vector
    there, which is copied where an exchange needs it. With ``within_nodes="device"`` workers of one
    node, each with a device of its own, exchange there (NCCL). Buffers, as running statistics, are
    exchanged with the parameters.

    `options` are the keys of the table [exchange] of a configuration, such as
    ``communication_period``, ``moving_rate``, ``between_nodes`` and ``wire_format``
    (`knltrain methods` lists which method reads which). `implementation` of the exchange's
    kernels: "numba", compiled, or "reference", NumPy.

    In a ``with`` block all workers wait for each other at the end; an error in one ends the others.

    Raises ConfigError for settings that do not fit, NetworkError for a model without parameters,
    SegmentError without room, ExchangeTimeout or PeerLost where other workers do not come.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        method: str = "sync_easgd",
        *,
        implementation: str = "numba",
        **options: Any,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.steps = 0
        """Steps that this worker has taken."""
        self._space, place = space_of(model)
        self._packed = PackedModel(model, *place)
        self._membership = Membership(
            self._packed,
            {"method": method, **options},
            implementation,
            self._learning_rate,
            self._space,
        )
        self._strategy = self._membership.strategy
        self._moves_gradients = self._strategy.method.moved_in_groups == "gradient"
        self._has_begun = self._is_center = self._has_left = False
        self._vector = self._strategy.parameters
        try:
            self._begin_run()
        except BaseException as error:
            self._membership.close(error)
            self._space.close()
            raise
        self._hook = model.register_forward_pre_hook(self._forward_begins)

    def _begin_run(self) -> None:
        """Start from the values of rank 0."""
        start, strategy = aligned_zeros(self._packed.packed_size), self._strategy
        self._packed.read_all(start)
        strategy.start_from(start)
        strategy.begin()
        self._space.take(strategy.parameters)
        if self._moves_gradients:
            self._space.take(strategy.gradient)
        self._vector = strategy.parameters
        self._follow_all()

    @property
    def team(self) -> Team:
        """All workers: `rank`, `workers`, `all_sum`."""
        return self._strategy.team

    def step(self) -> None:
        """Exchange as it is due, take the optimizer's step, and set the gradients to zero.

        Raises PeerLost, RunAborted or ExchangeTimeout where another worker fails.
        """
        strategy, packed, space = self._strategy, self._packed, self._space
        self._membership.check()
        self._begin()
        packed.keep_in_place(strategy.parameters)
        moved = packed.statistics_since(strategy.parameters)
        if self._moves_gradients:
            packed.read_gradient(strategy.gradient)
            packed.write_statistics(moved, strategy.gradient)
            space.computed(strategy.gradient)
        with self._on_host("gradient"):
            strategy.gradient_ready(self.steps)
        if self._moves_gradients:
            packed.follow_gradient(strategy.gradient)
            moved = packed.moved_by(moved, strategy.gradient)
        self._follow("gradient")
        self.optimizer.step()
        packed.read_weights(strategy.parameters)
        packed.move_statistics(moved, strategy.parameters)
        space.computed(strategy.parameters)
        with self._on_host("step"):
            strategy.stepped(self.steps)
        self._follow("step")
        packed.follow_statistics(strategy.parameters)
        self.optimizer.zero_grad()
        self.steps += 1
        self._has_begun = False

    def barrier(self, timeout_seconds: float = MEETING_SECONDS) -> None:
        """Wait until all workers are here, and have done what they exchange (collective).

        Raises ExchangeTimeout after ``timeout_seconds``, or PeerLost.
        """
        self._strategy.settle()
        self.team.barrier(timeout_seconds)

    @contextmanager
    def center(self) -> Iterator[nn.Module]:
        """The model with the center's values, between two steps: what is evaluated and saved.

        A copy of the moment.
        Not collective. It is the same at all workers behind a `barrier`. Those that go on wait for
        this one in their next exchange, up to ``timeout_seconds``; at a `barrier` for longer.
        """
        packed = self._packed
        self._check_between_steps("center()")
        self._strategy.settle()
        center = aligned_zeros(packed.packed_size)
        self._bring()
        center[:] = self._strategy.model
        own, vector = packed.copies(), self._vector
        self._is_center = True
        try:
            if self._space is HOST:
                packed.follow_weights(center)
                packed.follow_statistics(center)
            else:
                packed.copy_all(center)
            yield self.model
        finally:
            if packed.is_in_place and self._space is HOST:
                packed.follow_weights(vector)
            packed.put_back(own)
            self._is_center = False

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of what this worker needs to go on, between two steps, by name.

        Not the optimizer's own state. Vectors are float32 (n,), ``steps`` is int64 ().
        """
        self._check_between_steps("state()")
        self._strategy.settle()
        self._bring()
        found: dict[str, npt.NDArray[Any]] = {
            "steps": np.array(self.steps, np.int64),
            "center": self._strategy.model,
            "local": self._strategy.parameters,
        }
        found |= {f"exchange.{name}": each for name, each in self._strategy.state().items()}
        return {name: each.copy() for name, each in found.items()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from the `state` of a worker of this rank (collective).

        Raises CheckpointError where it is of another model or method.
        """
        self._check_between_steps("load_state()")
        strategy, size = self._strategy, self._packed.packed_size
        for name in ("center", "local"):
            if name not in state or state[name].shape != (size,):
                raise CheckpointError(
                    f"'{name}' of the state has shape "
                    f"{state[name].shape if name in state else None}, expected ({size},): that of "
                    "this model"
                )
        kept = {name: f"exchange.{name}" for name in strategy.state()}
        for name in kept.values():
            if name not in state:
                raise CheckpointError(
                    f"the state has no '{name}': expected that of {strategy.method.name}"
                )
        found = {name: state[key] for name, key in kept.items()}
        strategy.restore(state["center"], state["local"], found)
        self._space.take(strategy.parameters)
        self.steps = int(state["steps"])
        self._vector = strategy.parameters
        self._follow_all()

    def close(self) -> None:
        """Wait for all other workers, and leave; the model keeps its values (collective)."""
        if not self._has_left:
            self.barrier()
            self._leave(None)

    def __enter__(self) -> Elastic:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
        elif not self._has_left:
            self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        self._has_left = True
        self._hook.remove()
        self._vector = np.zeros(0, np.float32)
        try:
            if self._space is HOST:
                self._packed.leave()
        finally:
            self._membership.close(error)
            self._space.close()

    def _forward_begins(self, module: nn.Module, _given: object) -> None:
        """Begin what overlaps with computing, at the first forward pass of a step."""
        if module.training and torch.is_grad_enabled() and not self._is_center:
            self._begin()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._packed.keep_in_place(self._strategy.parameters)
            self._packed.read_weights(self._strategy.parameters)
            self._space.computed(self._strategy.parameters)
            with self._on_host("begin"):
                self._strategy.step_begins(self.steps)
            self._follow("begin")

    def _on_host(self, moment: Moment) -> AbstractContextManager[None]:
        """Let the strategy's call of a moment find and leave its vectors on the host."""
        return on_host(self._strategy, moment, self.steps)

    def _follow(self, moment: Moment) -> None:
        """Take the weights that an exchange has moved, or that lie elsewhere now."""
        strategy, method = self._strategy, self._strategy.method
        has_moved = method.stream is not None or method.levels is not None
        has_moved = has_moved or (method.after == moment and method.due(self.steps))
        is_elsewhere = strategy.parameters is not self._vector
        if is_elsewhere or (has_moved and not self._packed.is_in_place):
            self._vector = strategy.parameters
            self._packed.follow_weights(self._vector)

    def _bring(self) -> None:
        """Bring center and local to the host, with what the user has changed in the model."""
        strategy = self._strategy
        if not self._is_center:
            self._space.computed(strategy.parameters)
        self._space.to_host(strategy.model, strategy.parameters)

    def _follow_all(self) -> None:
        self._packed.follow_weights(self._vector)
        self._packed.follow_statistics(self._vector)

    def _check_between_steps(self, call: str) -> None:
        if self._has_begun:
            raise ElasticError(
                f"{call} in the middle of a step: expected it behind step(). A forward pass "
                "without a step is to be under torch.no_grad(), or of a model in evaluation mode"
            )

    def _learning_rate(self, _step: int) -> float:
        return float(self.optimizer.param_groups[0]["lr"])


def space_of(model: nn.Module) -> tuple[VectorSpace, tuple[Place, torch.device]]:
    """Where a model's vectors are computed with: on its device, if it is one with float32."""
    kinds = {(each.device, each.dtype) for each in model.parameters() if each.is_floating_point()}
    device, dtype = next(iter(kinds), (CPU, torch.float32))
    if len(kinds) != 1 or dtype != torch.float32 or device.type not in ("cuda", "xpu"):
        return HOST, (torch.from_numpy, CPU)
    mirrors = Mirrors(device)
    return mirrors, (mirrors.packed, device)
