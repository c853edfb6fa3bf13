"""A short run, whole workers built from its configuration, and what they come to."""

from __future__ import annotations

import pytest

from knltrain.assembly import build_worker
from knltrain.assembly.teams import build_team
from knltrain.config import RunConfig


@pytest.fixture
def config():
    """config(a__b=c): five steps of LeNet on 32 digits, with b changed in table a."""

    def changed(**changes):
        tables = {
            "network": {"name": "lenet"},
            "data": {"name": "digits", "train_images": 32, "test_images": 20},
            "train": {"steps": 5, "batch": 16},
            "learning_rate": {"base": 0.01, "policy": "inv", "gamma": 0.1, "power": 0.75},
            "backend": {"name": "torch", "implementation": "reference"},
            "evaluation": {"every_epochs": 1.0},
        }
        for key, value in changes.items():
            table, _, name = key.rpartition("__")
            (tables.setdefault(table, {}) if table else tables)[name] = value
        return RunConfig.model_validate(tables)

    return changed


@pytest.fixture
def make_worker():
    """make_worker(config, run_folder, ...): the only worker of a run."""

    def make(configuration, run_folder, **options):
        team = build_team(configuration, (), 0)
        return build_worker(configuration, team, run_folder=run_folder, threads=1, **options)

    return make


@pytest.fixture
def run(make_worker):
    """run(config, run_folder, ...): parameters, model and optimizer state at the end of a run."""

    def finish(configuration, run_folder, **options):
        with make_worker(configuration, run_folder, **options) as worker:
            worker.run()
            state = [values.copy() for values in worker.optimizer.state.values()]
            return worker.parameters.copy(), worker.model.copy(), *state

    return finish
