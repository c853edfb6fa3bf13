"""A number that a forward pass has read is no constant: when it changes, so does the result."""

from __future__ import annotations

import copy
import cProfile
import gc
import math
import os
import random
import sys
import time
from collections.abc import Callable
from enum import IntEnum
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.torch import OptimizationWarning, fusion_of, optimize
from vectorized_ops.torch._reads import Reads

IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))

FACTOR = IN_A_CALL = IN_A_METHOD = IN_A_PROPERTY = ABOVE = 1.0
ACTIVATION: Callable[[Tensor], Tensor] = torch.abs
COLLECTIONS = 0
SETTINGS = ModuleType("settings")
SETTINGS.factor = 1.0  # type: ignore[attr-defined]


class Constants:
    factor = held = 1.0
    calls = 0
    table: ClassVar = {"weights": [1.0, 1.0]}


def scaled(images: Tensor) -> Tensor:
    return images * FACTOR * Constants.factor * Constants.table["weights"][1] * SETTINGS.factor


class Factor(IntEnum):
    ONE = 1
    TWO = 2


def by_default(value: float, factors: list[float] = [1.0]) -> float:  # noqa: B006
    return value * factors[0]


def imported() -> float:
    import settings_of_tests  # type: ignore[import-not-found]

    return float(settings_of_tests.factor)


sys.modules["settings_of_tests"] = OTHERS = ModuleType("settings_of_tests")
OTHERS.factor = 1.0  # type: ignore[attr-defined]
NUMPYS = np.float64(1.0)


def in_a_closure() -> tuple[Callable[[Tensor], Tensor], Callable[[float], None]]:
    factor = 1.0

    def multiply(images: Tensor) -> Tensor:
        return images * factor

    def change(value: float) -> None:
        nonlocal factor
        factor = value

    return multiply, change


class Hold:
    """Has no attributes of its own yet."""

    factor = constant = 1.0

    def multiplied(self, images: Tensor) -> Tensor:
        return images * self.factor

    def of_global(self) -> float:
        return IN_A_METHOD

    def __call__(self, images: Tensor) -> Tensor:
        return images * IN_A_CALL


class Above(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return ACTIVATION(images * ABOVE)


class Reading(Above):
    """Reads numbers wherever programs keep them."""

    of_class = of_kind = of_method = 1.0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.drop = nn.Conv2d(3, 4, 3), nn.Dropout(0.0)
        self.scale, self._hidden, self.negated = 1.0, 1.0, False
        self.settings = SimpleNamespace(inner=SimpleNamespace(factor=1.0))
        self.factors, self.order = {"all": [1.0]}, [0, 1, 2, 3]
        self.activation: Callable[[Tensor], Tensor] = torch.relu
        self.multiply, self.change = in_a_closure()
        self.hold, self.multiplied = Hold(), Hold().multiplied
        self.constants, self.norm = Constants, nn.BatchNorm2d(3)
        self.seen = self.conv.seen = 1.0  # type: ignore[assignment]
        self.table, self.bytes, self.enum = {"factor": 1.0}, bytearray([1]), Factor.ONE
        self.proxy = MappingProxyType(self.table)
        self.first = self.second = nn.Parameter(torch.ones(1))
        self.register_parameter("shift", None)
        self.register_buffer("steps", torch.zeros(1))

    @property
    def computed(self) -> float:
        return self._hidden * self.of_class * IN_A_PROPERTY

    @classmethod
    def of_all(cls) -> float:
        return cls.of_method

    def behind(self, images: Tensor) -> Tensor:
        return images * self.factors["all"][0]

    def forward(self, images: Tensor) -> Tensor:
        images = super().forward(images) * self.hold.of_global()
        out = self.behind(self.activation(self.conv(images)))
        out = scaled(self.multiply(out)) * self.scale * self.computed
        out = self.multiplied(self.hold(out) * self.hold.factor)
        out = out * type(self).of_kind * self.of_all() * self.constants.held * self.hold.constant
        out = (out * self.settings.inner.factor).permute(*self.order)
        out = functional.dropout(-out if self.negated else out, self.drop.p, self.training)
        if self.shift is not None:
            out = out + self.shift
        if hasattr(self, "bonus"):
            out = out * self.bonus
        out = out * vars(self)["seen"] * self.__dict__["seen"] * self.conv.__dict__["seen"]
        out = out * (2 if self.conv.weight.requires_grad else 1) * self.proxy["factor"]
        out = out * sum(p.requires_grad for p in self.norm.parameters()) * self.bytes[0]
        out = out * len(list(self.norm.buffers())) * self.second * NUMPYS * self.enum
        out = out * by_default(1.0) * imported() * float(os.environ.get("READING", "1"))
        return out * (2 if torch.backends.cudnn.benchmark else 1) + self.steps


def replaced(name: str, value: Any) -> Callable[[Any, pytest.MonkeyPatch], None]:
    return lambda model, _patch: setattr(model, name, value)


def patched(owner: Any, name: str, value: Any) -> Callable[[Any, pytest.MonkeyPatch], None]:
    return lambda _model, patch: patch.setattr(owner, name, value)


CHANGES: dict[str, Callable[[Any, pytest.MonkeyPatch], None]] = {
    "number": replaced("scale", 3.0),
    "kind of number": replaced("scale", torch.full((1,), 3.0)),
    "behind a property": replaced("_hidden", 2.0),
    "flag": replaced("negated", True),
    "object": replaced("settings", SimpleNamespace(inner=SimpleNamespace(factor=4.0))),
    "in an object": lambda model, _: setattr(model.settings.inner, "factor", 2.0),
    "first of an object": lambda model, _: setattr(model.hold, "factor", 2.0),
    "behind a method": lambda model, _: setattr(model.multiplied.__self__, "factor", 2.0),
    "in a dict": lambda model, _: model.factors.update(all=[2.0]),
    "in a list": lambda model, _: model.factors["all"].__setitem__(0, 3.0),
    "order": lambda model, _: model.order.reverse(),
    "function": replaced("activation", torch.sigmoid),
    "method of the instance": replaced("behind", lambda images: images * 5),
    "method of the class": patched(Reading, "behind", lambda self, images: images * 6),
    "attribute of the class": patched(Reading, "of_class", 2.0),
    "of the class by its type": patched(Reading, "of_kind", 2.0),
    "in a method of the class": patched(Reading, "of_method", 2.0),
    "of a held class": patched(Constants, "held", 2.0),
    "of the class of an object": patched(Hold, "constant", 2.0),
    "in a closure": lambda model, _: model.change(2.0),
    "parameter where none was": replaced("shift", nn.Parameter(torch.ones(1))),
    "attribute where none was": replaced("bonus", 2.0),
    "probability": lambda model, _: setattr(model.drop, "p", 1.0),
    "global": lambda _model, patch: patch.setitem(scaled.__globals__, "FACTOR", 2.0),
    **{
        f"global {name}": lambda _model, patch, name=name: patch.setitem(globals(), name, 2.0)
        for name in ("IN_A_CALL", "IN_A_METHOD", "IN_A_PROPERTY", "ABOVE")
    },
    "global function of PyTorch": lambda _model, patch: patch.setitem(
        globals(), "ACTIVATION", torch.sigmoid
    ),
    "global function": lambda _model, patch: patch.setitem(
        scaled.__globals__, "scaled", lambda images: images * 7
    ),
    "of a global class": patched(Constants, "factor", 3.0),
    "in a global table": lambda _model, patch: patch.setitem(
        Constants.table, "weights", [1.0, 4.0]
    ),
    "of a module": patched(SETTINGS, "factor", 2.0),
    "by vars": replaced("seen", 2.0),
    "by vars of a layer": lambda model, _: setattr(model.conv, "seen", 2.0),
    "whether it is trained": lambda model, _: model.conv.weight.requires_grad_(False),
    "whether one is trained": lambda model, _: model.norm.weight.requires_grad_(False),
    "one buffer more": lambda model, _: model.norm.register_buffer("more", torch.ones(1)),
    "in a proxy": lambda model, _: model.table.update(factor=2.0),
    "in bytes": lambda model, _: model.bytes.__setitem__(0, 2),
    "second name of a parameter": replaced("second", nn.Parameter(torch.full((1,), 2.0))),
    "number of NumPy": lambda _model, patch: patch.setitem(globals(), "NUMPYS", np.float64(2)),
    "enumeration": replaced("enum", Factor.TWO),
    "default": lambda _model, patch: patch.setattr(by_default, "__defaults__", ([2.0],)),
    "of a module imported inside": patched(OTHERS, "factor", 2.0),
    "environment": lambda _model, patch: patch.setenv("READING", "2"),
    "setting of PyTorch": lambda _model, patch: patch.setattr(
        torch.backends.cudnn, "benchmark", True
    ),
    "buffer": replaced("steps", torch.ones(1)),
    "buffer in place": lambda model, _: model.steps.add_(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_read_is_read_anew(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Reading()
    ours = optimize(Reading(), keep_memory=False)
    first = ours(IMAGES)
    torch.testing.assert_close(first, plain(IMAGES))
    for model in (ours, plain):
        CHANGES[change](model, monkeypatch)
    found = ours(IMAGES)
    torch.testing.assert_close(found, plain(IMAGES))
    assert found.shape != first.shape or not torch.equal(found, first)
    assert fusion_of(ours).refused == ""


def test_what_changes_back_and_forth_is_followed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = optimize(Reading(), keep_memory=False)
    model(IMAGES)
    model.scale = 2.0
    model(IMAGES)
    monkeypatch.setattr("vectorized_ops.torch._passes.trace", None)
    for scale in (1.0, 2.0, 1.0):
        model.scale = scale
        model(IMAGES)


@pytest.mark.slow
def test_what_changes_at_every_call_is_given_up() -> None:
    ours, plain = optimize(Reading(), keep_memory=False), Reading()
    with pytest.warns(OptimizationWarning, match=r"Reading is followed no more: .*Reading\.scale"):
        for step in range(30):
            ours.scale = plain.scale = 1.0 + step
            found, expected = ours(IMAGES), plain(IMAGES)  # Values and errors grow with the scale.
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert "kept changing" in fusion_of(ours).refused


class Doing(nn.Module):
    """Does what a graph would not do again."""

    def __init__(self, what: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.what, self.kept, self.state = what, [], SimpleNamespace(calls=0)
        self.register_buffer("steps", torch.zeros(1))
        self.own, self.hold = torch.ones(1), Hold()
        self.setter = SimpleNamespace(inner=Setter())
        self.numbers = iter(range(1, 100))
        self.random, self.draw = random.Random(0), np.random.default_rng(0).random

    def forward(self, images: Tensor) -> Tensor:
        return self.what(self, images)


def keeps(model: Any, images: Tensor) -> Tensor:
    model.kept.append(images)
    return images * 2


def counts(model: Any, images: Tensor) -> Tensor:
    model.state.calls += 1
    return images * model.state.calls


def leaves(model: Any, images: Tensor) -> Tensor:
    model.hold.images = images
    return images * 2


def counts_in_a_class(_model: Any, images: Tensor) -> Tensor:
    Constants.calls += 1
    return images * Constants.calls


def sets_global_behind(model: Any, images: Tensor) -> Tensor:
    return images * model.setter.inner.count()


class Setter:
    def count(self) -> float:
        global FACTOR
        FACTOR += 1.0
        return FACTOR


def sets_global(_model: Any, images: Tensor) -> Tensor:
    global FACTOR
    FACTOR += 1.0
    return images * FACTOR


def steps(model: Any, images: Tensor) -> Tensor:
    model.steps.add_(1)
    return images * model.steps


def keeps_errors(_model: Any, images: Tensor) -> Tensor:
    try:
        return images if images.sum() > 0 else -images
    except Exception:  # noqa: BLE001 (as programs do)
        return images * 3


def counts_a_buffer(model: Any, images: Tensor) -> Any:
    model.steps += 1
    return images * model.steps


def says(_model: Any, images: Tensor) -> Tensor:
    print(images.shape)
    return images


SIDE_EFFECTS: dict[str, tuple[Callable[[Any, Tensor], Tensor], str]] = {
    "list": (keeps, "it changes Doing.kept"),
    "object": (counts, "it changes Doing.state"),
    "new attribute": (leaves, "it changes Doing.hold"),
    "class": (counts_in_a_class, "it changes Constants"),
    "global": (sets_global, "it sets FACTOR"),
    "global behind": (sets_global_behind, "it sets FACTOR"),
    "value": (lambda model, images: images * model.own.item(), "_local_scalar_dense"),
    "values": (lambda model, images: images * model.own.tolist()[0], "looks at values"),
    "array": (lambda model, images: images * model.own.numpy()[0], "looks at values|aten.detach"),
    "arithmetic": (lambda model, images: images * (model.own + 1), "computes with tensors"),
    "random": (
        lambda model, images: images * model.random.random(),
        "Doing.random, with a random generator",
    ),
    "drawn": (lambda model, images: images * model.draw(), "Doing.draw, with a random"),
    "iterator": (lambda model, images: images * next(model.numbers), "numbers, with an iterator"),
    "clock": (lambda _, images: images * (time.time() > 0), "it reads the clock"),
    "says": (says, "it says something"),
    "keeps errors": (keeps_errors, "it asks whether gt is true"),
    "length": (lambda _, images: images * len(images), "it asks for the length"),
    "buffer": (counts_a_buffer, "it sets Doing.steps"),
    "globals": (lambda _, images: images * globals()["FACTOR"], "looks through all globals"),
    "type": (lambda _, x: x * 2 if type(x) is Tensor else x, "asks for the type of tensors"),
    "unusual": (
        lambda _, images: images * HOSTILE.factor,
        r"HOSTILE\.factor, which raises RuntimeError",
    ),
    "large": (lambda model, images: images * LARGE[3], "LARGE, too large to be compared"),
}
LARGE = list(range(10_000))


class Hostile:
    """Answers nobody but those who know its names."""

    def __getattribute__(self, name: str) -> Any:
        if name != "factor":
            raise RuntimeError(f"nobody may ask for {name}")
        return 2.0


HOSTILE = Hostile()


@pytest.mark.parametrize("what", SIDE_EFFECTS)
def test_what_a_graph_does_not_do_again_is_left_as_it_is(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scaled.__globals__, "FACTOR", 1.0)
    action, reason = SIDE_EFFECTS[what]
    with pytest.warns(OptimizationWarning, match=reason):
        ours = optimize(Doing(action), keep_memory=False)
    assert (ours.kept, ours.state.calls, vars(ours.hold)) == ([], 0, {})
    assert (Constants.calls, FACTOR) == (0, 1.0)
    plain = copy.deepcopy(Doing(action))
    for step in range(2):
        found = []
        for model in (ours, plain):
            monkeypatch.setitem(scaled.__globals__, "FACTOR", 1.0)
            monkeypatch.setattr(Constants, "calls", step)
            found.append(model(IMAGES))
        torch.testing.assert_close(*found)
        for model in (ours, plain):
            model.own.add_(1)


def test_buffers_that_count_go_on_counting() -> None:
    ours, plain = optimize(Doing(steps), keep_memory=False), Doing(steps)
    assert ours.steps.item() == 0
    assert fusion_of(ours).refused == ""
    for _ in range(3):
        torch.testing.assert_close(ours(IMAGES), plain(IMAGES))
        assert ours.steps == plain.steps


def test_reading_costs_nothing_afterwards() -> None:
    model = nn.Linear(1, 1)
    reads = Reads()
    with reads.noted({id(model)}):
        assert model.in_features == 1
        assert math.isfinite(model.out_features)
    assert "__getattribute__" not in nn.Module.__dict__
    assert [read.name for read in reads.all] == ["Linear.in_features", "Linear.out_features"]
    model.in_features = 2
    assert reads.changed() == ["Linear.in_features"]


def test_what_the_garbage_collector_runs_is_no_part_of_a_pass() -> None:
    """Such a callback sets globals in the programs of others, as those of test libraries do."""

    def collected(_phase: str, _info: dict[str, int]) -> None:
        global COLLECTIONS
        COLLECTIONS += 1

    thresholds = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        ours = optimize(Reading(), keep_memory=False)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collected)
    assert gc.isenabled()
    assert COLLECTIONS > 0
    assert "could not be followed" not in str(fusion_of(ours))


def test_profilers_go_on_afterwards() -> None:
    seen: list[str] = []
    former = sys.getprofile()
    sys.setprofile(lambda frame, *_: seen.append(frame.f_code.co_name))
    try:
        optimize(Reading(), keep_memory=False)
        Hold().of_global()
    finally:
        sys.setprofile(former)
    assert seen.count("of_global") == 2  # of the call and its return, none of the pass
    with cProfile.Profile() as profiler:
        optimize(Reading(), keep_memory=False)
        Hold().of_global()
    codes = [entry.code for entry in profiler.getstats()]
    assert Hold.of_global.__code__ in codes


class Asking(nn.Module):
    """Asks what its values are."""

    def forward(self, images: Tensor) -> Tensor:
        out = torch.relu(images)
        factor = 2 * isinstance(images, Tensor) + 4 * torch.is_tensor(out)
        factor += 8 * hasattr(images, "nonsense") + 16 * isinstance(out, (list, tuple))
        return out * factor


def test_values_are_tensors_to_whoever_asks() -> None:
    ours = optimize(Asking(), keep_memory=False)
    assert fusion_of(ours).refused == ""
    assert torch.equal(ours(IMAGES), Asking()(IMAGES))
    assert isinstance.__module__ == "builtins"
    assert type(isinstance).__name__ == "builtin_function_or_method"


class Keeping(nn.Module):
    """Has a parameter in a list, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(1))
        self.kept = [self.first]

    def forward(self, images: Tensor) -> Tensor:
        return images * self.kept[0] + self.first


def test_a_tensor_that_is_held_elsewhere_stays() -> None:
    ours, plain = optimize(Keeping(), keep_memory=False), Keeping()
    for model in (ours, plain):
        model(IMAGES)
        model.first = nn.Parameter(torch.full((1,), 3.0))
    with pytest.warns(OptimizationWarning, match="not a member"):
        torch.testing.assert_close(ours(IMAGES), plain(IMAGES))
