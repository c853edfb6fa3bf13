"""What the benchmark of operations takes from a network."""

import numpy as np
import pytest

from knltrain.bench.ops.cases import cases
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet50
from vectorized_ops.implementations import operations


def test_equal_operations_are_one_case_that_counts_its_layers():
    found = cases(resnet50(), 32)
    convolutions = [case for case in found if case.operation == "convolution"]
    assert sum(case.layers for case in convolutions) == 53
    assert len(convolutions) < 30
    assert len({(case.operation, case.shape) for case in found}) == len(found)


def test_flops_of_all_cases_are_those_of_the_network():
    network = googlenet()
    total = sum(case.flops * case.layers for case in cases(network, 4))
    assert total == 4 * network.flops_per_image


def test_shapes_tell_stride_and_groups():
    texts = [case.shape for case in cases(alexnet(), 1)]
    assert "227x227x3 -> 96, 11x11, stride 4" in texts
    assert "27x27x96 -> 256, 5x5, 2 groups" in texts


@pytest.mark.parametrize("name", ["reference", "onednn"])
def test_every_direction_of_every_case_runs(name):
    for case in cases(lenet(), 2):
        prepared = case.make(operations(name))
        assert set(prepared.runs) == set(case.streams)
        for run in prepared.runs.values():
            run()


def test_what_only_moves_memory_runs_too():
    found = {case.operation: case for case in cases(resnet50(), 1)}
    found |= {case.operation: case for case in cases(alexnet(), 1)}
    for name in ("global average", "addition", "dropout"):
        prepared = found[name].make(operations("reference"))
        assert set(prepared.runs) == set(found[name].streams)
        for run in prepared.runs.values():
            run()


def test_streams_are_what_a_direction_must_move():
    (pooling,) = [case for case in cases(lenet(), 2) if case.shape.startswith("24x24x20")]
    inputs, outputs = 2 * 24 * 24 * 20, 2 * 12 * 12 * 20
    assert pooling.streams["forward"] == inputs + outputs + 2 * (12 * 12 * 20 // 4)
    assert np.isclose(pooling.flops, 0)


def test_an_implementation_without_an_operation_has_no_runs():
    (local, *_) = [case for case in cases(alexnet(), 1) if case.operation == "local response"]
    (dropout, *_) = [case for case in cases(alexnet(), 1) if case.operation == "dropout"]
    assert local.make(operations("onednn")) is None
    assert dropout.make(operations("onednn")) is None
