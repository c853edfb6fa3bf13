"""A small synchronous training whose every bit is known, for ranks of any kind."""

from __future__ import annotations

import random
import time

import numpy as np

from knltrain.communication.gaspi import AddressSpace
from knltrain.exchange.tree_exchange import TreeExchange
from knltrain.exchange.tree_exchange.trees import reduction_place

LAYERS = {"conv": 7, "norm": 1, "wide": 1003, "fc": 130}
SIZE = sum(LAYERS.values())
RATE, MOMENTUM = np.float32(0.05), np.float32(0.9)


def start_weights():
    return np.random.default_rng(3).standard_normal(SIZE).astype(np.float32)


def gradient(weights, rank, iteration):
    """What depends on weights, so that wrong or late ones are seen, and is of uneven magnitude."""
    noise = np.random.default_rng([rank, iteration]).standard_normal(weights.size)
    return (weights * np.float32(0.1) + noise * 10.0 ** (rank % 3)).astype(np.float32)


class Momentum:
    """SGD with momentum, of the parts that it is called for."""

    def __init__(self):
        self.velocity = np.zeros(SIZE, np.float32)

    def __call__(self, weights, part, total):
        velocity = self.velocity[part]
        velocity *= MOMENTUM
        velocity += total
        weights[part] -= RATE * velocity


def tree_sum(gradients, branches=None):
    """Add up whole vectors in the order of the tree of sums."""

    def of_subtree(rank):
        total = gradients[rank].copy()
        for child in reduction_place(rank, len(gradients), branches).children:
            total += of_subtree(child)
        return total

    return of_subtree(0)


def batch_training(ranks, iterations, branches=None):
    """Return the weights after updates of the whole vector, without any exchange."""
    weights, momentum = start_weights(), Momentum()
    for iteration in range(iterations):
        total = tree_sum([gradient(weights, rank, iteration) for rank in range(ranks)], branches)
        momentum(weights, slice(0, SIZE), total)
    return weights


def train(space: AddressSpace, iterations: int, seed: int = 0, nap_seconds: float = 0.0, **options):
    """Train by a TreeExchange, with naps between layers; return the weights of this rank."""
    dice = random.Random(f"{seed} {space.rank}")
    momentum = Momentum()

    def update(layer, total):
        part = slice(0, SIZE) if layer is None else exchange.part(layer)
        momentum(exchange.weights, part, total)

    exchange = TreeExchange(space, LAYERS, update, **{"timeout_seconds": 30, **options})
    try:
        exchange.start_from(start_weights() if space.rank == 0 else None)
        for iteration in range(iterations):
            seen = np.empty(SIZE, np.float32)
            for layer in LAYERS:
                exchange.await_weights(layer)
                seen[exchange.part(layer)] = exchange.weights[exchange.part(layer)]
            own = gradient(seen, space.rank, iteration)
            for layer in reversed(LAYERS):
                part = exchange.part(layer)
                # Read once more: nobody may have written it before this backward pass ended.
                assert np.array_equal(exchange.weights[part], seen[part])
                exchange.gradient[part] = own[part]
                if nap_seconds:
                    time.sleep(dice.random() * nap_seconds)
                exchange.gradient_ready(layer)
        exchange.await_all_weights()
        return exchange.weights.copy()
    finally:
        exchange.close()
