"""Workers whose device is a GPU are placed beside it, as far as the machine tells of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from affinity import Gpu, Placement, Request, Topology, read_topology
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement
from knltrain.config import RunConfig
from knltrain.launch.gpus import most_on_gpus, with_gpus
from knltrain.launch.node_share import ALONE, NodeShare
from knltrain.launch.plan import asked_of, plan_run

TABLE = {"name": "torch", "device": "cuda"}


def _gpus(*vendors: str) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(f"0000:0{at}:00.0", vendor, "A100", f"GPU-{at}", 0, (), "told")
        for at, vendor in enumerate(vendors)
    )


FOUR = _gpus(*["NVIDIA"] * 4)


def _config(workers: int = 1, nodes: int = 1, **tables: Any) -> RunConfig:
    run = {
        "workers": workers,
        "nodes": nodes,
        "network": {"name": "lenet"},
        "data": {"name": "digits", "train_images": 128, "test_images": 20},
        "train": {"steps": 5, "batch": 120},
        "learning_rate": {"base": 0.01},
        **tables,
    }
    return RunConfig.model_validate(run)


def _machine(gpus: Sequence[Gpu]) -> Topology:
    return replace(read_topology(), gpus=tuple(gpus))


def _found(
    config: RunConfig, gpus: Sequence[Gpu] = FOUR, share: NodeShare = ALONE
) -> list[int | None]:
    request = Request(int(config.workers) // share.shares)
    found = with_gpus(request, config, _machine(gpus), share).gpus
    return [None if gpu is None else int(gpu.uuid[4:]) for gpu in found]


def test_each_worker_gets_the_next_gpu():
    chosen = _config(workers=3, backend=TABLE)
    assert _found(chosen) == [0, 1, 2]
    assert _found(chosen, FOUR[::-1]) == [3, 2, 1]


def test_workers_take_as_many_gpus_as_they_are_given_by_turns():
    two = {"backend": TABLE, "placement": {"gpus": 2}}
    assert _found(_config(workers=5, **two)) == [0, 1, 0, 1, 0]
    assert _found(_config(workers=1, **two)) == [0]
    some = {"name": "cpu", "workers": [{"ranks": "1,3,4", **TABLE}]}
    chosen = _config(workers=5, backend=some, placement={"gpus": 2})
    assert _found(chosen) == [None, 0, None, 1, 0]


def test_turns_go_on_over_the_shares_of_a_computer():
    two = _config(workers=4, backend=TABLE, placement={"gpus": 2})
    shares = [NodeShare(share=share, shares=2) for share in range(2)]
    assert [_found(two, FOUR, share) for share in shares] == [[0, 1], [0, 1]]


def test_more_turns_than_gpus_place_no_worker_beside_one():
    assert _found(_config(workers=4, backend=TABLE, placement={"gpus": 3}), FOUR[:2]) == []


def test_workers_on_the_host_get_none():
    assert _found(_config(workers=2)) == []
    some = {"name": "cpu", "workers": [{"ranks": "1,3", **TABLE}]}
    assert _found(_config(workers=4, backend=some)) == [None, 0, None, 1]


def test_a_device_with_a_number_is_shared():
    assert _found(_config(workers=2, backend={**TABLE, "device": "cuda:1"})) == [1, 1]


def test_kinds_of_devices_are_of_makers():
    mixed = _gpus("Intel", "AMD", "NVIDIA", "Intel")
    assert _found(_config(workers=1, backend=TABLE), mixed) == [2]
    assert _found(_config(workers=1, backend=TABLE), _gpus("Intel", "AMD")) == [1]
    assert _found(_config(workers=2, backend={**TABLE, "device": "xpu"}), mixed) == [0, 3]


@pytest.mark.parametrize(("found", "gpus"), [(None, []), (torch.device("cuda"), [0, 1])])
def test_the_accelerator_that_torch_finds_counts(monkeypatch, found, gpus):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: found)
    module = SimpleNamespace(is_available=lambda: True, device_count=lambda: 4)
    monkeypatch.setattr(torch, "cuda", module)
    assert _found(_config(workers=2, backend={**TABLE, "device": "auto"})) == gpus


def test_where_fewer_are_told_than_needed_torch_counts_them():
    assert _found(_config(workers=5, backend=TABLE)) == []
    assert _found(_config(workers=1, backend=TABLE), ()) == []


def test_shares_of_a_computer_take_turns_unless_each_sees_its_own_first(monkeypatch):
    chosen, second = _config(workers=4, backend=TABLE), NodeShare(share=1, shares=2)
    assert _found(chosen, share=second) == [2, 3]
    for share, own in ((second, (2, 3, 0, 1)), (NodeShare(share=3, shares=4), (3, 0, 1, 2))):
        uuids = tuple(f"GPU-{number}" for number in own)
        place = Placement(share.share, (0,), 1, (0,), gpu="its own", visible_gpus=uuids)
        monkeypatch.setenv(PLACEMENT_VARIABLE, encode_placement(place))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(uuids))
        assert _found(chosen, share=share) == list(own[: 4 // share.shares])


def test_ranks_on_several_computers_are_not_known_yet():
    second = NodeShare(node=1, nodes=2)
    assert _found(_config(workers=2, nodes=2, backend=TABLE), share=second) == [0, 1]
    some = {"name": "cpu", "workers": [{"ranks": "2", **TABLE}]}
    assert _found(_config(workers=2, nodes=2, backend=some), share=second) == []


def test_as_many_workers_as_gpus_are_found():
    assert most_on_gpus(_config(backend=TABLE), _machine(FOUR)) == 4
    assert most_on_gpus(_config(backend=TABLE), _machine(FOUR), NodeShare(shares=4)) == 1
    assert most_on_gpus(_config(backend=TABLE, placement={"gpus": 3}), _machine(FOUR)) == 3
    assert most_on_gpus(_config(backend=TABLE, placement={"gpus": 9}), _machine(FOUR)) == 4
    assert most_on_gpus(_config(backend=TABLE), _machine(_gpus("Intel"))) is None
    assert most_on_gpus(_config(backend=TABLE), _machine(())) is None
    assert most_on_gpus(_config(), _machine(FOUR)) is None


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("pin", [True, False])
def test_the_plan_of_a_run_has_them(monkeypatch, pin):
    module = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1)
    monkeypatch.setattr(torch, "cuda", module)
    machine = replace(read_topology(), gpus=FOUR)
    monkeypatch.setattr("knltrain.launch.plan.read_topology", lambda hbm: machine)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    some = {"name": "cpu", "workers": [{"ranks": "1", **TABLE}]}
    chosen = _config(workers=2, placement={"pin": pin, "gpu_host_cores": 1}, backend=some)
    plan = plan_run(chosen)
    assert [place.visible_gpus for place in plan.placements] == [(), ("GPU-2",)]
    told = [asked_of(plan.config, place).get("gpu") for place in plan.placements]
    assert told == [None, "0000:02:00.0"]
