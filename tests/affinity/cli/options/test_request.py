from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import pytest

from affinity.cli.options.request import (
    add_request_options,
    narrowed,
    request_from,
    with_gpus,
)
from affinity.errors import PlacementError
from affinity.placement.plan import Need, Request, Reserve
from affinity.process.allowed import AllowedResources
from affinity.topology import Gpu, Topology

Refusal = Callable[..., str]


def _options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_request_options(parser)
    return parser.parse_args(words)


def _with_gpus(machine: Topology, *words: str) -> Request:
    gpus = tuple(Gpu(f"0000:0{at}:00.0", "NVIDIA", "", f"GPU-{at}", 0, (), "") for at in range(3))
    options = _options(*words)
    return with_gpus(request_from(options), replace(machine, gpus=gpus), options)


def _request(*words: str) -> Request:
    return request_from(_options(*words))


def test_nothing_but_a_number_of_workers_is_the_default_request() -> None:
    assert _request("--workers", "4") == Request(workers=4)
    assert _request("--workers", "numa") == Request(workers="numa")


def test_every_option_reaches_the_request() -> None:
    words = (
        "--workers 3 --cores-per-worker 4 --threads-per-core 2 --strategy scatter --os-cores 1 "
        "--os-cpus 0,52 --communication-cores 2 --communication-on-siblings --data-cores 1 "
        "--policy split --memory hbm --need weights=1.5G@hbm --need data=?@dram --need other=64M"
    )
    assert _request(*words.split()) == Request(
        workers=3,
        cores_per_worker=4,
        threads_per_core=2,
        strategy="scatter",
        reserve=Reserve((0, 52), 1, 2, True, 1),
        policy="split",
        kind="hbm",
        needs=(
            Need("weights", 3 << 29, "hbm"),
            Need("data", None, "dram"),
            Need("other", 64 << 20, "best"),
        ),
    )


@pytest.mark.parametrize(
    ("words", "workers", "gpus"),
    [
        ("--workers 2", 2, 0),
        ("--workers 5 --gpu-workers 2 --gpu-host-cores 4", 5, 2),
        ("--workers 5 --gpu-workers all", 5, 3),
        ("--workers 2 --gpu-workers all", 2, 2),
        ("--gpu-workers all", 3, 3),
        ("--gpu-workers 2", 2, 2),
        ("--cpus-by-rank 0:1 --gpu-workers all", 2, 2),
        ("--workers fit --cores-per-worker 2 --gpu-workers all", 1, 3),
    ],
)
def test_the_first_workers_get_the_gpus(
    knights_landing: Topology, words: str, workers: int, gpus: int
) -> None:
    request = _with_gpus(knights_landing, *words.split())
    assert (request.workers, len(request.gpus)) == (workers, gpus)
    assert request.gpu_host_cores == (4 if "--gpu-host-cores" in words else None)


def test_gpus_are_those_that_the_environment_leaves(
    knights_landing: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    (gpu,) = _with_gpus(knights_landing, "--gpu-workers", "all").gpus
    assert gpu is not None
    assert gpu.uuid == "GPU-2"
    with pytest.raises(PlacementError, match="CUDA_VISIBLE_DEVICES=2"):
        _with_gpus(knights_landing, "--gpu-workers", "2")


def test_cpus_by_hand_need_no_number_of_workers() -> None:
    assert _request("--cpus-by-rank", "0-3:8,10") == Request(
        workers=2, cpus=((0, 1, 2, 3), (8, 10))
    )


def test_forgotten_number_of_workers_is_asked_for() -> None:
    with pytest.raises(PlacementError, match="how many workers\\? say --workers 4, or one for"):
        _request()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--workers", "numma"), "'numma' is neither a number nor one of core, tile, l3, numa, "
         "package, fit; did you mean numa?"),
        (("--workers", "-1"), "'-1' is neither a number nor one of core"),
        (("--workers", "9" * 5000), "is neither a number nor one of core"),
        (("--os-cores", "-1"), "'-1' is not a whole number, 0 or more"),
        (("--cores-per-worker", "four"), "'four' is not a whole number, 0 or more"),
        (("--cpus", "0-x"), "bad cpu list '0-x'"),
        (("--cpus", "9" * 5000), "no cpu has a number of"),
        (("--need", f"weights={'9' * 400}G"), "bad size '999"),
        (("--gpu-workers", "some"), "'some' is neither a number nor all"),
        (("--need", "weights"), "bad need 'weights': expected NAME=SIZE or NAME=SIZE@KIND"),
        (("--need", "=3G"), "bad need '=3G'"),
        (("--need", "weights=3Q"), "bad size '3Q'"),
        (("--need", "weights=3G@mcdram"), "best, hbm, dram"),
        (("--policy", "stirct"), "invalid choice: 'stirct'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_what_was_expected(
    words: tuple[str, str], reason: str, refusal: Refusal
) -> None:
    assert reason in refusal(add_request_options, *words)


def test_cpus_and_nodes_narrow_what_is_allowed(knights_landing: Topology) -> None:
    allowed = AllowedResources(cpus=tuple(range(100)), mems=(0, 7))
    options = _options("--workers", "1", "--cpus", "10-20", "--nodes", "1")
    assert narrowed(allowed, knights_landing, options) == AllowedResources(
        cpus=(18, 19, 20), mems=(0, 7), said_by=("--cpus 10-20", "--nodes 1")
    )


def test_narrowing_to_nothing_is_refused_naming_who_did_it(knights_landing: Topology) -> None:
    allowed = AllowedResources(cpus=(0, 1), said_by=("cgroup v2 /job: cpus 0-1",))
    with pytest.raises(PlacementError) as caught:
        narrowed(allowed, knights_landing, _options("--workers", "1", "--nodes", "3"))
    assert str(caught.value) == (
        "no cpus are left by cgroup v2 /job: cpus 0-1 and --nodes 3: allowed are 0-1; "
        "choose among these"
    )


def test_without_narrowing_all_that_is_allowed_stays(knights_landing: Topology) -> None:
    allowed = AllowedResources(cpus=(0, 1), mems=(0,))
    assert narrowed(allowed, knights_landing, _options("--workers", "1")) == allowed
