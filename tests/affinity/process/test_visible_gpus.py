"""What CUDA_VISIBLE_DEVICES and its kin leave of a machine's GPUs."""

from __future__ import annotations

import pytest

from affinity.errors import PlacementError
from affinity.process.visible_gpus import visible_gpus
from affinity.topology import Gpu

UUIDS = "GPU-0f4dd6d5", "GPU-0f4e0000", "GPU-77aa0000", "GPU-88bb0000"


def _gpu(number: int, vendor: str = "NVIDIA", uuid: str = "") -> Gpu:
    return Gpu(f"0000:{number:02x}:00.0", vendor, "A100", uuid, 0, (0, 1), "told")


GPUS = tuple(_gpu(number, uuid=uuid) for number, uuid in enumerate(UUIDS))


def _seen(environment: dict[str, str]) -> list[int]:
    return [GPUS.index(gpu) for gpu in visible_gpus(GPUS, environment).gpus]


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": "1, 9, 0"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1,1,0"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
        ({"CUDA_VISIBLE_DEVICES": f"{UUIDS[3]},GPU-77"}, [3, 2]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0f4,GPU-77"}, []),
        ({"ROCR_VISIBLE_DEVICES": "0"}, [0, 1, 2, 3]),
        # Slurm with ConstrainDevices: the step's own numbers.
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "2,3"}, [2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_GPUS": "1,3"}, [1, 3]),
        # Slurm without: the machine's.
        ({"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_JOB_GPUS": "2,3"}, [2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": "2,3"}, [2]),
        ({"CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_GPUS": "0,1,2"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "3", "SLURM_JOB_GPUS": "2,3"}, [3]),
        ({"CUDA_VISIBLE_DEVICES": "5", "SLURM_JOB_GPUS": "2,3"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_GPUS": "gpu:a,b"}, [0, 1]),
    ],
)
def test_numbers_and_uuids_are_read_as_cuda_reads_them(
    environment: dict[str, str], seen: list[int]
) -> None:
    assert _seen(environment) == seen


def test_each_maker_has_a_variable_of_its_own() -> None:
    mixed = (_gpu(0), _gpu(1, "AMD"), _gpu(2, "Intel"), _gpu(3, "Intel"))
    environment = {"ZE_AFFINITY_MASK": "1.0", "ROCR_VISIBLE_DEVICES": ""}
    found = visible_gpus(mixed, environment)
    assert found.gpus == (mixed[0], mixed[3])
    assert found.said_by == ("ROCR_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK=1.0")


def test_what_hides_gpus_of_amd_counts_those_that_are_left() -> None:
    cards = tuple(_gpu(at, "AMD") for at in range(4))
    found = visible_gpus(cards, {"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "2,0"})
    assert found.gpus == (cards[1], cards[3])


def test_a_gpu_of_intel_counts_once_for_each_part_that_is_asked_for() -> None:
    cards = tuple(_gpu(at, "Intel") for at in range(2))
    found = visible_gpus(cards, {"ZE_AFFINITY_MASK": "0.0,0.1,1.0,1.1"})
    assert found.gpus == (cards[0], cards[0], cards[1], cards[1])


def test_a_container_is_served_those_alone_that_the_driver_tells() -> None:
    on_the_bus = (_gpu(0), _gpu(1, uuid="GPU-5"), _gpu(2))
    assert visible_gpus(on_the_bus, {}).gpus == on_the_bus[1:2]
    assert visible_gpus(on_the_bus[::2], {}).gpus == on_the_bus[::2]


def test_a_part_of_a_gpu_is_where_the_gpu_is() -> None:
    old = f"MIG-{UUIDS[1]}/2/0"
    found = visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": f"{old},MIG-5c6e"}).gpus
    assert [(gpu.address, gpu.uuid) for gpu in found] == [(GPUS[1].address, old), ("", "MIG-5c6e")]
    assert found[1].cpus == ()
    (alone,) = visible_gpus(GPUS[:1], {"CUDA_VISIBLE_DEVICES": "MIG-5c6e"}).gpus
    assert (alone.address, alone.uuid) == (GPUS[0].address, "MIG-5c6e")


def test_more_gpus_than_there_are_is_refused_with_who_hides_them() -> None:
    visible = visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": "0"})
    assert visible.first(1) == GPUS[:1]
    with pytest.raises(
        PlacementError, match=r"2 workers .* there is 1 GPU .*CUDA_VISIBLE_DEVICES=0"
    ):
        visible.first(2)
    with pytest.raises(
        PlacementError, match="1 worker with a GPU asked for, but there are no GPUs"
    ):
        visible_gpus((), {}).first(1)
