"""What is said of a training, by all rounds."""

from __future__ import annotations

import pytest

from knltrain.bench.nodes.rows import row, star_by_seasgd
from knltrain.bench.nodes.training import TrainingFigures
from knltrain.bench.nodes.trainings import SEASGD, STAR, trainings


def found(rate: float, communication: float) -> TrainingFigures:
    return TrainingFigures(
        rate, communication_seconds=communication, computing_seconds=1.0, step_seconds=2.0
    )


def test_a_training_is_compared_round_by_round() -> None:
    rounds = {
        "one-host": [TrainingFigures(100), TrainingFigures(50), TrainingFigures(10)],
        SEASGD: [found(50, 1.0)] * 3,
    }
    line = row(trainings()[SEASGD], rounds)
    assert line["efficiencies"] == [0.5, 1.0, 5.0]
    assert (line["efficiency"], line["of_one_host"]) == (1.0, "one-host")
    assert (line["communication_seconds"], line["communication_share"]) == (1.0, 0.5)
    assert row(trainings()["one-host"], rounds)["communication_share"] is None


def test_the_star_is_set_beside_seasgd() -> None:
    rounds = {SEASGD: [found(1, 1.0), found(1, 2.0)], STAR: [found(1, 5.0), found(1, 6.0)]}
    ratio = star_by_seasgd(rounds)
    assert ratio == {"median": pytest.approx(4.0), "of_rounds": [5.0, 3.0]}
    assert star_by_seasgd({SEASGD: rounds[SEASGD]}) is None
