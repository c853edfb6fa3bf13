from __future__ import annotations

import os
import socket

import pytest

from knltrain.cluster.mpi_job import MpiJob, launched_mpi_job, telling_mpi


def test_a_process_without_variables_of_a_launcher_is_in_no_job():
    assert launched_mpi_job({}) is None
    assert launched_mpi_job({"PMI_RANK": "0"}) is None


def test_a_process_that_reaches_its_manager_is_in_the_job_of_its_launcher():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        values = {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": str(theirs.fileno())}
        found = launched_mpi_job(values)
    assert found == MpiJob("mpiexec or srun, by PMI", 1, 4)
    by_port = {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_PORT": "node1:4711"}
    assert launched_mpi_job(by_port) == found


@pytest.mark.parametrize("fd", ["4711", "x", ""])
def test_a_child_that_has_only_the_variables_of_its_parent_is_in_no_job(fd):
    assert launched_mpi_job({"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": fd}) is None


def test_a_file_that_is_no_socket_is_no_manager(tmp_path):
    with (tmp_path / "file").open("w") as file:
        values = {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": str(file.fileno())}
        assert launched_mpi_job(values) is None


def test_a_process_of_open_mpi_is_in_its_job():
    values = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}
    assert launched_mpi_job(values) == MpiJob("mpirun of Open MPI", 2, 3)


def test_an_mpi_library_is_told_of_our_manager_and_of_no_launcher(monkeypatch):
    launcher = {
        "PMI_RANK": "7",
        "PMI_PORT": "node1:1",
        "MPI_LOCALRANKID": "1",
        "I_MPI_HYDRA_UUID": "x",
        "I_MPI_PMI_LIBRARY": "libpmi2.so",
        "PMIX_RANK": "7",
    }
    kept = {"I_MPI_PIN": "1", "I_MPI_FABRICS": "shm"}
    for name, value in {**launcher, **kept}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PMI_FD", raising=False)
    before = dict(os.environ)
    with telling_mpi(2, 5, 9):
        told = {name: value for name, value in os.environ.items() if "PMI" in name}
        told = {name: value for name, value in told.items() if not name.startswith("I_MPI")}
        assert told == {"PMI_FD": "9", "PMI_RANK": "2", "PMI_SIZE": "5"}
        assert not set(launcher) - {"PMI_RANK"} & set(os.environ)
        assert all(os.environ[name] == value for name, value in kept.items())
    assert dict(os.environ) == before


@pytest.mark.parametrize("text", ["²", "9" * 5000, "99999999999", "-1"])
def test_what_is_no_number_of_a_launcher_makes_no_job(text):
    assert launched_mpi_job({"PMI_RANK": "0", "PMI_SIZE": "2", "PMI_FD": text}) is None
    assert launched_mpi_job({"OMPI_COMM_WORLD_RANK": text, "OMPI_COMM_WORLD_SIZE": "2"}) is None
