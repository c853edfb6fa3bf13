from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from vectorized_ops.channels_last.convolution import Convolution
from vectorized_ops.channels_last.tuned_convolution import TunedConvolution
from vectorized_ops.channels_last.winograd_convolution import WinogradConvolution
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import tuned_convolution
from vectorized_ops.numba.compiling.autotuning import Choice
from vectorized_ops.numba.tuned_convolution import DIRECTIONS
from vectorized_ops.shapes import ConvolutionShape

SHAPE = ConvolutionShape(3, 8, 8, 16, 32, (3, 3), padding=(1, 1))
MIXED = {"forward": "winograd4", "backward_data": "direct", "backward_weights": "winograd2"}


def answering(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, str]
) -> list[tuple[str, list[str]]]:
    """Let the measurement answer so; return what was asked."""
    asked: list[tuple[str, list[str]]] = []

    def chosen(question: str, candidates: dict[str, object], *_: object) -> Choice:
        asked.append((question, list(candidates)))
        return Choice(answers[question.split()[0]], {})

    monkeypatch.setattr(tuned_convolution, "chosen", chosen)
    return asked


def results(operation: TunedConvolution | Convolution | WinogradConvolution) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    images, gradient, weights = (
        rng.standard_normal(size).astype(np.float32)
        for size in (SHAPE.inputs, SHAPE.outputs, SHAPE.weights)
    )
    out, back, weights_out = np.zeros_like(gradient), np.zeros_like(images), np.zeros_like(weights)
    operation.forward(images, weights, None, out)
    operation.backward_data(gradient, weights, back)
    operation.backward_weights(images, gradient, weights_out, None)
    return [out, back, weights_out]


def test_each_direction_is_computed_by_what_was_chosen_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = answering(monkeypatch, MIXED)
    tuned = TunedConvolution(SHAPE)
    assert {way: choice.name for way, choice in tuned.choices.items()} == MIXED
    assert [names for _, names in asked] == [["direct", "winograd2", "winograd4"]] * 3
    assert [question.split()[0] for question, _ in asked] == list(DIRECTIONS)
    assert all("channels_last" in question for question, _ in asked)
    assert not tuned.gives_moments
    found, direct = results(tuned), results(Convolution(SHAPE))
    same = [a.tobytes() == b.tobytes() for a, b in zip(found, direct, strict=True)]
    assert same == [False, True, False]
    for value, expected in zip(found, direct, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-4 * np.abs(expected).max())
    for way, outputs in ((0, 4), (2, 2)):
        own = results(WinogradConvolution(SHAPE, outputs))[way]
        assert found[way].tobytes() == own.tobytes()


def test_scratch_serves_all_that_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, MIXED)
    tuned = TunedConvolution(SHAPE)
    expected = results(tuned)
    memory = aligned_zeros((tuned.scratch_size,))
    memory[...] = np.nan
    tuned.use_scratch(memory)
    for value, found in zip(expected, results(tuned), strict=True):
        assert value.tobytes() == found.tobytes()


@pytest.mark.parametrize(
    ("shape", "algorithms"),
    [
        (ConvolutionShape(3, 8, 8, 16, 16, (3, 3), stride=(2, 2)), None),
        (ConvolutionShape(3, 8, 8, 16, 16, (1, 1)), None),
        (ConvolutionShape(3, 8, 8, 17, 16, (3, 3)), None),
        (SHAPE, ("direct",)),
    ],
)
def test_without_a_rival_nothing_is_measured(
    shape: ConvolutionShape, algorithms: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch, {})
    options = {} if algorithms is None else {"algorithms": algorithms}
    assert TunedConvolution(shape, **options).choices["forward"] == Choice("direct", {})
    assert not asked


def test_what_was_asked_for_is_taken_and_what_is_not_there_refused() -> None:
    asked = dict.fromkeys(DIRECTIONS, "winograd2")
    choices = TunedConvolution(SHAPE, asked=asked).choices
    assert {choice.name for choice in choices.values()} == {"winograd2"}
    with pytest.raises(OperationError, match=r"'strassen' was asked for .* in channels_last"):
        TunedConvolution(SHAPE, asked={**asked, "forward": "strassen"})
    with pytest.raises(OperationError, match=r"'amx'.* in channels_last: expected 'direct' or"):
        TunedConvolution(SHAPE, asked={**asked, "forward": "amx"})


@pytest.mark.parametrize("algorithms", [("winograd2",), ("direct", "strassen")])
def test_unknown_algorithms_are_refused_by_name(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(OperationError, match="expected 'direct' and any of winograd2, winograd4"):
        TunedConvolution(SHAPE, algorithms)


def test_measured_for_real_every_direction_has_times_of_all_candidates() -> None:
    for choice in TunedConvolution(SHAPE, ("direct", "winograd2")).choices.values():
        assert set(choice.seconds) == {"direct", "winograd2"}
        assert min(choice.seconds.values()) > 0
