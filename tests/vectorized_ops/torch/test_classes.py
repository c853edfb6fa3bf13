"""Whatever class a model has, optimising it makes no class that the program hears of."""

from __future__ import annotations

import abc
import copy
import inspect
import io
import pickle
from typing import Any, Generic, TypeVar, final

import pytest
import torch
from torch import Tensor, nn

from vectorized_ops.torch import optimize, plain
from vectorized_ops.torch._classes import kind_of, optimized_class

IMAGES = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
T = TypeVar("T")


class Named(nn.Sequential):
    made: list[str] = []  # noqa: RUF012 (a registry, as programs have them)

    def __init_subclass__(cls, *, name: str, **given: Any) -> None:
        super().__init_subclass__(**given)
        Named.made.append(name)


class WithKeyword(Named, name="one"):
    pass


class Unborn(nn.Sequential):
    def __init_subclass__(cls) -> None:
        raise TypeError("nobody may inherit from it")


class Slotted(nn.Sequential):
    __slots__ = ("extra",)


class Registry(type):
    def __new__(mcs, name: str, bases: Any, names: Any, *, key: str = "", **given: Any) -> Any:
        if not key:
            raise TypeError("every class needs a key")
        return super().__new__(mcs, name, bases, names)

    def __init__(cls, name: str, bases: Any, names: Any, **given: Any) -> None:
        super().__init__(name, bases, names)


class Registered(nn.Sequential, metaclass=Registry, key="one"):
    pass


class WithoutHash(type):
    def __eq__(cls, other: object) -> bool:
        return cls is other

    __hash__ = None  # type: ignore[assignment]


class Abstract(nn.Sequential, abc.ABC):
    @abc.abstractmethod
    def name(self) -> str: ...


class Concrete(Abstract):
    def name(self) -> str:
        return "concrete"


class Parametric(nn.Sequential, Generic[T]):
    pass


@final
class Final(nn.Sequential):
    pass


class Guarded(nn.Sequential):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__":
            raise AttributeError("it stays what it is")
        super().__setattr__(name, value)


class ReducedVectors(nn.Sequential):
    def __reduce__(self) -> Any:
        return ReducedVectors, tuple(self)


class Copied(nn.Sequential):
    def __getstate__(self) -> Any:
        return {"layers": list(self)}

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state["layers"])  # type: ignore[misc]


class DeepCopied(nn.Sequential):
    def __deepcopy__(self, memo: Any) -> Any:
        other = type(self).__new__(type(self))
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other


KINDS: list[Any] = [
    WithKeyword, Unborn, Slotted, Registered, Concrete, Parametric, Parametric[int], Final, Guarded,
    ReducedVectors, Copied, DeepCopied,
]  # fmt: skip


def made(kind: Any) -> nn.Module:
    torch.manual_seed(1)
    model: nn.Module = kind(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_any_class_are_optimised_copied_and_made_plain(kind: Any) -> None:
    names = list(Named.made)
    model, expected = made(kind), made(kind)(IMAGES)
    before = type(model)
    optimize(model, keep_memory=False)
    assert Named.made == names
    assert isinstance(model, before)
    assert kind_of(model) is before
    torch.testing.assert_close(model(IMAGES), expected)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert type(other) is type(model)
        torch.testing.assert_close(other(IMAGES), expected)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is type(model)
    assert type(plain(model)) is before
    torch.testing.assert_close(model(IMAGES), expected)


def test_a_class_without_a_hash_is_optimised() -> None:
    kind: Any = WithoutHash("Odd", (nn.Sequential,), {})
    model = made(kind)
    optimize(model, keep_memory=False)
    torch.testing.assert_close(model(IMAGES), made(kind)(IMAGES))


def test_instances_of_abstract_classes_are_told_apart() -> None:
    ours, theirs = optimized_class(Concrete), made(Concrete)
    assert not isinstance(theirs, ours)
    assert isinstance(optimize(made(Concrete), keep_memory=False), ours)
    assert isinstance(theirs, Abstract)


class Signed(nn.Module):
    def forward(self, images: Tensor, twice: bool = False) -> Tensor:
        """Say what it does."""
        return images * 2 if twice else images


def test_signature_and_names_are_those_of_the_model() -> None:
    model = optimize(Signed(), keep_memory=False)
    assert inspect.signature(model.forward) == inspect.signature(Signed().forward)
    assert model.forward.__doc__ == "Say what it does."
    assert type(model).__qualname__ == "OptimizedSigned"
    assert optimized_class(Signed) is type(model)


class Static(nn.Module):
    @staticmethod
    def forward(images: Tensor) -> Tensor:
        return images * 2


class WrittenInC(nn.Module):
    forward = torch.relu


@pytest.mark.parametrize("kind", [Static, WrittenInC])
def test_a_forward_pass_may_be_no_method(kind: Any) -> None:
    model = optimize(kind(), keep_memory=False)
    assert torch.equal(model(IMAGES), kind()(IMAGES))
    with torch.device("meta"), torch.autocast("cpu"):
        assert torch.equal(model(IMAGES), kind()(IMAGES))
