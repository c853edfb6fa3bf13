from __future__ import annotations

import copy
import gc
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from vectorized_ops.torch import OptimizationWarning, _passes, _reads, fusion_of, optimize
from vectorized_ops.torch._classes import passes_of
from vectorized_ops.torch._snapshots import snapshot
from vectorized_ops.torch._tracer import Tracer
from vectorized_ops.torch._tracing import trace

IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Weighted(nn.Module):
    """Takes a parameter and a buffer itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.slope = nn.Conv2d(3, 4, 3), nn.Parameter(torch.ones(1))
        self.register_buffer("shift", torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.conv(images)) * self.slope + self.shift


def test_tensors_in_the_place_of_others_are_taken_without_following(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = optimize(Weighted(), keep_memory=False), Weighted()
    ours(IMAGES)
    monkeypatch.setattr("vectorized_ops.torch._passes.trace", None)
    for factor in (2.0, 3.0):
        given = {name: factor * value.detach() for name, value in theirs.named_parameters()}
        given = {name: value.requires_grad_() for name, value in given.items()}
        found = functional_call(ours, given, (IMAGES,))
        torch.testing.assert_close(found, functional_call(theirs, given, (IMAGES,)))
        (slope,) = torch.autograd.grad(found.sum(), given["slope"])
        assert slope.abs() > 0
    torch.testing.assert_close(ours(IMAGES), theirs(IMAGES))
    ours.slope, ours.shift = nn.Parameter(torch.full((1,), 5.0)), torch.ones(1)
    theirs.slope, theirs.shift = ours.slope, ours.shift
    torch.testing.assert_close(ours(IMAGES), theirs(IMAGES))


def test_a_copy_follows_its_own_passes() -> None:
    model = optimize(Weighted(), keep_memory=False)
    other = copy.deepcopy(model)
    assert passes_of(other) is not passes_of(model)
    assert fusion_of(other).operations == {}
    other(IMAGES)
    assert fusion_of(other).operations == fusion_of(model).operations


class Sharing(nn.Module):
    """Blocks that read the same numbers."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(5))
        for block in self.blocks:
            block.settings = settings

    def forward(self, images: Tensor) -> Tensor:
        for block in self.blocks:
            images = images * block.settings.factor
        return images


def test_numbers_that_blocks_share_are_looked_at_once_in_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = SimpleNamespace(factor=2.0)
    model = optimize(Sharing(settings), keep_memory=False)
    model(IMAGES)
    seen: list[Any] = []

    def counted(value: Any) -> Any:
        seen.append(value)
        return snapshot(value)

    monkeypatch.setattr(_reads, "snapshot", counted)
    torch.testing.assert_close(model(IMAGES), 32 * IMAGES)
    assert sum(value is settings for value in seen) == 1
    monkeypatch.undo()
    settings.factor = 1.0
    torch.testing.assert_close(model(IMAGES), IMAGES)


class Unwilling(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise RuntimeError("nobody looks into this")


def test_values_that_cannot_be_looked_at_end_no_call() -> None:
    settings = SimpleNamespace(factor=2.0)
    model = optimize(Sharing(settings), keep_memory=False)
    model(IMAGES)
    settings.more = Unwilling(a=1)
    with pytest.warns(OptimizationWarning, match="nobody looks into this"):
        torch.testing.assert_close(model(IMAGES), 32 * IMAGES)


def test_threads_follow_one_after_the_other() -> None:
    models, interval = [Weighted() for _ in range(24)], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            models = list(pool.map(lambda model: optimize(model, keep_memory=False), models))
    finally:
        sys.setswitchinterval(interval)
    assert {fusion_of(model).refused for model in models} == {""}
    assert "__getattribute__" not in nn.Module.__dict__


def test_threads_call_models_while_one_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    following, go_on = threading.Event(), threading.Event()
    ours, theirs = optimize(Weighted(), keep_memory=False), Weighted()
    expected, is_leaf = theirs(IMAGES), Tracer.is_leaf_module

    def slow(*given: Any) -> bool:
        following.set()
        go_on.wait(30)
        return is_leaf(*given)

    monkeypatch.setattr(Tracer, "is_leaf_module", slow)
    with ThreadPoolExecutor(2) as pool:
        follows = pool.submit(optimize, Weighted(), keep_memory=False)
        try:
            assert following.wait(30)
            assert torch.equal(theirs(IMAGES), expected)
            called = pool.submit(ours, IMAGES)
        finally:
            go_on.set()
    assert not fusion_of(follows.result()).refused
    for found in (called.result(), ours(IMAGES), follows.result()(IMAGES)):
        torch.testing.assert_close(found, expected)


def test_what_another_thread_follows_is_not_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, followed = optimize(Weighted(), keep_memory=False), []
    expected = model(IMAGES)
    together = threading.Barrier(4)

    def slow(*given: Any) -> Any:
        followed.append(given)
        time.sleep(0.05)
        return trace(*given)

    monkeypatch.setattr(_passes, "trace", slow)
    model.eval()

    def call(_number: int) -> Tensor:
        together.wait(30)
        return model(IMAGES)

    with ThreadPoolExecutor(4) as pool:
        for out in pool.map(call, range(4)):
            torch.testing.assert_close(out, expected)
    assert len(followed) == 1


class Undecided(nn.Module):
    """Cannot be followed, and reads another number every time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        return images if images.sum() > 0 else images * self.calls


def test_a_pass_that_cannot_be_followed_is_tried_a_few_times_and_warned_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.warns(OptimizationWarning):
        model = optimize(Undecided(), keep_memory=False)
    tried: list[Any] = []

    def counted(*given: Any) -> Any:
        tried.append(given)
        return trace(*given)

    monkeypatch.setattr(_passes, "trace", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            model(-IMAGES.abs())
    assert model.calls == 10
    assert len(tried) == 2


def test_not_more_than_a_few_kinds_of_calls_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_passes, "_MOST_KEPT", 4)
    model: Any = optimize(Weighted(), keep_memory=False)
    convolutions = [nn.Conv2d(3, 4, 1) for _ in range(8)]
    for model.conv in convolutions:
        model(IMAGES)
    assert len(passes_of(model)._kinds) == 4


def test_a_layer_that_was_replaced_goes() -> None:
    """Also before the next call, as in the plain model."""
    model: Any = optimize(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), keep_memory=False)
    model(IMAGES)
    for images in (IMAGES, None):
        old = weakref.ref(model[0])
        model[0] = nn.Conv2d(3, 4, 3)
        if images is not None:
            model(images)
        gc.collect()
        assert old() is None
    model(IMAGES)
    assert len(passes_of(model)._kinds) == 1


def test_the_model_goes() -> None:
    model: Any = optimize(Weighted(), keep_memory=False)
    model(IMAGES)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class GivenArguments(nn.Module):
    def forward(self, images: Tensor, alpha: float = 1.0, *more: Any, step: int = 0) -> Tensor:
        return torch.relu(images) * alpha + sum(more) * step


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("alpha", lambda model, number: model(IMAGES, 0.1 * number)),
        ("step", lambda model, number: model(IMAGES, 2.0, 1, step=number)),
        ("more", lambda model, number: model(IMAGES, 2.0, number, step=2)),
        ("more", lambda model, number: model(IMAGES, 2.0, 1, number, step=2)),
    ],
)
def test_an_argument_that_always_changes_is_followed_no_more(
    name: str, given: Callable[[Any, int], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs, tried = optimize(GivenArguments(), keep_memory=False), GivenArguments(), []

    def counted(*what: Any) -> Any:
        tried.append(what)
        return trace(*what)

    monkeypatch.setattr(_passes, "trace", counted)
    with pytest.warns(OptimizationWarning, match=f"followed no more: it is given {name}, which"):
        for number in range(40):
            assert torch.equal(given(ours, number), given(theirs, number))
    assert len(tried) == 24
    assert given(ours, 3) is not None
    assert len(tried) == 24
    passes = passes_of(ours)
    assert sum(len(kind.known) for kind in passes._kinds.values()) <= 25


def test_a_pass_that_served_many_calls_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_passes, "_WORTH", 2)
    model = optimize(GivenArguments(), keep_memory=False)
    for number in range(30):
        for _ in range(3):
            model(IMAGES, float(number))
    assert fusion_of(model).refused == ""


def test_a_model_that_is_ever_another_is_followed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_passes, "_MOST_IN_ALL", 5)
    model: Any = optimize(nn.Sequential(nn.ReLU(), nn.ReLU()), keep_memory=False)
    with pytest.warns(OptimizationWarning, match="its modules, their flags and hooks"):
        for _ in range(6):
            model[1] = nn.ReLU()
            assert torch.equal(model(IMAGES), IMAGES.relu())


def test_zeros_are_told_apart_by_their_signs() -> None:
    model = optimize(GivenArguments(), keep_memory=False)
    for zero in (0.0, -0.0):
        torch.testing.assert_close(1 / model(IMAGES, zero), 1 / GivenArguments()(IMAGES, zero))


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleDict({name: nn.Conv2d(3, 3, 1) for name in ("one", "other")})

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.layers["one"](images))


def test_layers_that_change_names_are_taken_by_them() -> None:
    ours, theirs = optimize(Named(), keep_memory=False), Named()
    for model in (ours, theirs):
        model(IMAGES)
        one, other = model.layers.values()
        model.layers.clear()
        model.layers.update({"other": one, "one": other})
    torch.testing.assert_close(ours(IMAGES), theirs(IMAGES))
