from __future__ import annotations

import pytest

from knltrain.distributed_ops import costs
from vectorized_ops.shapes import ConvolutionShape, PoolingShape


def test_convolution_counts_each_tensor_once_and_groups_fewer_operations() -> None:
    # VGG-16's second layer with 32 images: 2 N K C R S P Q.
    shape = ConvolutionShape(32, 224, 224, 64, 64, (3, 3), padding=(1, 1))
    cost = costs.convolution(shape)
    assert cost.flops == 2 * 32 * 64 * 64 * 9 * 224 * 224
    assert cost.memory_bytes == 4 * (2 * 32 * 224 * 224 * 64 + 64 * 64 * 9)
    grouped = ConvolutionShape(32, 224, 224, 64, 64, (3, 3), padding=(1, 1), groups=4)
    assert costs.convolution(grouped).flops == cost.flops // 4


def test_dense_pooling_normalisation_and_step_have_the_formulas_of_the_thesis() -> None:
    assert costs.dense(2, 3, 5) == costs.Cost(60, 4 * (6 + 15 + 10))
    window = PoolingShape(4, 4, (2, 2), (2, 2))
    assert costs.max_pooling(3, 5, window, False) == costs.Cost(240, 4 * (240 + 60) + 60)
    assert costs.max_pooling(3, 5, window, True).flops == 60
    assert costs.batch_normalisation(10, False) == costs.Cost(50, 120)
    assert costs.batch_normalisation(10, True) == costs.Cost(80, 200)
    assert costs.relu(10, False) == costs.Cost(10, 80)
    assert costs.relu(10, True) == costs.Cost(10, 120)
    assert costs.sgd_step(10) == costs.Cost(40, 200)
    assert costs.moved(10) == costs.Cost(0, 80)
    assert costs.softmax_cross_entropy(10) == costs.Cost(50, 80)


@pytest.mark.parametrize(("ranks", "bytes_"), [(1, 0), (2, 1000), (4, 1500), (1000, 1998)])
def test_ring_sends_less_than_twice_the_bytes(ranks: int, bytes_: float) -> None:
    assert costs.ring_bytes(1000, ranks) == bytes_
    assert costs.ring_steps(ranks) == 2 * (ranks - 1)


def test_tree_and_master_send_more() -> None:
    assert costs.tree_bytes(1000) == 2000
    assert costs.master_bytes(1000, 8) == 8000
