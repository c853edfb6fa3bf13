from __future__ import annotations

import csv
import io

import pytest
from profiles.material import REGIONS, document, measure

from knltrain.profile.rows import as_csv

TOLD = document(measure(), measure(2.0))


def rows(record: str) -> list[dict[str, str]]:
    found = csv.DictReader(io.StringIO(as_csv(TOLD)))
    return [each for each in found if each["record"] == record]


def test_there_is_a_row_for_each_rank_and_stage() -> None:
    found = rows("stage")
    assert len(found) == 2 * len(REGIONS)
    first, second = (each for each in found if each["direction"] == "backward_weights")
    assert (first["rank"], second["rank"]) == ("0", "1")
    assert float(second["rank_mean_s"]) == 2 * float(first["rank_mean_s"])
    assert float(first["rank_spread"]) == pytest.approx(2 / 3)
    assert (first["algorithm"], first["layers"]) == ("direct", "conv relu")
    stage = TOLD["stages"][2]
    assert float(first["flops_per_second"]) == stage["flops_per_second"]
    assert float(first["share_of_sgemm"]) == stage["share_of_sgemm"]
    assert found[0]["executed_flops"] == ""


def test_stages_and_parts_of_a_rank_add_up_to_the_step() -> None:
    """The rows of a rank, and those of all ranks."""
    found = [each for each in (*rows("stage"), *rows("part")) if each["rank"] in ("", "0")]
    whole = sum(float(each["mean_s"]) for each in found)
    assert whole == pytest.approx(TOLD["step_seconds"]["mean"])
    waiting = [each for each in rows("part") if each["name"] == "waiting"]
    assert [each["rank"] for each in waiting] == ["0", "1"]


def test_updates_have_their_layer_and_exchanges_their_bytes_and_times() -> None:
    assert [(each["name"], each["layers"]) for each in rows("update")] == [
        ("conv", "conv"),
        ("bn", "bn"),
    ]
    (part,) = rows("exchange")
    exchange = TOLD["exchanges"][0]
    assert (part["layers"], part["packed_bytes"], part["wire_bytes"]) == ("conv bn", "4000", "9000")
    times = [float(part[f"{name}_s"]) for name in ("moving", "issued", "exposed")]
    assert times == [exchange[f"{name}_seconds"] for name in ("moving", "issued", "exposed")]
    assert part["bound"] == exchange["bound"]
