from __future__ import annotations

import numpy as np
import pytest
from profiles.material import document, measure

from knltrain.profile.table import told


def rows(text: str, name: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(name)]


def test_each_stage_and_direction_has_a_row() -> None:
    text = told(document(measure(), measure(2.0)))
    forward, weights = rows(text, "conv ")
    assert forward[1:5] == ["forward", "convolution", "3x3", "winograd4"]
    assert forward[5] == "6.500"  # ms, the mean of both workers
    assert weights[1] == "backward-weights"
    assert "ok   operations against the network's" in text
    assert "% x communication efficiency" in text
    assert "persistent stragglers: worker 1 (computes" in text
    assert rows(text, "bn to conv")[0][3:] == [
        *("0.00", "0.01", "1.500", "4.500", "0.750", "2000.0"), "memory", "1",
    ]  # fmt: skip


def test_what_is_not_known_of_an_exchange_is_empty() -> None:
    found = document(measure(), measure())
    (part,) = found["exchanges"]
    part |= {"wire_bytes": None, "moving_seconds": None, "communication_intensity": None}
    part |= {"bound": None, "efficiency": None, "exchanged_bytes": None}
    assert rows(told(found), "bn to conv")[0][3:] == ["0.00", "3.000", "0.500"]


def test_a_profile_of_version_1_0_has_no_bytes_over_the_segment() -> None:
    found = document(measure(), measure())
    (part,) = found["exchanges"]
    part["wire_bytes"] = 0
    for key in ("exchanged_bytes", "bound", "bound_seconds", "efficiency"):
        del part[key]
    assert rows(told(found), "bn to conv")[0][3:] == ["0.00", "1.000", "3.000", "0.500", "2000.0"]


def test_rates_stand_beside_their_shares_of_the_machine() -> None:
    text = told(document())
    head, *_ = rows(text, "stage")
    assert " ".join(head).endswith("GFLOP/s of sgemm % GB/s of copy % FLOP/B bound of bound %")
    forward, _ = rows(text, "conv ")
    assert forward[7:] == ["2.1", "21", "0.0", "2", "91.0", "compute", "9"]
    (update,) = rows(text, "update")
    assert update[3:] == ["0.0", "0", "0.0", "2", "0.2", "memory", "2"]


def test_the_machine_at_its_best_is_told() -> None:
    own = measure()
    plain = told(document(own))
    assert "worker 0 at best: 10.0 GFLOP/s (sgemm), 1.0 GB/s (copy)\n" in plain
    figures = own.figures._replace(product_flops_per_second=2e10, link_bytes_per_second=1.25e8)
    text = told(document(own._replace(figures=figures)))
    assert "10.0 GFLOP/s (sgemm), 20.0 GFLOP/s (products of the run's precision)" in text
    assert "1.0 GB/s (copy), 0.12 GB/s (link)" in text


@pytest.mark.parametrize(("written", "is_apart"), [(0.0, False), (1.0, True)])
def test_where_the_increment_is_written_is_told(written: float, is_apart: bool) -> None:
    visits = np.array([1.0, 1.0, written, 1.0, 1e-3, 2e-3, written * 3e-3, 4e-3])
    text = told(document(measure()._replace(visits=visits), measure()))
    assert ("Twwi 3.000" in text) is is_apart
    assert ("Twwi is in Tulw" in text) is not is_apart


def test_the_longest_are_shown_and_the_others_summed() -> None:
    text = told(document(), 1)
    assert len(rows(text, "conv ")) == 1
    assert rows(text, "3 others")[0][2] == "4.875"


def test_one_worker_is_compared_with_none() -> None:
    text = told(document())
    assert "% x communication efficiency" not in text
    assert "spread" not in text
    assert "one worker: it waits for no other, so nothing is said of stragglers" in text
    assert "--workers 2 profiles two" in text


def test_of_many_workers_the_fastest_and_the_slowest_are_shown() -> None:
    text = told(document(*(measure(1 + rank / 10) for rank in range(20))))
    assert "4 workers between the fastest and the slowest are left out" in text
    shown = [int(row[0]) for row in rows(text, " ") if row[0].isdigit()]
    assert shown == [*range(8), *range(12, 20)]


def test_fewer_steps_than_were_asked_for_are_told() -> None:
    found = document(measure(), measure(steps=4))
    text = told({**found, "profile_steps": 6})
    assert "fewer steps than the 6 that were asked for: worker 1 took 4 until the run ended" in text
    for asked in ({}, {"profile_steps": 4}):
        assert "asked for" not in told({**found, **asked})
