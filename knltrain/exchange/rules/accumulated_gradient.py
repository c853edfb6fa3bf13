# ruff: noqa: ARG002 (a rule is given all vectors, and needs some)
"""Gradients that are added up at a center, beside which lie the weights that they move."""

from __future__ import annotations

from typing import final

from knltrain.exchange.rules.averaging import check_workers
from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.vectors import FloatArray


@final
class AccumulatedGradient(ExchangeRule):
    """Add a P-th of every worker's gradient to the center: the mean, when all have done so.

    What follows is a master's work: it moves the weights, ``kept[0]``, and clears the center.
    Raises ConfigError for less than one worker.
    """

    moves = "gradient"
    after = "gradient"
    center_vectors = 2
    adds = True
    follows = False

    def __init__(self, workers: int) -> None:
        check_workers(workers)
        self.workers = workers

    def model(self, center: FloatArray, kept: FloatArray) -> FloatArray:
        """Return the weights."""
        weights: FloatArray = kept[0]
        return weights

    def contribute(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Write local / P."""
        self.arithmetic.divide(local, self.workers, out=contribution)

    def absorb(self, center: FloatArray, kept: FloatArray, contribution: FloatArray) -> None:
        """Add the contribution."""
        self.arithmetic.add(center, contribution, out=center)

    def follow(self, local: FloatArray, center: FloatArray, contribution: FloatArray) -> None:
        """Do nothing: the weights are read instead."""
