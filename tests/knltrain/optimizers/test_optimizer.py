"""Steps a layer at a time have the bits of one step of all, whoever takes them."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest

from knltrain.network.layer_slices import layer_parts
from knltrain.network.parameter_groups import parameter_groups_within
from knltrain.network.zoo.lenet import lenet
from knltrain.optimizers.optimizer import LayerwiseOptimizer, OptimizerPlaceholder
from knltrain.optimizers.sgd import SGD
from vectorized_ops.numba import sgd as numba_sgd
from vectorized_ops.numba.compiling.single_thread import alone
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference import sgd as reference_sgd

NETWORK = lenet()
PARTS = layer_parts(NETWORK)


def optimizers(kernel, nesterov, block):
    def make(groups):
        return SGD(groups, 0.9, 0.01, nesterov, Clipping(value=1.5), kernel)

    parts = [make(parameter_groups_within(NETWORK.parameter_groups, part)) for part in PARTS]
    return make(NETWORK.parameter_groups), LayerwiseOptimizer(PARTS, parts, block)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(
    ("kernel", "block"),
    [(numba_sgd.SGDUpdate, alone), (reference_sgd.SGDUpdate, nullcontext)],
    ids=["numba", "reference"],
)
def test_parts_have_the_bits_of_the_whole_also_in_another_thread(kernel, block, nesterov):
    whole, in_parts = optimizers(kernel, nesterov, block)
    one, other = (np.linspace(-1, 1, NETWORK.packed_size, dtype=np.float32) for _ in range(2))
    dice = np.random.default_rng(1)
    for step in range(3):
        gradient = dice.standard_normal(one.size, np.float32)
        whole.step(one, gradient.copy(), 0.1 / (step + 1))
        arguments = other, gradient.copy(), 0.1 / (step + 1)
        thread = threading.Thread(target=in_parts.step, args=arguments)
        thread.start()
        thread.join()
    assert np.array_equal(one, other)
    found = in_parts.state
    assert list(found) == [f"velocity.{number}" for number in range(len(PARTS))]
    assert np.array_equal(np.concatenate(list(found.values())), whole.state["velocity"])


def test_a_step_that_the_exchange_takes_is_not_taken_again():
    _, in_parts = optimizers(reference_sgd.SGDUpdate, False, nullcontext)
    vector = np.ones(NETWORK.packed_size, np.float32)
    for one, kept in (
        (OptimizerPlaceholder(in_parts), in_parts.state),
        (OptimizerPlaceholder(None), {}),
    ):
        one.step(vector, vector.copy(), 0.1)
        assert (vector == 1).all()
        assert list(one.state) == list(kept)
        assert all(one.state[name] is kept[name] for name in kept)
