"""The job that all contestants compute."""

import json

import numpy as np

from knltrain.bench.step.job import describe, write_job
from knltrain.network.zoo.googlenet import googlenet
from knltrain.network.zoo.lenet import lenet
from knltrain.network.zoo.resnet import resnet18


def test_job_describes_every_layer_with_inputs_and_modules(tmp_path):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["network"] == "lenet"
    first, second = (layer["modules"] for layer in job["layers"][:2])
    assert [each["name"] for each in (*first, *second)] == ["Conv2d", "MaxPool2d"]
    assert first[0]["arguments"]["out_channels"] == 20
    assert job["layers"][0]["inputs"] == ["images"]
    assert job["layers"][1]["inputs"] == ["conv1"]
    assert job["outputs"] == [{"layer": "ip2", "weight": 1.0}]


def test_graph_with_its_losses_is_described():
    described = describe(googlenet())
    layers = {layer["name"]: layer for layer in described["layers"]}
    assert layers["inception_3a/output"]["inputs"][1] == "inception_3a/relu_3x3"
    assert (layers["inception_3a/output"]["join"], layers["pool1/3x3_s2"]["join"]) == ("cat", None)
    (pooling,) = layers["pool1/3x3_s2"]["modules"]
    assert pooling["arguments"]["ceil_mode"] is True
    assert [(each["layer"], each["weight"]) for each in described["outputs"]] == [
        ("loss3/classifier", 1.0),
        ("loss1/classifier", 0.3),
        ("loss2/classifier", 0.3),
    ]


def test_an_evaluation_needs_what_leads_to_the_first_output(tmp_path):
    write_job(tmp_path, googlenet(), batch=1, seed=1, evaluates=True)
    job = json.loads((tmp_path / "job.json").read_text())
    names = {layer["name"] for layer in job["layers"]}
    assert job["outputs"] == [{"layer": "loss3/classifier", "weight": 1.0}]
    assert {spec["layer"] for spec in job["parameters"]} <= names
    assert "conv1/7x7_s2" in names
    assert not any(name.startswith(("loss1/", "loss2/")) for name in names)


def test_parameters_are_described_by_layer_and_what_pytorch_calls_them():
    described = describe(resnet18())["parameters"]
    assert described[2] == {"name": "bn1.shift", "layer": "bn1", "attribute": "bias"}
    assert described[4]["attribute"] == "running_var"


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
