"""Memory that a worker needs, foreseen and found."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from knltrain.assembly.needs import MOMENTS, PROGRAM_BYTES, memory_needs, values_at_once
from knltrain.backends.cpu.plan import Plan
from knltrain.config import load_config
from knltrain.config.optimizer_tables import OPTIMIZER_DEFAULTS
from knltrain.data.dataset import Dataset, LabelledImages
from knltrain.launch.training import train
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.zoo.networks import NETWORKS
from tests.knltrain.data.given import given_images
from vectorized_ops.implementations import operations

VALUES = 4 + 2 * 3
"""Of an image of 4 pixels, 3 outputs and their gradients."""


def images(count: int) -> LabelledImages:
    return given_images(np.zeros((count, 2, 2, 1), np.float32), np.zeros(count, np.int64), 3)


def test_needs_are_those_of_vectors_outputs_and_all_images():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    needs = memory_needs(network, Dataset("none", images(10), images(5)), 7)
    assert {need.name: (need.bytes, need.kind) for need in needs} == {
        "model": (4 * 4 * network.packed_size + 1.1 * 4 * VALUES * 16, "best"),
        "data": (15 * (4 + 8), "dram"),
        "program": (PROGRAM_BYTES, "best"),
    }


def test_workers_of_a_computer_share_one_copy_of_the_images():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    dataset = Dataset("none", images(10), images(5))
    model, data, batches, _ = memory_needs(network, dataset, 7, workers=4, batches_ahead_bytes=8192)
    assert model == memory_needs(network, dataset, 7)[0]
    assert (data.bytes, batches.bytes, batches.kind) == (15 * (4 + 8) // 4, 8192, "best")


def test_each_of_several_nodes_has_a_part_of_the_images():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    _, data, _ = memory_needs(network, Dataset("none", images(10), images(5)), 7, nodes=2)
    assert data.bytes == (5 + 3) * 4 + 15 * 8


def test_a_batch_in_slices_needs_memory_for_one_and_for_its_gradient():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    dataset = Dataset("none", images(10), images(5))
    model = [memory_needs(network, dataset, 64, micro_batch=n)[0].bytes for n in (0, 20, 64, 99)]
    vector = 4 * network.packed_size
    assert model[0] == model[2] == model[3] == math.ceil(4 * vector + 1.1 * 4 * VALUES * 64)
    assert model[1] == math.ceil(5 * vector + 1.1 * 4 * VALUES * 32)


def test_activations_in_bfloat16_need_half():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    dataset = Dataset("none", images(10), images(5))
    model = memory_needs(network, dataset, 64, value_bytes=2)[0].bytes
    assert model == math.ceil(4 * 4 * network.packed_size + 1.1 * 2 * VALUES * 64)


def test_an_optimizer_with_two_moments_needs_a_vector_more():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    dataset = Dataset("none", images(10), images(5))
    sgd, adamw = (
        memory_needs(network, dataset, 7, optimizer=name)[0].bytes for name in ("sgd", "adamw")
    )
    assert adamw - sgd == 4 * network.packed_size
    assert set(MOMENTS) == set(OPTIMIZER_DEFAULTS)


def test_several_batches_per_step_need_a_vector_for_their_sum():
    network = Network("small", (2, 2, 1), (Dense("out", 3),))
    dataset = Dataset("none", images(10), images(5))
    one, two, three = (
        memory_needs(network, dataset, 7, iter_size=number)[0].bytes for number in (1, 2, 3)
    )
    assert two - one == 4 * network.packed_size
    assert three == two


@pytest.mark.parametrize(
    "name",
    ["lenet", "googlenet", "resnet-20", "resnet-50", "densenet-121", "mobilenet-v2", "vgg-16"],
)
def test_values_of_a_step_are_about_those_of_its_plan(name):
    network = NETWORKS[name]()
    planned = Plan(network, 16, operations("reference")).arena_bytes / (4 * 16)
    assert 0.98 < values_at_once(network) / planned < (1.6 if name == "lenet" else 1.15)


@pytest.mark.slow
def test_a_worker_takes_no_more_than_was_foreseen_and_much_of_it(tmp_path, run_toml, two_cores):
    path = tmp_path / "run.toml"
    path.write_text(run_toml)
    for place in json.loads((train(load_config(path)) / "placement.json").read_text())["workers"]:
        needed = place["asked"]["memory"]["need_bytes"]
        memory = place["got"]["memory"]
        taken = sum(memory["anonymous"].values()) + sum(memory["shared"].values())
        assert needed / 5 < taken <= needed
