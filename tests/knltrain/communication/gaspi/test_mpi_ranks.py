"""Processes of a real MPI run keep the contract, through shared memory and over a network."""

import pytest

from .mpi_run import OVER_TCP, mpi_run, needs_mpi

CONTRACT = "tests.knltrain.communication.gaspi.contract"
FAULTS = "tests.knltrain.communication.gaspi.mpi_faults"


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("environment", [{}, OVER_TCP], ids=["shared memory", "tcp"])
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_keep_the_contract(ranks, environment):
    ended = mpi_run(ranks, CONTRACT, environment=environment)
    assert (ended.status, ended.lines) == (0, ["kept"]), ended.errors


@pytest.mark.slow
@needs_mpi
def test_data_arrive_while_the_target_computes():
    ended = mpi_run(2, FAULTS, "computes", environment=OVER_TCP)
    assert (ended.status, ended.lines) == (0, ["arrived"]), ended.errors


@pytest.mark.slow
@needs_mpi
def test_a_target_that_lets_nothing_progress_is_named():
    ended = mpi_run(2, FAULTS, "is_stopped", environment=OVER_TCP)
    assert ended.status != 0
    assert "ExchangeTimeout: queue 0 of rank 0: waited 0.5 s in vain for 1 posts" in ended.errors
    assert "write of 4000000 bytes with notification 0 = 1 to rank 1" in ended.errors
