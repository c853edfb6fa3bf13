"""Two workers whose vectors live on devices end with the bits of two on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knltrain.assembly import build_method, build_network
from knltrain.config import load_config
from knltrain.exchange.strategies.node_memory import NodeMemory
from tests.knltrain.ranks import Ranks, told_as_json

MEMBER = Path(__file__).with_name("device_member.py")
RUN = """
workers = {workers}
network.name = "lenet"
train.steps = 7
train.batch = 16
data = {{ name = "digits", train_images = 48, test_images = 20 }}
learning_rate.base = 0.01
optimizer.name = "sgd"
backend = {{ name = "torch", implementation = "reference" }}
evaluation.every_epochs = 1
{more}
"""


def ends(folder: Path, place: str, workers: int) -> list[list[Any]]:
    """What each worker prints; the run lies in `folder`."""
    config = load_config(folder / "run.toml")
    (folder / place).mkdir()
    size = build_network(config).packed_size
    memory = NodeMemory(size, workers, build_method(config, workers), "memfd")
    fds = [memory.fds_of(rank) for rank in range(workers)]
    commands = [
        [str(MEMBER), str(folder), str(rank), place, *map(str, fds[rank])]
        for rank in range(workers)
    ]
    ranks = Ranks(commands, memory.all_fds)
    try:
        told = [told_as_json(each.communicate(timeout=120)[0]) for each in ranks.processes]
        assert [each.returncode for each in ranks.processes] == [0] * workers
    finally:
        ranks.end()
        memory.close()
    return told


@pytest.mark.parametrize(
    ("more", "workers"),
    [
        pytest.param('exchange.method = "sync_easgd3"', 2, id="swapped locals"),
        pytest.param(
            'exchange.method = "sync_easgd"\nexchange.communication_period = 3', 2, id="elastic"
        ),
        pytest.param(
            'exchange.method = "sync_sgd"\nbalance.shares = [10, 6]', 2, id="unequal shares"
        ),
        pytest.param('exchange.method = "layerwise_sgd"', 2, id="layer by layer"),
        pytest.param(
            'exchange.method = "layerwise_sgd"\nbalance.shares = [10, 6]\ntrain.iter_size = 2',
            2,
            id="parts of weighed sums",
        ),
        pytest.param(
            'exchange = { method = "sync_sgd", within_nodes = "device" }', 2, id="sums on devices"
        ),
        pytest.param(
            'exchange = { method = "sync_easgd2", within_nodes = "device" }',
            2,
            id="centers on devices",
        ),
        pytest.param(
            'exchange = { method = "shmcaffe_h", group_size = 2, communication_period = 3,'
            ' within_nodes = "device" }',
            2,
            id="a group on devices",
        ),
        pytest.param(
            'exchange = { method = "streaming_diloco", communication_period = 4, fragments = 2,'
            " delay_steps = 1, mixing = 0.5 }",
            2,
            id="fragments",
        ),
        pytest.param(
            'exchange = { method = "shmcaffe_h", group_size = 2, communication_period = 3 }',
            2,
            id="a group",
        ),
        pytest.param(
            'exchange = { method = "hierarchical_easgd", group_size = 2 }',
            4,
            id="centers of groups",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            'exchange = { method = "hierarchical_sgd", group_size = 2 }',
            4,
            id="means of groups",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_vectors_on_devices_change_no_bit(tmp_path: Path, more: str, workers: int) -> None:
    (tmp_path / "run.toml").write_text(RUN.format(workers=workers, more=more))
    here, there = (ends(tmp_path, place, workers) for place in ("host", "device"))
    assert all(here)
    assert [worker[0] for worker in here] == [worker[0] for worker in there]


@pytest.mark.slow
def test_means_of_models_on_devices_are_those_of_the_host_within_rounding(tmp_path: Path) -> None:
    """The host adds up differences from the first local, devices those from the old center."""
    more = 'exchange = { method = "hierarchical_sgd", group_size = 2, within_nodes = "device" }'
    (tmp_path / "run.toml").write_text(RUN.format(workers=4, more=more))
    here, there = (
        [(worker[0][1], *worker[1]) for worker in ends(tmp_path, place, 4)]
        for place in ("host", "device")
    )
    assert len({model for model, *_ in there}) == 1
    for (_, *expected), (_, *found) in zip(here, there, strict=True):
        assert found == pytest.approx(expected, rel=1e-6)
