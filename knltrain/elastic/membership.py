"""The workers of a launch, each a process of the user's own program, and what they share."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, final

import torch.distributed as dist

from knltrain.assembly import build_method, resolved
from knltrain.assembly.device_exchange import check_method_on_devices, exchanging_on_devices
from knltrain.assembly.teams import build_team
from knltrain.cluster.task import Task, this_task
from knltrain.cluster.worker import MeetingPoint
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.config.reading import validated
from knltrain.elastic.packed_model import PackedModel
from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import Strategy, strategy_in
from knltrain.exchange.transports.team import Team
from knltrain.launch.job_peers import JobPeers
from knltrain.launch.node_share import NodeShare, expected_node_share
from knltrain.launch.shared_memory import node_memory
from knltrain.launch.way_between_nodes import check_way, with_way_decided
from knltrain.vectors import VectorSpace

_LAUNCHERS: Final = "torchrun, srun, mpirun and python -m affinity run"


@final
class Membership:
    """This process as one worker of its launch, with its `strategy`, until it is closed.

    Without a launcher it is the only one. `exchange` are keys of the table [exchange] of a
    configuration; `implementation` is that of the kernels. `learning_rate` takes the number of a
    step, from 0; vectors are in `space`. Collective. Raises ConfigError for settings that do not
    fit, also each other's, and for a model that another worker has not; SegmentError;
    ExchangeTimeout or PeerLost where others do not come.
    """

    def __init__(
        self,
        model: PackedModel,
        exchange: Mapping[str, Any],
        implementation: str,
        learning_rate: Callable[[int], float],
        space: VectorSpace,
    ) -> None:
        task = this_task()
        _check_process_group(task)
        share = expected_node_share(task)
        self.config = config = _configured(model, exchange, implementation, share, learning_rate(0))
        self._peers: JobPeers | None = None
        self._memory: NodeMemory | None = None
        method = build_method(config, config.total_workers, learning_rate, model)
        if method.strategy.steps_at_master:
            raise ConfigError(
                f"exchange.method = '{method.name}' takes the optimizer's step at one worker for "
                "all, so it is for `knltrain train`: expected another, such as 'sync_sgd'"
            )
        method.strategy.check_run(method, config)
        with ExitStack() as open_:
            if task is None:
                team = build_team(config, (), 0, packed=model)
            else:
                peers = JobPeers(task, share, config, are_apart=False)
                self._peers = open_.enter_context(peers)
                team = self._joined(method, model, peers, open_)
            if config.exchange.within_nodes != "segment":
                check_method_on_devices(config, method)
                team = exchanging_on_devices(config, team, space)
            self.strategy: Strategy = strategy_in(method, team)
            self.strategy.space = space
            self._open = open_.pop_all()

    def check(self) -> None:
        """Raise PeerLost or RunAborted if another worker is gone."""
        if self._peers is not None and self._peers.lost is not None:
            raise self._peers.lost
        self.strategy.team.check()

    def close(self, error: BaseException | None) -> None:
        """Leave; with an error the others end, too."""
        if error is not None and self._memory is not None:
            self._memory.abort(1)
        try:
            self.strategy.close()
        finally:
            self._open.__exit__(type(error) if error else None, error, None)

    def _joined(
        self, method: Method, model: PackedModel, peers: JobPeers, open_: ExitStack
    ) -> Team:
        """The team of all workers, through the memory of this node."""
        config, share = self.config, peers.node_share
        memory = node_memory(config, method, model.packed_size, share, peers, open_)
        self._memory = memory
        meeting_point, _ = peers.meeting_point(None)
        rank = share.node * share.shares + share.share
        fds = tuple(map(os.dup, memory.fds_of(share.share)))  # the team closes them
        point = _with_own_fd(meeting_point) if share.nodes > 1 else None
        team = build_team(config, fds, rank, point, model)
        team.barrier()
        peers.show_life(config.exchange.timeout_seconds)
        return team


def _with_own_fd(point: MeetingPoint) -> MeetingPoint:
    """The same with another descriptor of the listener, which the one who listens takes over."""
    return point if point.fd is None else replace(point, fd=os.dup(point.fd))


def _configured(
    model: PackedModel,
    exchange: Mapping[str, Any],
    implementation: str,
    share: NodeShare,
    learning_rate: float,
) -> RunConfig:
    """The configuration of a run that exchanges so; the parts that the user's program has are set.

    Its network's name tells the model, so that all workers are found to have the same.
    """
    if exchange.get("rho") is not None and not learning_rate:
        raise ConfigError(
            "exchange.rho, which is over the learning rate, with an optimizer whose rate is 0 at "
            "the start: expected moving_rate or beta instead"
        )
    shapes = {each.name: list(each.tensor.shape) for each in model.parameters}
    digest = hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:8]
    workers = share.shares * share.nodes
    tables = {
        "workers": share.shares,
        "nodes": share.nodes,
        "network": {"name": f"{model.name}, {model.packed_size} values, shapes {digest}"},
        "data": {"name": "that of the program"},
        "train": {"steps": 1, "batch": workers},
        "learning_rate": {"base": 1.0 if exchange.get("rho") is None else learning_rate},
        "exchange": dict(exchange),
        "backend": {"name": "torch", "implementation": implementation},
    }
    config = resolved(validated(tables, "Elastic"))
    if config.exchange.method in METHODS:
        config = with_way_decided(config)
        check_way(config)
    return config


def _check_process_group(task: Task | None) -> None:
    """Refuse a process group of torch whose ranks are not the tasks of a launcher."""
    if not (dist.is_available() and dist.is_initialized()):
        return
    ranks, tasks = dist.get_world_size(), 1 if task is None else task.tasks
    if ranks != tasks:
        started = (
            "no launcher has started this process"
            if task is None
            else f"{task.launcher} has started {tasks} tasks"
        )
        raise ConfigError(
            f"torch.distributed has {ranks} ranks, but {started}: expected a task for each rank, "
            f"as {_LAUNCHERS} start them"
        )
