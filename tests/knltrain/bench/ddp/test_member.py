"""The network that ranks train by DDP, and a rank's answers."""

from __future__ import annotations

import os
import re
import sys

import pytest

from knltrain.bench.ddp.member import fully_connected, inputs_of
from knltrain.bench.step.peer_process import PeerError, PeerProcess


def test_layers_are_those_of_vgg_at_its_own_width() -> None:
    import torch

    with torch.device("meta"):
        network = fully_connected(4096)
    shapes = [tuple(weights.shape) for weights in network.parameters()]
    assert shapes == [(4096, 25088), (4096,), (4096, 4096), (4096,), (1000, 4096), (1000,)]
    assert inputs_of(8) == 49


def _member(*arguments: str) -> PeerProcess:
    cpu = min(os.sched_getaffinity(0))
    environment = {"GLOO_SOCKET_IFNAME": "lo"}
    command = ["-m", "knltrain.bench.ddp.member", *arguments]
    return PeerProcess("it", command, [cpu], python=sys.executable, environment=environment)


@pytest.mark.slow
def test_a_rank_alone_trains_and_times_its_steps() -> None:
    with _member("0", "1", "gloo", "16", "4") as member:
        member.wait_ready()
        assert re.match(r"torch \d", member.ready["version"])
        member.ask({"do": "token"})
        member.ask({"do": "join", "token": member.answer()["token"]})
        assert member.answer() == {}
        member.ask({"do": "train", "steps": 3})
        losses = member.answer()["losses"]
        assert losses == sorted(losses, reverse=True)
        member.ask({"do": "run", "name": "", "operation": "step", "count": 2})
        times = member.answer()
        assert times["begin"] < times["end"]


@pytest.mark.slow
def test_a_backend_that_is_not_there_is_told() -> None:
    with _member("0", "1", "no-such-backend", "16", "4") as member:
        member.wait_ready()
        member.ask({"do": "token"})
        member.ask({"do": "join", "token": member.answer()["token"]})
        with pytest.raises(PeerError, match="no-such-backend"):
            member.answer()
