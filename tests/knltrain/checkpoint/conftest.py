"""Checkpoints of a tiny network, written and read."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.checkpoint.contents import RunIdentity, WorkerState
from knltrain.checkpoint.reader import load_checkpoint, load_worker_state
from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.exchange.transports.loopback import Loopback
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


@pytest.fixture
def tiny_network():
    return Network("tiny", (1, 1, 3), (Dense("out", 2),))


@pytest.fixture
def identity(tiny_network):
    """identity(**changes): of the run that the checkpoints below are of, but for changes."""

    def identity(network=tiny_network, workers=1, method="sync_easgd", seed=5):
        return RunIdentity(network, workers, method, seed)

    return identity


@pytest.fixture
def state(tiny_network):
    """state(step, rank): like no other worker's and no other step's."""

    def state(step, rank=0):
        center = ParameterVector(tiny_network)
        center.initialise(step)
        local = ParameterVector(tiny_network)
        local.initialise(100 * step + rank)
        optimizer = {"velocity": np.full_like(local.packed, step + rank / 8)}
        seconds = {"compute": 1.5 * step, "exchange": 0.1}
        return WorkerState(step, center.packed, local.packed, optimizer, seconds)

    return state


@pytest.fixture
def writer(tmp_path, tiny_network, identity):
    """writer(keep, transport): one that writes into `tmp_path`."""

    def writer(keep=2, transport=None):
        transport = transport or Loopback(tiny_network.packed_size)
        return CheckpointWriter(tmp_path, identity(workers=transport.workers), transport, keep)

    return writer


@pytest.fixture
def load_both(tiny_network, identity):
    """load_both(folder, example, rank, **changes): the checkpoint and a worker's state in it."""

    def load_both(folder, example, rank=0, **changes):
        checkpoint = load_checkpoint(folder, tiny_network)
        return checkpoint, load_worker_state(
            checkpoint, rank, identity=identity(**changes), optimizer_state=example.optimizer
        )

    return load_both
