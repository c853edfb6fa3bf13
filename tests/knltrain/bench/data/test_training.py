from __future__ import annotations

import pytest

from knltrain.bench.data import training
from knltrain.bench.data.training import check_network, run_training_benchmark
from knltrain.bench.methods.one_run import RunFigures
from knltrain.config import RunConfig
from knltrain.errors import ConfigError, KnltrainError


def test_rates_are_medians_of_turns_and_cores_are_those_that_suffice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[RunConfig] = []

    def run(config: RunConfig) -> RunFigures:
        seen.append(config)
        rate = {"random": 100.0, "packed": 97.0}[config.data.name] + len(seen)
        return RunFigures({"images_per_second": rate, "data_share": 0.01 * len(seen)}, ())

    monkeypatch.setattr(training, "carry_out", run)
    found = run_training_benchmark("lenet", 32, 4, 5, 3, 51.0)
    assert [each.data.name for each in seen] == ["random", "packed"] * 3
    assert all(each.placement.data_cores == 1 and each.backend.threads == 1 for each in seen)
    first, second = (each.model_copy(update={"data": None}) for each in seen[:2])
    assert first == second
    assert found["images_per_second"] == {"synthetic": 103.0, "decoded": 101.0}
    assert found["share_of_synthetic"] == pytest.approx(101 / 103)
    assert found["data_share"] == pytest.approx(0.04)
    assert found["data_cores"] == 3


def test_a_run_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "carry_out", lambda _config: RunFigures({}, (), "no luck"))
    with pytest.raises(KnltrainError, match="training on synthetic pictures failed: no luck"):
        run_training_benchmark("lenet", 32, 4, 5, 1, 51.0)


@pytest.mark.parametrize(
    ("network", "batch", "refused"),
    [
        ("lenet", 32, r"--network lenet: has 1 channel"),
        ("lenett", 32, r"unknown network.name 'lenett'"),
        ("resnet-20", 257, r"--batch 257: expected 256 at most"),
    ],
)
def test_what_cannot_be_trained_is_refused(network: str, batch: int, refused: str) -> None:
    with pytest.raises(ConfigError, match=refused):
        check_network(network, batch)
