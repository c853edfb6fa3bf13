from __future__ import annotations

import csv
import io

from profiles.material import REGIONS, document, measure

from knltrain.profile.rows import as_csv


def test_there_is_a_row_for_each_rank_and_stage() -> None:
    found = list(csv.DictReader(io.StringIO(as_csv(document(measure(), measure(2.0))))))
    assert len(found) == 2 * len(REGIONS)
    first, second = (each for each in found if each["direction"] == "backward_weights")
    assert (first["rank"], second["rank"]) == ("0", "1")
    assert float(second["rank_mean_s"]) == 2 * float(first["rank_mean_s"])
    assert first["algorithm"] == "direct"
    assert found[0]["executed_flops"] == ""
