"""Steps that a master takes for all workers on quadratics."""

from __future__ import annotations

import numpy as np
from quadratics import NETWORK, SIZE, rate_at, start, target

from knltrain.exchange.strategies.strategy import MasterStep, Strategy
from knltrain.network.layer_slices import layer_parts

STEPS = 6
PARTS = layer_parts(NETWORK)


def take(step: int, layer: int, weights: np.ndarray, gradient: np.ndarray) -> None:
    assert weights.size == gradient.size == PARTS[layer].stop - PARTS[layer].start
    weights -= np.float32(rate_at(step)) * gradient


def take_whole(step: int, layer: int, weights: np.ndarray, gradient: np.ndarray) -> None:
    assert layer == 0
    take_all(step, weights, gradient)


def take_all(step: int, weights: np.ndarray, gradient: np.ndarray) -> None:
    assert weights.size == gradient.size == SIZE
    weights -= np.float32(rate_at(step)) * gradient


BY_LAYER = MasterStep(take, take_all)
OF_ALL = MasterStep(take_whole, take_all, needs_all=True)


def trained(part: Strategy, rank: int) -> np.ndarray:
    """The model after each step, (steps, n)."""
    found = np.zeros((STEPS, SIZE), np.float32)
    part.gradient[:] = part.parameters[:] = rank
    part.exchange(0)  # as a rehearsal does, of which nothing must be left
    part.start_from(start())
    part.team.barrier()
    for step in range(STEPS):
        part.step_begins(step)
        gradient = part.parameters - target(rank)
        for layer in reversed(PARTS):
            part.gradient[layer] = gradient[layer]
            part.gradient_done_from(layer.start)
        part.gradient_ready(step)
        part.stepped(step)
        part.settle()
        part.team.barrier()
        found[step] = part.model
        part.team.barrier()
    return found
