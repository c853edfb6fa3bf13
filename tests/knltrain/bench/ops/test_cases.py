"""What the benchmark of operations takes from a network."""

import pytest

from knltrain.bench.ops.cases import cases
from knltrain.network.zoo.alexnet import alexnet
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.mobilenet import mobilenet_v2
from knltrain.network.zoo.resnet import resnet50
from vectorized_ops.implementations import operations


def test_equal_operations_are_one_case_that_counts_its_layers():
    found = cases(resnet50(), 32)
    convolutions = [case for case in found if case.operation.kind == "convolution"]
    assert sum(case.layers for case in convolutions) == 53
    assert len(convolutions) < 30
    assert len({(case.operation.kind, str(case.operation)) for case in found}) == len(found)


def test_flops_of_all_cases_are_those_of_the_network():
    network = googlenet()
    total = sum(
        case.operation.costs["forward"].flops * case.layers
        for case in cases(network, 4)
        if case.operation.is_product
    )
    assert total == 4 * network.flops_per_image


def test_shapes_tell_stride_and_groups():
    texts = [str(case.operation) for case in cases(alexnet(), 1)]
    assert "227x227x3 -> 96, 11x11, stride 4" in texts
    assert "27x27x96 -> 256, 5x5, 2 groups" in texts


def test_a_depthwise_convolution_is_bound_by_memory():
    found = {case.kind: case for case in cases(mobilenet_v2(), 1)}
    depthwise, other = found["depthwise convolution"], found["convolution"]
    assert depthwise.operation.groups == depthwise.operation.channels > 1
    assert (depthwise.bound_by_products, other.bound_by_products) == (False, True)
    assert {case.kind for case in cases(alexnet(), 1)} >= {"convolution", "dense"}
    assert "depthwise convolution" not in {case.kind for case in cases(alexnet(), 1)}


@pytest.mark.parametrize("name", ["reference", "onednn"])
def test_every_direction_of_every_case_runs(name):
    for case in cases(lenet(), 2):
        prepared = case.operation.calls(operations(name))
        assert set(prepared.runs) == set(case.operation.costs)
        for run in prepared.runs.values():
            run()


def test_what_only_moves_memory_runs_too():
    found = {case.operation.kind: case for case in cases(resnet50(), 1)}
    found |= {case.operation.kind: case for case in cases(alexnet(), 1)}
    for name in ("global average", "addition", "dropout"):
        prepared = found[name].operation.calls(operations("reference"))
        assert set(prepared.runs) == set(found[name].operation.costs)
        for run in prepared.runs.values():
            run()


def test_an_implementation_without_an_operation_has_no_runs():
    (local, *_) = [case for case in cases(alexnet(), 1) if case.operation.kind == "local response"]
    (dropout, *_) = [case for case in cases(alexnet(), 1) if case.operation.kind == "dropout"]
    assert local.operation.calls(operations("onednn")) is None
    assert dropout.operation.calls(operations("onednn")) is None
