"""What a program has switched on around a call does not change what the call computes."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from agreement import close
from every_operation import NO_OPERATIONS, PAIRS, Branches, computed, images_of, pair_of
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from vectorized_ops import torch as operations
from vectorized_ops.torch import _ambient, _rows

TOLERANCE = 1e-5


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def filled_memory() -> Iterator[None]:
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = before


AMBIENT: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "float16": lambda: default_dtype(torch.float16),
    "float64": lambda: default_dtype(torch.float64),
    "meta by default": lambda: default_device("meta"),
    "meta in a region": lambda: torch.device("meta"),
    "memory filled": filled_memory,
    "saved tensors elsewhere": torch.autograd.graph.save_on_cpu,
}


def test_every_public_name_is_tried() -> None:
    assert set(PAIRS) | NO_OPERATIONS >= set(operations.__all__)


@pytest.mark.parametrize("ambient", AMBIENT)
@pytest.mark.parametrize("name", PAIRS)
def test_results_are_those_of_pytorch_whatever_the_defaults(name: str, ambient: str) -> None:
    ours, theirs = pair_of(name)
    images, others = images_of(), images_of(1)
    expected = [computed(theirs, images), computed(theirs, others, training=False)]
    with AMBIENT[ambient]():
        found = [computed(ours, images), computed(ours, others, training=False)]
    for step, wanted in zip(found, expected, strict=True):
        for one, other in zip(step, wanted, strict=True):
            assert one.dtype == other.dtype
            close(one, other, TOLERANCE)


@pytest.mark.parametrize("ambient", ["bfloat16", "meta by default", "meta in a region"])
def test_models_are_optimised_and_copied_whatever_the_defaults(ambient: str) -> None:
    model, images = Branches(), images_of()
    (expected, *_) = computed(Branches(), images)
    with AMBIENT[ambient]():
        torch.manual_seed(7)
        drawn = torch.get_rng_state()
        operations.optimize(model, keep_memory=False)
        assert torch.equal(torch.get_rng_state(), drawn)
        other = copy.deepcopy(model)
        found = computed(other, images)[0], computed(model, images)[0]
    assert operations.fusion_of(model).refused == ""
    for one in found:
        close(one, expected, TOLERANCE)


@pytest.mark.parametrize("name", PAIRS)
def test_autocast_gives_what_it_gives_to_pytorch(name: str) -> None:
    ours, theirs = pair_of(name)
    images = images_of()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = computed(ours, images), computed(theirs, images)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        close(one, other, 0.02)


@pytest.mark.parametrize("name", PAIRS)
def test_inference_mode_gives_the_values_and_moves_the_statistics(name: str) -> None:
    ours, theirs = pair_of(name)
    images = images_of()
    with torch.inference_mode():
        found, expected = ours(images), theirs(images)
    close(found, expected, TOLERANCE)
    for one, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        close(one, other, TOLERANCE)


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Counted(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.relus = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.relus += func in (torch.relu, torch.nn.functional.relu)
        return func(*args, **(kwargs or {}))


def test_modes_see_pytorchs_own_operations() -> None:
    model = operations.optimize(nn.Sequential(nn.Conv2d(6, 3, 1), nn.ReLU()), keep_memory=False)
    with Seen() as seen:
        model(images_of())
    assert "aten.relu.default" in seen.names
    with Counted() as counted:
        model(images_of())
    assert counted.relus == 1


def test_a_default_device_is_no_watcher() -> None:
    assert not _ambient.is_watched()
    with torch.device("cpu"):
        assert not _ambient.is_watched()
        with Counted():
            assert _ambient.is_watched()
    with torch.device("meta"):
        assert _rows.is_plain(images_of())


def other_memory(layout: str) -> Tensor:
    """The values of one tensor of images in some memory."""
    images = images_of()
    if layout == "negative":
        return torch._neg_view(-images)
    if layout == "expanded":
        return images[:1].expand(2, -1, -1, -1)
    if layout == "overlapping":
        return images.contiguous().as_strided((2, 6, 8, 8), (64, 8, 8, 1))
    if layout == "channels first":
        return images.contiguous()
    if layout == "transposed":
        return images.transpose(2, 3)
    return images[:, :, ::2, ::2]


@pytest.mark.parametrize(
    "layout", ["negative", "expanded", "overlapping", "channels first", "transposed", "strided"]
)
@pytest.mark.parametrize("name", sorted(set(PAIRS) - {"optimize"}))
def test_images_may_lie_in_memory_as_they_like(name: str, layout: str) -> None:
    ours, theirs = pair_of(name)
    images = other_memory(layout)
    for training in (True, False):
        found = computed(ours, images, training)
        for one, other in zip(found, computed(theirs, images, training), strict=True):
            close(one, other, TOLERANCE)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_may_lie_in_memory_as_they_like(name: str) -> None:
    for change in (
        lambda out: torch.ones((), dtype=out.dtype).expand(out.shape),
        lambda out: torch._neg_view(torch.linspace(-1, 1, out.numel()).view(out.shape)),
        lambda out: (
            torch.linspace(-1, 1, out.numel())
            .view(out.shape[::-1])
            .permute(*range(out.dim() - 1, -1, -1))
        ),
    ):
        gradients = []
        for module in pair_of(name):
            images = images_of().requires_grad_()
            out = module(images)
            out.backward(change(out))
            gradients.append(images.grad)
        found, expected = gradients
        assert found is not None and expected is not None
        close(found, expected, TOLERANCE)


@pytest.mark.parametrize("name", PAIRS)
def test_batches_without_images_are_pytorchs(name: str) -> None:
    ours, theirs = pair_of(name)
    ours.eval(), theirs.eval()
    images = images_of()[:0]
    try:
        expected = theirs(images)
    except (RuntimeError, ValueError) as error:
        with pytest.raises(type(error)):
            ours(images)
    else:
        assert ours(images).shape == expected.shape
