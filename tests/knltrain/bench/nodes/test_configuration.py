"""The configuration of a training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knltrain.assembly import build_dataset, build_network
from knltrain.bench.nodes.configuration import configuration
from knltrain.bench.nodes.training import Ground
from knltrain.config import RunConfig, load_config

HOSTS: Any = None
GROUND = Ground(HOSTS, [[0], [1], [0], [1]], "lenet", Path(), batch=8, steps=5, trace_steps=2)


def loaded(folder: Path, ground: Ground, nodes: int = 4) -> RunConfig:
    file = folder / "run.toml"
    file.write_text(configuration(ground, nodes, 'method = "sync_sgd"'))
    return load_config(file)


@pytest.mark.parametrize("network", ["lenet", "cifar-quick", "resnet-18"])
def test_images_fit_the_network(tmp_path: Path, network: str) -> None:
    config = loaded(tmp_path, replace(GROUND, network=network))
    assert build_dataset(config).train.image_shape == build_network(config).input_shape


def test_a_step_more_than_is_timed_is_taken_by_all(tmp_path: Path) -> None:
    config = loaded(tmp_path, GROUND)
    assert (config.workers, config.train.batch, config.train.steps) == (1, 32, 6)
    assert config.train.trace_steps == 2
    assert loaded(tmp_path, GROUND, nodes=1).workers == 4


def test_workers_that_share_cores_are_not_pinned(tmp_path: Path) -> None:
    assert not loaded(tmp_path, GROUND).placement.pin
    assert loaded(tmp_path, replace(GROUND, groups=[[0], [1]]), nodes=2).placement.pin
