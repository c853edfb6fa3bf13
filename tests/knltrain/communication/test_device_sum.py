"""Sums over the devices of a node, by gloo in place of a library of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from knltrain.communication.device_sum import check_library
from knltrain.errors import ConfigError
from tests.knltrain.ranks import Ranks, told_as_json

MEMBER = Path(__file__).with_name("sum_ranks.py")


def told(folder: Path, workers: int, scenario: str) -> list[list[object]]:
    commands = [
        [str(MEMBER), str(rank), str(workers), str(folder), scenario] for rank in range(workers)
    ]
    ranks = Ranks(commands)
    try:
        return [told_as_json(each.communicate(timeout=60)[0]) for each in ranks.processes]
    finally:
        ranks.end()


@pytest.mark.parametrize("workers", [2, 3])
def test_every_worker_has_the_sum(tmp_path: Path, workers: int) -> None:
    scale, ranks = workers**2, sum(range(workers))
    expected = [scale * (workers * value + ranks) for value in range(5)]
    assert told(tmp_path, workers, "sums") == [[expected]] * workers


def test_a_worker_that_has_ended_is_told_of(tmp_path: Path) -> None:
    _, (values, (kind, message)) = told(tmp_path, 2, "one ends")
    assert values
    assert kind == "PeerLost"
    assert "the sum over the devices of a node by 'gloo' failed" in message


def test_what_is_heard_of_others_meanwhile_ends_the_sum(tmp_path: Path) -> None:
    _, (values, said) = told(tmp_path, 2, "one is late")
    assert values
    assert said == ["worker 0 failed elsewhere"]


@pytest.mark.parametrize("kind", ["meta", "cuda", "xpu"])
def test_devices_without_a_library_are_refused(kind: str) -> None:
    available = torch.distributed.is_backend_available
    if (kind == "cuda" and available("nccl")) or (kind == "xpu" and available("xccl")):
        pytest.skip(f"this PyTorch has a library for '{kind}'")
    with pytest.raises(ConfigError, match=f"with devices '{kind}': PyTorch .* has no"):
        check_library(kind)
