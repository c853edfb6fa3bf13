"""The job that all contestants compute."""

import json

import numpy as np

from knltrain.bench.job import write_job
from knltrain.network.lenet import lenet


def test_job_describes_every_layer_with_its_input_shape(tmp_path):
    write_job(tmp_path, lenet(), batch=4, seed=1)
    job = json.loads((tmp_path / "job.json").read_text())
    assert [layer["type"] for layer in job["layers"]][:2] == ["Convolution", "MaxPooling"]
    assert job["layers"][0]["filters"] == 20
    assert job["shapes"][0] == [28, 28, 1]
    assert len(job["shapes"]) == len(job["layers"]) + 1


def test_same_seed_gives_the_same_batch_and_parameters(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_job(tmp_path / name, lenet(), batch=4, seed=7)
    a, b = (np.load(tmp_path / name / "arrays.npz") for name in ("a", "b"))
    assert set(a.files) == {
        "images_nhwc",
        "labels",
        *json.loads((tmp_path / "a" / "job.json").read_text())["parameters"],
    }
    assert all(np.array_equal(a[name], b[name]) for name in a.files)
    assert a["images_nhwc"].dtype == np.float32
    assert a["labels"].max() < 10
