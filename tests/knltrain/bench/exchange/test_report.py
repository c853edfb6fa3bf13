"""Rows, lines and what packing gains, from rounds that are known beforehand."""

import pytest

from knltrain.bench.exchange.contestants import OURS, all_reduce_by, soft_memory
from knltrain.bench.exchange.report import Measurement, lines, packing, rows

SYNC, AVERAGE, VISIT = OURS
GLOO, MPI = all_reduce_by("gloo"), all_reduce_by("mpi")


def measured(size, copy=(24.0, 24.0, 48.0), **seconds):
    return Measurement(size, seconds, copy)


def test_shares_and_ratios_are_medians_of_those_within_the_rounds():
    one = measured(4, sync_easgd=[1.0, 2.0, 4.0], gloo=[4.0, 4.0, 4.0], mpi=[1.0, 1.0, 8.0])
    sync, gloo, mpi = rows([one], [SYNC, GLOO, MPI], workers=2)
    assert (sync["seconds"], sync["least_seconds"]) == (2.0, 1.0)
    assert sync["rounds"] == [1.0, 2.0, 4.0]
    assert sync["memory_bytes"] == 4 * 6
    assert sync["share_of_copy"] == 0.5  # of 1, 0.5 and 0.125
    assert sync["faster_than"] == {"gloo": 2.0, "mpi": 1.0}
    assert gloo["faster_than"] == {"mpi": 0.25}  # of 0.25, 0.25 and 2
    assert gloo["memory_bytes"] == 4 * 4
    assert sync["gbytes_per_second"] == 4 / 2.0 / 1e9
    assert mpi["contestant"] == "mpi"


def test_times_are_predicted_from_the_other_sizes():
    sweep = [measured(size, gloo=[2.0 * size] * 3) for size in (1, 10, 100, 1000)]
    sweep[2] = measured(100, gloo=[800.0] * 3)
    predicted = [row["predicted_seconds"] for row in rows(sweep, [GLOO], 2)]
    assert predicted[2] == pytest.approx(200.0)
    assert predicted[3] == pytest.approx(800.0 * (800 / 20))
    assert rows(sweep[:2], [GLOO], 2)[0]["predicted_seconds"] is None


def test_visits_carry_a_vector_for_each_worker():
    center_locks = rows([measured(100, visit=[2.0] * 3)], [VISIT], workers=4)[0]
    assert center_locks["gbytes_per_second"] == pytest.approx(4 * 100 / 2 / 1e9)
    assert center_locks["memory_bytes"] == 16 * 100


def test_parts_of_an_exchange_are_compared_with_none_and_counted_for_who_took_part():
    contestants = soft_memory(6)
    names = [each.name for each in contestants]
    assert names[:2] == ["read, write by 2", "accumulate by 2"]
    assert [name.rpartition(" ")[2] for name in names] == ["2", "2", "4", "4", "6", "6"]
    both = measured(100, **{names[0]: [1.0] * 3, names[5]: [1.0] * 3, "gloo": [9.0] * 3})
    read_write, accumulate, _ = rows([both], [contestants[0], contestants[5], GLOO], 6)
    assert read_write["faster_than"] == accumulate["faster_than"] == {}
    assert read_write["gbytes_per_second"] == pytest.approx(2 * 2 * 100 / 1e9)
    assert (read_write["memory_bytes"], accumulate["memory_bytes"]) == (2 * 400, 6 * 300)


def test_lines_are_those_through_the_medians_of_what_exchanges():
    sweep = [
        measured(size, gloo=[9.0, 1 + size, 0.0], **{"read, write by 2": [1.0] * 3})
        for size in (2, 4)
    ]
    found = lines(sweep, [GLOO, soft_memory(2)[0]])
    assert found == {"gloo": {"alpha_seconds": pytest.approx(1), "beta_seconds": pytest.approx(1)}}
    assert lines(sweep[:1], [GLOO]) == {"gloo": None}


def test_packing_gains_what_the_latencies_of_the_layers_cost():
    sweep = [measured(size, gloo=[2 + size] * 3) for size in (1, 10)]
    sweep.append(measured(1000, gloo=[1.0] * 3))  # larger than the packed vector: another regime
    packed, layers = measured(30, gloo=[32.0, 16.0, 32.0]), measured(30, gloo=[36.0, 32.0, 48.0])
    (row,) = packing(packed, layers, [10, 10, 10], sweep, [GLOO, soft_memory(2)[0]])
    assert row["predicted_gain"] == pytest.approx(36 / 32)
    assert row["gain"] == 1.5  # of 1.125, 2 and 1.5
    assert (row["packed_seconds"], row["layers_seconds"]) == (32.0, 36.0)


def test_packing_is_not_predicted_from_one_size():
    packed = measured(30, gloo=[32.0] * 3)
    (row,) = packing(packed, packed, [15, 15], [measured(4096, gloo=[1.0] * 3)], [GLOO])
    assert (row["gain"], row["predicted_gain"]) == (1.0, None)
