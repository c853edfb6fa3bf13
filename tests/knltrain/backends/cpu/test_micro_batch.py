"""How many images go through the plan at a time: as asked, or as measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from seam.graphs import LENET, RESIDUAL

from knltrain.backends.cpu import micro_batch
from knltrain.backends.cpu.executor import Passes
from knltrain.backends.cpu.lowering import Algorithms
from knltrain.backends.cpu.micro_batch import check_micro_batch, make_passes
from knltrain.backends.loss import SoftmaxCrossEntropy
from knltrain.errors import ConfigError
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from vectorized_ops.implementations import Operations, operations
from vectorized_ops.numba.compiling import autotuning

SMALL = Network("small", (1, 1, 4), (Dense("out", 3),))

Candidates = Mapping[str, Callable[[], object]]


class Oracle:
    """Answers that a step takes as many seconds as `seconds` says, running it or not."""

    def __init__(self, seconds: dict[str, float], runs: bool) -> None:
        self.seconds, self.runs = seconds, runs
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, question: str, candidates: Candidates) -> SimpleNamespace:
        self.asked.append((question, list(candidates)))
        if self.runs:
            for run in candidates.values():
                run()
        seconds = {name: self.seconds[name] for name in candidates}
        return SimpleNamespace(name=min(seconds, key=lambda n: seconds[n]), seconds=seconds)


def asking(oracle: Oracle | None) -> Operations:
    found = operations("reference")
    found.chosen = oracle
    return found


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The images at a time of all passes whose memory was not let go of."""
    alive: list[int] = []

    class Counted:
        def __init__(
            self,
            network: Network,
            batch: int,
            images: int,
            ops: Operations,
            loss: SoftmaxCrossEntropy,
            algorithms: Algorithms,
        ) -> None:
            self._passes, self.images = (
                Passes(network, batch, images, ops, loss, algorithms),
                images,
            )
            self.loss_and_gradient = self._passes.loss_and_gradient
            self.forget = self._passes.forget
            alive.append(images)

        def release(self) -> None:
            self._passes.release()
            alive.remove(self.images)

    monkeypatch.setattr(micro_batch, "Passes", Counted)
    return alive


@pytest.mark.parametrize("asked", [1, 16, 19])
def test_slices_of_a_batch_that_is_normalised_over_are_refused(asked: int) -> None:
    expected = rf"backend\.micro_batch = {asked} .* 20 images .*layer 'stem' .*at 0, or give 20"
    with pytest.raises(ConfigError, match=expected):
        check_micro_batch(RESIDUAL, 20, asked)
    check_micro_batch(LENET, 20, asked)


@pytest.mark.parametrize("asked", [0, 20, 21, "auto"])
def test_whole_batches_may_be_normalised_over(asked: micro_batch.MicroBatch) -> None:
    check_micro_batch(RESIDUAL, 20, asked)


@pytest.mark.parametrize(("asked", "expected"), [(0, 50), (50, 50), (64, 50), (20, 20), (1, 1)])
def test_number_is_taken_as_it_is(asked: int, expected: int) -> None:
    oracle = Oracle({}, runs=False)
    passes, compared = make_passes(SMALL, 50, asked, asking(oracle))
    assert (passes.images, compared, oracle.asked) == (expected, [], [])
    passes.release()


@pytest.mark.parametrize("runs", [True, False], ids=["measured", "remembered"])
@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ({"100": 1, "64": 2}, 100),
        ({"100": 4, "64": 2, "32": 3}, 64),
        ({"100": 4, "64": 3, "32": 2, "16": 1}, 16),
    ],
)
def test_slices_are_halved_as_long_as_that_is_faster(
    taken: dict[str, float], expected: int, runs: bool, living: list[int]
) -> None:
    oracle = Oracle(taken, runs)
    passes, compared = make_passes(SMALL, 100, "auto", asking(oracle))
    assert passes.images == expected
    assert [names for _, names in oracle.asked] == [list(pair) for pair in pairwise(taken)]
    for found in compared:
        # MOST_STEPS steps of this small network were timed together.
        assert found == {name: taken[name] / micro_batch.MOST_STEPS for name in found}
    assert [list(found) for found in compared] == [names for _, names in oracle.asked]
    assert living == [expected]
    passes.release()


def test_batch_stays_whole_where_nothing_is_measured() -> None:
    oracle = Oracle({}, runs=False)
    for network, batch, known in ((SMALL, 31, oracle), (RESIDUAL, 64, oracle), (SMALL, 64, None)):
        passes, compared = make_passes(network, batch, "auto", asking(known))
        assert (passes.images, compared) == (batch, [])
        passes.release()
    assert not oracle.asked


def test_large_steps_are_timed_one_by_one_and_small_ones_together(
    monkeypatch: pytest.MonkeyPatch, living: list[int]
) -> None:
    counts = []
    for flops in (1.0, 3.5 * 32 * SMALL.training_flops_per_image, 1e18):
        monkeypatch.setattr(micro_batch, "TIMED_FLOPS", flops)
        candidates = micro_batch._Candidates(SMALL, 32, operations("reference"))
        step = Mock(return_value=0.0)
        monkeypatch.setattr(candidates.of(16), "loss_and_gradient", step)
        candidates.run(16)
        candidates.drop(16)
        counts.append(step.call_count)
    assert counts == [1, 3, micro_batch.MOST_STEPS]
    assert not living


def test_each_network_batch_and_option_is_a_question_of_its_own() -> None:
    oracle = Oracle({"32": 1, "64": 1, "16": 2}, runs=False)
    wider = Network("small", (1, 1, 4), (Dense("out", 4),))
    for network, batch, options in (
        (SMALL, 32, ""),
        (wider, 32, ""),
        (SMALL, 64, ""),
        (SMALL, 32, "other"),
    ):
        make_passes(network, batch, "auto", asking(oracle), options)[0].release()
    make_passes(SMALL, 32, "auto", asking(oracle))[0].release()
    questions = [question for question, _ in oracle.asked]
    assert len(set(questions)) == 4
    assert questions[-1] == questions[0]


@pytest.mark.slow
def test_numba_measures_and_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotuning, "CACHE_FOLDER", tmp_path)
    found = []
    for _ in range(2):
        passes, compared = make_passes(SMALL, 32, "auto", operations("numba", winograd=False))
        passes.release()
        found.append((passes.images, compared))
    assert found[1] == found[0]
    assert [list(seconds) for seconds in found[0][1]] == [["32", "16"]]
    assert len(list((tmp_path / "choices").iterdir())) == 1
