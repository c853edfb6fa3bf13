"""Which worker has which backend, and which device."""

from __future__ import annotations

import platform
import re
from types import SimpleNamespace

import pytest
import torch

from affinity import Placement
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from knltrain.assembly import check_names, check_run
from knltrain.assembly.own_backend import check_devices, with_own_backend
from knltrain.errors import ConfigError
from vectorized_ops.numba.emit import bfloat16


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(
        torch, "cuda", SimpleNamespace(is_available=lambda: True, device_count=lambda: 2)
    )


def told(config, rank, host="node1"):
    own = with_own_backend(config, rank, host).backend
    assert own.workers == ()
    return own.name, own.device, own.precision


def test_all_have_the_backend_of_the_table_unless_they_are_named(config):
    chosen = config(
        workers=4,
        backend={
            "name": "cpu",
            "workers": [
                {"ranks": "1", "name": "torch", "precision": "bfloat16"},
                {"ranks": "0-1,3", "name": "torch"},
            ],
        },
    )
    assert [told(chosen, rank) for rank in range(4)] == [
        ("torch", "cpu", "float32"),
        ("torch", "cpu", "bfloat16"),  # the first that fits counts
        ("cpu", "cpu", "float32"),
        ("torch", "cpu", "float32"),
    ]


def test_computers_are_named_by_patterns(config):
    named = {"hosts": "gpu*", "name": "torch"}
    chosen = config(workers=1, nodes=2, backend={"name": "cpu", "workers": [named]})
    assert told(chosen, 0, "gpu7")[0] == "torch"
    assert told(chosen, 1, "knl7")[0] == "cpu"


def test_patterns_that_name_no_computer_are_told(config):
    named = [{"hosts": "gpu*", "name": "torch"}, {"hosts": platform.node(), "name": "torch"}]
    chosen = config(workers=1, backend={"name": "cpu", "workers": named})
    (note,) = check_devices(chosen)
    assert note.startswith("backend.workers[0].hosts = 'gpu*': this computer is '")
    assert check_devices(chosen.model_copy(update={"nodes": 2})) == []
    assert note in check_run(chosen).notes


@pytest.mark.parametrize(
    ("some", "where"), [({}, "backend"), ({"ranks": "1"}, "backend.workers[0]")]
)
def test_a_precision_that_the_device_found_has_not_is_told(config, monkeypatch, some, where):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    asked = {"name": "torch", "device": "auto", "precision": "tf32"}
    backend = {"name": "cpu", "workers": [{**some, **asked}]} if some else asked
    chosen = config(workers=2, backend=backend)
    expected = f"{where}.precision = 'tf32' is of NVIDIA GPUs: on the device 'cpu' all is float32"
    assert check_devices(chosen) == [expected]
    assert expected in check_run(chosen).notes


def test_a_precision_that_the_device_found_has_is_not(config, two_gpus):
    backend = {"name": "torch", "device": "cuda", "precision": "tf32"}
    assert check_devices(config(workers=2, backend=backend)) == []


def test_each_worker_of_a_computer_gets_the_next_device(config, two_gpus):
    chosen = config(workers=2, nodes=2, backend__name="torch", backend__device="cuda")
    assert [told(chosen, rank)[1] for rank in range(4)] == ["cuda:0", "cuda:1"] * 2


def test_workers_share_as_many_devices_as_they_are_given_by_turns(config, two_gpus):
    shared = config(workers=4, backend__name="torch", backend__device="cuda", placement__gpus=2)
    assert [told(shared, rank)[1] for rank in range(4)] == ["cuda:0", "cuda:1"] * 2
    check_devices(shared)
    with pytest.raises(ConfigError, match=r"placement\.gpus = 3, backend\.device = 'cuda'"):
        check_devices(
            config(workers=4, backend__name="torch", backend__device="cuda", placement__gpus=3)
        )


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_turns_that_no_worker_takes_are_told(config, two_gpus, device):
    chosen = {"backend__name": "torch", "backend__device": device, "placement__gpus": 2}
    (note,) = check_devices(config(workers=2, **chosen))
    assert note.startswith(
        f"placement.gpus = 2: no worker takes a GPU by turns; their devices are {device}"
    )


def test_workers_with_a_device_are_counted_without_the_others(config, two_gpus):
    gpus = {"ranks": "1,3", "name": "torch", "device": "cuda"}
    chosen = config(workers=4, backend={"name": "cpu", "workers": [gpus]})
    assert [told(chosen, rank)[1] for rank in range(4)] == ["cpu", "cuda:0", "cpu", "cuda:1"]


def test_devices_are_looked_for_before_anything_starts(config, two_gpus):
    check_devices(config(workers=2, backend__name="torch", backend__device="cuda"))
    with pytest.raises(ConfigError, match="'cuda' with 4 workers on this computer: there are 2"):
        check_devices(config(workers=4, backend__name="torch", backend__device="cuda"))


def test_devices_of_some_workers_are_looked_for_on_one_computer(config):
    gpus = {"ranks": "1", "name": "torch", "device": "xpu:99"}
    alone = config(workers=2, backend={"name": "cpu", "workers": [gpus]})
    with pytest.raises(ConfigError, match=r"backend\.workers\[0\]\.device = 'xpu:99'"):
        check_devices(alone)
    check_devices(alone.model_copy(update={"nodes": 2}))  # rank 1 may be on the other one


@pytest.mark.parametrize("where", ["backend", "backend.workers[0]"])
def test_precision_that_the_processor_has_not_is_refused_before_anything_starts(
    config, monkeypatch, where
):
    monkeypatch.setattr(bfloat16, "IS_NATIVE", False)
    monkeypatch.setattr("affinity.read_topology", lambda: SimpleNamespace(isa=()))
    rounded = {"implementation": "numba", "precision": "bfloat16"}
    backend = rounded if where == "backend" else {"workers": [{"ranks": "1", **rounded}]}
    chosen = config(workers=2, backend={"name": "cpu", **backend})
    with pytest.raises(ConfigError, match=f"{re.escape(where)}.precision = 'bfloat16'.*no AVX512"):
        check_run(chosen)


def test_names_of_backends_are_known(config):
    some = [{"ranks": "1", "precision": "float32"}, {"ranks": "2", "name": "trch"}]
    with pytest.raises(ConfigError, match=r"unknown backend\.workers\[1\]\.name 'trch'.*'torch'"):
        check_names(config(workers=4, backend={"name": "cpu", "workers": some}))


def test_another_backend_leaves_the_keys_of_the_first_behind(config):
    backend = {"name": "torch", "engine": "ipex", "workers": [{"ranks": "1", "name": "cpu"}]}
    found = with_own_backend(config(workers=2, backend=backend), 1, "node1").backend
    assert (found.name, found.engine, found.implementation) == ("cpu", "eager", "numba")


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_worker_that_sees_its_own_gpu_first_takes_that(config, two_gpus, monkeypatch, device):
    place = Placement(1, (0,), 1, (0,), gpu="0000:01:00.0", visible_gpus=("GPU-1", "GPU-0"))
    monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(place))
    chosen = config(workers=2, backend__name="torch", backend__device=device)
    assert told(chosen, 1)[1] == "cuda:0"
