"""Workers that train together on quadratics, each from a formula that the tests can follow."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from thread_nodes import ThreadNodes

from knltrain.assembly.factories import reference_kernels
from knltrain.assembly.methods import build
from knltrain.assembly.rules import MethodContext
from knltrain.config import RunConfig
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.joining import join, join_across_nodes
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.team import Team
from knltrain.network.layers import Dense
from knltrain.network.network import Network

NETWORK = Network("small", (1, 1, 40), (Dense("a", 30), Dense("b", 20), Dense("c", 10)))
SIZE = NETWORK.packed_size
RATE = 0.2
WORKERS, STEPS = 3, 8
Step = Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def rate_at(step: int) -> float:
    return RATE / (1 + 0.1 * step)


def start() -> np.ndarray:
    return np.random.default_rng(99).standard_normal(SIZE, np.float32)


def target(rank: int) -> np.ndarray:
    """Where worker `rank` would go alone: its loss is half the squared distance from there."""
    return np.random.default_rng(rank).standard_normal(SIZE, np.float32)


@dataclass(frozen=True)
class Trained:
    """After each step: parameters of all workers, (steps, P, n), and the model, (steps, n)."""

    parameters: np.ndarray
    models: np.ndarray


def check(found: Trained, step: Step, workers: int = WORKERS) -> None:
    """`step(t, W, C)` gives W (P, n) and C (n,) after step t, from those before it."""
    locals_, center = np.stack([start()] * workers).astype(np.float64), start().astype(np.float64)
    for number in range(len(found.models)):
        locals_, center = step(number, locals_, center)
        np.testing.assert_allclose(found.parameters[number], locals_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[number], center, rtol=1e-4, atol=1e-5)


def stepped(number: int, locals_: np.ndarray) -> np.ndarray:
    """All locals after a gradient step of each."""
    gradients = locals_ - np.stack([target(rank) for rank in range(len(locals_))])
    return locals_ - rate_at(number) * gradients


def outer(update: Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Step:
    """A step of each, and every second time an outer step: `update(t, velocity, d)`."""
    velocity = np.zeros(SIZE)

    def by_formula(t: int, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal velocity
        w = stepped(t, w)
        if t % 2 == 0:
            return w, c
        velocity, move = update(t, velocity, c - w.mean(axis=0))
        return np.stack([c - move] * WORKERS), c - move

    return by_formula


def diloco(t: int, v: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    v = 0.9 * v + d
    return v, 0.7 * (d + 0.9 * v)


def config_of(method: str, workers: int, nodes: int, exchange: dict[str, object]) -> RunConfig:
    return RunConfig.model_validate(
        {
            "workers": workers // nodes,
            "nodes": nodes,
            "network": {"name": "lenet"},
            "data": {"name": "digits"},
            "train": {"steps": 1, "batch": workers},
            "learning_rate": {"base": RATE},
            "exchange": {"method": method, **exchange},
        }
    )


def train(
    name: str,
    workers: int,
    steps: int,
    *,
    nodes: int = 1,
    freely: bool = False,
    **exchange: object,
) -> Trained:
    """Let workers train by a method of that name, as threads; ``exchange`` are its settings.

    All settle and meet after every step, or else only after the last one. Those of each of the
    ``nodes`` share a memory.
    """
    config = config_of(name, workers, nodes, exchange)
    of_node = workers // nodes
    between = ThreadNodes(nodes)
    method = build(MethodContext(config, workers, NETWORK, reference_kernels(), rate_at))
    parameters = np.zeros((steps, workers, SIZE), np.float32)
    models = np.zeros((steps, SIZE), np.float32)
    memories = [
        NodeMemory(SIZE, of_node, method, "memfd", nodes)
        for _ in range(nodes if workers > 1 else 0)
    ]

    def work(rank: int) -> None:
        part = strategy_in(method, connect(rank))
        try:
            part.start_from(start())
            part.begin()
            part.team.barrier()
            for step in range(steps):
                part.step_begins(step)
                gradient, middle = part.parameters - target(rank), SIZE // 2
                part.gradient[middle:] = gradient[middle:]
                part.gradient_done_from(middle)
                part.gradient[:middle] = gradient[:middle]
                part.gradient_ready(step)
                part.parameters[:] -= np.float32(rate_at(step)) * part.gradient
                part.stepped(step)
                parameters[step, rank] = part.parameters
                if freely and step < steps - 1:
                    continue
                part.settle()
                part.team.barrier()
                models[step] = part.model
                part.team.barrier()
        except BaseException:
            between.barrier.abort()
            for memory in memories:
                memory.abort(1)
            raise
        finally:
            part.close()

    def connect(rank: int) -> Team:
        if not memories:
            return Loopback(SIZE, method.rule.center_vectors, method.strategy.needs_spares)
        node, local_rank = divmod(rank, of_node)
        fds = [os.dup(fd) for fd in memories[node].fds_of(local_rank)]
        if nodes == 1:
            return join(fds, rank, 20)
        collective = None if local_rank else between.collective(node)
        return join_across_nodes(fds, local_rank, 20, node, nodes, collective)

    try:
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(work, range(workers)))
    finally:
        for memory in memories:
            memory.close()
    assert sorted(between.closed) == list(range(nodes if nodes > 1 else 0))
    return Trained(parameters, models)
