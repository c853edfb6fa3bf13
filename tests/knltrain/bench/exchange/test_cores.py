from __future__ import annotations

import pytest

from affinity import allowed_cpus, physical_cores, read_topology
from knltrain.bench.exchange.cores import cores_of, groups_of
from knltrain.errors import ConfigError


def test_workers_have_cores_apart() -> None:
    topology, allowed = read_topology(), allowed_cpus()
    cores = len(physical_cores(topology, allowed))
    if cores < 2:
        pytest.skip("needs two cores")
    first, second = groups_of(topology, allowed, 2, 1)
    assert len({*first, *second}) == 2
    assert {*first, *second} <= set(allowed)
    assert [len(group) for group in cores_of(2)] == [cores // 2] * 2


@pytest.mark.parametrize("workers", [1, 1 << 20])
def test_fewer_than_two_workers_or_more_than_cores_are_refused(workers: int) -> None:
    with pytest.raises(ConfigError, match=f"--workers {workers}: expected at least 2, and at most"):
        cores_of(workers)


def test_workers_may_share_cores() -> None:
    cores = len(physical_cores(read_topology(), allowed_cpus()))
    if cores < 2:
        pytest.skip("needs two cores")
    assert cores_of(4, 2) == cores_of(2) * 2
    with pytest.raises(ConfigError, match="--workers-per-core 3: expected a number that divides"):
        cores_of(4, 3)
    with pytest.raises(ConfigError, match=r"--workers-per-core 4: .*leaves 2 cores at least"):
        cores_of(4, 4)


def test_the_option_that_was_given_is_named_and_the_way_out_if_there_is_one() -> None:
    many = 1 << 20
    with pytest.raises(
        ConfigError, match=f"--nodes {many}: .* 2 on each of .*a larger --workers-per"
    ):
        cores_of(many, 2, "--nodes")
    for given in ((many,), (1, 1)):
        with pytest.raises(ConfigError, match=r"allowed cpus$"):
            cores_of(*given)
