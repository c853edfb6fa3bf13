"""The job that all contestants compute."""

import json

import numpy as np

from knltrain.bench.step.job import describe, write_job
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet18


def test_job_describes_every_layer_with_inputs_and_their_shapes(tmp_path):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["network"] == "lenet"
    assert [layer["type"] for layer in job["layers"]][:2] == ["Convolution", "MaxPooling"]
    assert job["layers"][0]["filters"] == 20
    assert job["layers"][0]["inputs"] == ["images"]
    assert job["layers"][1]["inputs"] == ["conv1"]
    assert job["layers"][1]["input_shapes"] == [[24, 24, 20]]
    assert job["outputs"] == [{"layer": "ip2", "weight": 1.0}]


def test_graph_with_its_losses_is_described():
    described = describe(googlenet())
    layers = {layer["name"]: layer for layer in described["layers"]}
    assert layers["inception_3a/output"]["inputs"][1] == "inception_3a/relu_3x3"
    assert layers["inception_3a/output"]["input_shapes"][3] == (28, 28, 32)
    assert layers["pool1/3x3_s2"]["ceil"] is True
    assert [(each["layer"], each["weight"]) for each in described["outputs"]] == [
        ("loss3/classifier", 1.0),
        ("loss1/classifier", 0.3),
        ("loss2/classifier", 0.3),
    ]


def test_parameters_are_described_by_layer_and_role():
    described = describe(resnet18())["parameters"]
    assert described[2] == {"name": "bn1.shift", "layer": "bn1", "role": "shift"}
    assert described[4]["role"] == "running_variance"


def test_same_seed_gives_the_same_batch_and_parameters(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_job(tmp_path / name, lenet(), batch=4, seed=7)
    a, b = (np.load(tmp_path / name / "arrays.npz") for name in ("a", "b"))
    described = json.loads((tmp_path / "a" / "job.json").read_text())["parameters"]
    assert set(a.files) == {"images_nhwc", "labels", *(spec["name"] for spec in described)}
    assert all(np.array_equal(a[name], b[name]) for name in a.files)
    assert a["images_nhwc"].dtype == np.float32
    assert a["labels"].max() < 10
