"""The algorithm of each direction of a convolution."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import aligned_zeros, zeros_images_last
from vectorized_ops.numba import amx_permission, tuned_convolution
from vectorized_ops.numba.compiling import autotuning
from vectorized_ops.numba.compiling.autotuning import Choice
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.tuned_convolution import DIRECTIONS, TunedConvolution, _cost, cautious
from vectorized_ops.shapes import ConvolutionShape

SHAPE = ConvolutionShape(16, 8, 8, 8, 8, (3, 3), padding=(1, 1))


def answering(monkeypatch: pytest.MonkeyPatch, **answers: str) -> list[tuple[str, list[str]]]:
    """Let the measurement answer so; return what was asked."""
    asked: list[tuple[str, list[str]]] = []

    def chosen(question: str, candidates: dict[str, object], *_: object) -> Choice:
        asked.append((question, list(candidates)))
        return Choice(answers[question.split()[0]], {})

    monkeypatch.setattr(tuned_convolution, "chosen", chosen)
    return asked


def results(operation: TunedConvolution | Convolution) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    images, out = zeros_images_last(SHAPE.inputs), zeros_images_last(SHAPE.outputs)
    images[...], weights = rng.standard_normal(images.shape), rng.standard_normal(SHAPE.weights)
    back, weights_out = zeros_images_last(SHAPE.inputs), np.zeros(SHAPE.weights, np.float32)
    operation.forward(images, weights.astype(np.float32), None, out)
    operation.backward_data(out, weights.astype(np.float32), back)
    operation.backward_weights(images, out, weights_out, None)
    return [out, back, weights_out]


def test_each_direction_is_computed_by_what_was_chosen_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, forward="winograd4", backward_data="direct", backward_weights="direct")
    tuned = TunedConvolution(SHAPE)
    assert [tuned.choices[way].name for way in DIRECTIONS] == ["winograd4", "direct", "direct"]
    found, direct = results(tuned), results(Convolution(SHAPE))
    assert found[0].tobytes() != direct[0].tobytes()
    for value, expected in zip(found, direct, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-4 * np.abs(expected).max())


def test_candidates_are_asked_for_by_direction_and_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, **dict.fromkeys(DIRECTIONS, "direct"))
    TunedConvolution(SHAPE, ("direct", "winograd2"))
    assert [names for _, names in asked] == [["direct", "winograd2"]] * 3
    assert len({question for question, _ in asked}) == 3


@pytest.mark.parametrize("processor", ["znver4", "sapphirerapids"])
def test_choices_that_come_with_the_package_answer_what_is_asked(
    processor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = None if processor == "sapphirerapids" else "no AMX"
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: missing)
    shipped = autotuning.choices_in(autotuning.SHIPPED / f"{processor}.json")
    shapes = {question.partition(" ")[2] for question in shipped}
    assert len(shipped) > 50
    asked = answering(monkeypatch, **dict.fromkeys(DIRECTIONS, "direct"))
    for text in shapes:
        shape, of_bfloat16, _ = text.partition(" in bfloat16")
        made = eval(shape, {"ConvolutionShape": ConvolutionShape})
        TunedConvolution(made, kept=np.uint16 if of_bfloat16 else np.float32)
    candidates = dict(asked)
    assert all(len(candidates[question]) > 1 for question in shipped)
    assert all(name in candidates[question] for question, name in shipped.items())


def test_strassens_algorithm_is_a_candidate_for_single_taps_and_not_for_their_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = ConvolutionShape(32, 3, 3, 64, 64, (1, 1))
    answers = {"forward": "strassen", "backward_data": "strassen", "backward_weights": "direct"}
    asked = answering(monkeypatch, **answers)
    tuned = TunedConvolution(shape)
    both = ["direct", "strassen"]
    assert [names for _, names in asked] == [both, both, ["direct"]]
    assert {way: choice.name for way, choice in tuned.choices.items()} == answers
    assert tuned.gives_moments


@pytest.mark.parametrize(
    "shape",
    [
        ConvolutionShape(16, 8, 8, 8, 8, (3, 3), stride=(2, 2)),
        ConvolutionShape(16, 8, 8, 8, 8, (1, 1)),
        ConvolutionShape(16, 8, 8, 8, 8, (3, 3), groups=8),
    ],
)
def test_without_a_rival_nothing_is_measured(
    shape: ConvolutionShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch)
    assert TunedConvolution(shape).choices["forward"] == Choice("direct", {})
    assert TunedConvolution(SHAPE, ("direct",)).choices["forward"].name == "direct"
    assert not asked


def test_measured_for_real_every_direction_has_times_of_all_candidates() -> None:
    tuned = TunedConvolution(SHAPE, ("direct", "winograd2"))
    for choice in tuned.choices.values():
        assert set(choice.seconds) == {"direct", "winograd2"}
        assert min(choice.seconds.values()) > 0


@pytest.mark.slow
def test_what_was_measured_with_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ConvolutionShape(16, 32, 32, 64, 64, (3, 3), padding=(1, 1))

    def chosen(question: str, candidates: dict[str, Callable[[], None]], *_: object) -> Choice:
        for run in candidates.values():
            run()
        return Choice("winograd4", {})

    monkeypatch.setattr(tuned_convolution, "chosen", chosen)
    TunedConvolution(shape)  # to compile takes memory too
    tracemalloc.start()
    try:
        tuned = TunedConvolution(shape)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tuned.scratch_size > 1 << 17
    assert kept < 4 * tuned.scratch_size


def test_scratch_serves_all_that_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, forward="winograd4", backward_data="direct", backward_weights="direct")
    tuned = TunedConvolution(SHAPE)
    expected = results(tuned)
    memory = aligned_zeros((tuned.scratch_size,))
    memory[...] = np.nan
    tuned.use_scratch(memory)
    for value, found in zip(expected, results(tuned), strict=True):
        assert value.tobytes() == found.tobytes()


def test_unknown_algorithms_are_refused_by_name() -> None:
    with pytest.raises(OperationError, match=r"'fft'.*expected 'direct' and any of winograd2"):
        TunedConvolution(SHAPE, ("direct", "fft"))
    with pytest.raises(OperationError, match="expected 'direct'"):
        TunedConvolution(SHAPE, ("winograd2",))


@pytest.mark.parametrize("forward", ["direct", "winograd2"])
def test_moments_are_gathered_where_the_chosen_algorithm_can(
    monkeypatch: pytest.MonkeyPatch, forward: str
) -> None:
    answering(monkeypatch, forward=forward, backward_data="direct", backward_weights="direct")
    tuned = TunedConvolution(SHAPE)
    assert tuned.gives_moments == (forward == "direct")
    if tuned.gives_moments:
        images, out = zeros_images_last(SHAPE.inputs), zeros_images_last(SHAPE.outputs)
        images[...], weights = 2, np.ones(SHAPE.weights, np.float32)
        moments, (mean, variance) = tuned.moments(16), np.zeros((2, 8), np.float32)
        tuned.forward(images, weights, None, out, moments=moments)
        moments.write(mean, variance)
        np.testing.assert_allclose(mean, out.mean(axis=(0, 1, 2)), rtol=1e-6)
        np.testing.assert_allclose(variance, out.var(axis=(0, 1, 2)), rtol=1e-5)


def test_amx_is_a_candidate_in_bfloat16_where_the_processor_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: None)
    asked = answering(monkeypatch, **dict.fromkeys(DIRECTIONS, "amx"))
    shape = ConvolutionShape(32, 3, 3, 64, 64, (1, 1))
    tuned = TunedConvolution(shape, kept=np.uint16)
    assert [names for _, names in asked] == [["direct", "amx"]] * 3
    assert tuned.gives_moments
    few = ConvolutionShape(32, 3, 3, 8, 8, (1, 1), groups=2)
    for others in ({"shape": shape}, {"shape": few, "kept": np.uint16}):
        assert {it.name for it in TunedConvolution(**others, asked=DIRECT).choices.values()} == {
            "direct"
        }
    assert len(asked) == 3


DIRECT = dict.fromkeys(DIRECTIONS, "direct")


def test_amx_is_emulated_in_the_directions_that_ask_for_it_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: "no AMX")
    asked = answering(monkeypatch, backward_data="direct", backward_weights="winograd2")
    tuned = TunedConvolution(SHAPE, kept=np.uint16, asked={"forward": "amx"}, emulates=True)
    assert [tuned.choices[way].name for way in DIRECTIONS] == ["amx", "direct", "winograd2"]
    assert not any("amx" in names for _, names in asked)
    direct = TunedConvolution(SHAPE, asked=DIRECT, kept=np.uint16, emulates=True)
    assert {choice.name for choice in direct.choices.values()} == {"direct"}


@pytest.mark.parametrize(
    ("change", "kept", "said"),
    [
        ({}, np.float32, r"expected 'direct' or .*AMX multiplies bfloat16: .* backend.precision"),
        ({}, np.uint16, r"Linux says no; backend.emulate_bfloat16 = true computes"),
        ({"groups": 2}, np.uint16, r"groups of at least 16 channels"),
    ],
)
def test_why_amx_is_not_there_is_told(
    change: dict[str, int], kept: type, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: "Linux says no")
    with pytest.raises(OperationError, match=f"'amx' was asked for forward of .*{said}"):
        TunedConvolution(replace(SHAPE, **change), asked={**DIRECT, "forward": "amx"}, kept=kept)


def test_amx_that_may_not_be_chosen_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuned_convolution, "amx_missing", lambda: None)
    with pytest.raises(OperationError, match=r"expected 'direct'.*not among the algorithms"):
        TunedConvolution(SHAPE, ("direct",), {**DIRECT, "forward": "amx"}, np.uint16)


def test_amx_is_missing_in_other_processors_and_where_linux_refuses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for has, refusal, said in (
        (False, None, "this processor has no AMX (amx_tile, amx_bf16)"),
        (True, "arch_prctl says no", "AMX is refused: arch_prctl says no"),
        (True, None, None),
    ):
        monkeypatch.setattr(tuned_convolution, "target_has_amx", lambda it=has: it)
        monkeypatch.setattr(amx_permission, "amx_refusal", lambda it=refusal: it)
        assert tuned_convolution.amx_missing() == said


def test_many_products_of_a_value_are_expected_to_be_faster_by_amx() -> None:
    few, many = (
        ConvolutionShape(32, 8, 8, 256, count, (3, 3), padding=(1, 1)) for count in (1, 256)
    )
    turned = replace(few, channels=1, filters=256)
    for way, fewer in (("forward", few), ("backward_data", turned), ("backward_weights", turned)):
        slow, fast = (
            _cost(shape, "amx", way) / _cost(shape, "direct", way, 0.5) for shape in (fewer, many)
        )
        assert fast < 0.3 < slow, way


def test_backward_data_by_amx_is_expected_to_take_all_taps_unless_filters_fill_tiles() -> None:
    plain = ConvolutionShape(32, 8, 8, 64, 48, (2, 2), (1, 1), (1, 1))
    strided = replace(plain, stride=(2, 2))
    for way, is_the_same in (("forward", False), ("backward_data", True)):
        times = {_cost(shape, "amx", way) for shape in (plain, strided)}
        assert (len(times) == 1) is is_the_same
    single, strided = (
        ConvolutionShape(32, 8, 8, 64, 48, (1, 1), (stride, stride)) for stride in (1, 2)
    )
    ratio = _cost(single, "amx", "backward_data") / _cost(strided, "amx", "backward_data")
    assert ratio == 4
    whole = ConvolutionShape(32, 8, 8, 64, 64, (3, 3), (2, 2), (1, 1))
    assert _cost(whole, "amx", "backward_data") == _cost(whole, "amx", "forward")


def test_amx_is_measured_against_the_fastest_other_however_fast_it_is_expected_to_be() -> None:
    shape = ConvolutionShape(32, 8, 8, 512, 512, (3, 3))
    expected = {name: _cost(shape, name, "forward", 0.5) for name in ("direct", "winograd2", "amx")}
    tried = autotuning._worth_trying(dict.fromkeys(expected, lambda: None), cautious(expected))
    assert list(tried) == ["winograd2", "amx"]
    slow = {"direct": 2.0, "amx": 9.0}
    assert cautious(slow) == slow


def test_algorithms_that_bfloat16_has_not_are_named() -> None:
    shape = ConvolutionShape(32, 8, 8, 64, 64, (1, 1))
    with pytest.raises(OperationError, match=r"'strassen' .* in bfloat16: expected 'direct'"):
        TunedConvolution(shape, asked={"forward": "strassen"}, kept=np.uint16)
