from __future__ import annotations

from typing import Any

import pytest

from affinity.errors import PlacementError
from affinity.placement.checks import check_request
from affinity.placement.plan import Need, Request, Reserve


@pytest.mark.parametrize("workers", [0, -2])
def test_less_than_one_worker_is_refused(workers: int) -> None:
    with pytest.raises(PlacementError, match=rf"^{workers} workers asked for: use --workers 1"):
        check_request(Request(workers))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"workers": "nmua"}, r"unknown unit .* 'nmua'.*did you mean 'numa'\?"),
        ({"strategy": "scater"}, r"unknown strategy 'scater'.*did you mean 'scatter'\?"),
        ({"policy": "spil"}, r"unknown memory policy 'spil'.*did you mean 'spill'\?"),
        ({"kind": "mcdram"}, r"unknown kind of memory 'mcdram': expected one of 'best', 'hbm'"),
        ({"needs": (Need("w", 1, "hmb"),)}, r"'hmb'.*did you mean 'hbm'\?"),  # type: ignore[arg-type]
    ],
)
def test_unknown_word_is_named_with_the_known_ones(words: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        check_request(Request(**words))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"cores_per_worker": 0}, "^0 cores per worker asked for: use 1 or more"),
        ({"threads_per_core": 0}, "^0 threads per core asked for: use 1 or more"),
        ({"reserve": Reserve(os_cores=-1)}, "^-1 cores kept for the system"),
        ({"reserve": Reserve(communication_cores=-1)}, "^-1 communication cores"),
        ({"reserve": Reserve(data_cores=-3)}, "^-3 data cores asked for: use 0 or more"),
        ({"needs": (Need("data", -1),)}, "need 'data' of -1 bytes"),
    ],
)
def test_number_too_small_is_refused(numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        check_request(Request(**numbers))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"policy": "split"}, "no needs are given"),
        ({"needs": (Need("w", 1), Need("w", 2))}, "need 'w' is given more than once"),
        ({"workers": 3, "cpus": ((0,), (1,))}, "workers 3 asked for, but cpus .* for 2"),
        ({"workers": "numa", "cpus": ((0,), (1,))}, "'numa' asked for, but cpus .* for 2"),
        ({"cores_per_worker": 2, "cpus": ((0, 1),)}, "leave one of the two out"),
        ({"policy": "cache", "kind": "hbm"}, "'hbm' asked for with policy 'cache'"),
        ({"policy": "none", "kind": "dram"}, "'dram' asked for with policy 'none'"),
        ({"reserve": Reserve(communication_on_siblings=True)}, "no number of communication"),
    ],
)
def test_contradiction_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        check_request(Request(**words))


@pytest.mark.parametrize(
    "request_",
    [
        Request("tile", policy="strict", kind="hbm"),
        Request(cpus=((0,), (1,))),
        Request(2, cpus=((0,), (1,)), policy="split", needs=(Need("w", None, "hbm"),)),
    ],
)
def test_sensible_request_passes(request_: Request) -> None:
    check_request(request_)
