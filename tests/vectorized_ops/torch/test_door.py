from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import close, placed
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops import torch as operations
from vectorized_ops.torch import _door, _rows

SIZE = (2, 3, 4, 5)


def images() -> Tensor:
    return placed(torch.randn(SIZE), "channels_last")


class Special(Tensor):
    pass


REFUSED: dict[str, tuple[Callable[[], Tensor], type[Exception], str]] = {
    "dtype": (lambda: images().double(), TypeError, "torch.float64.*kernels take torch.float32"),
    "half": (lambda: images().half(), TypeError, "torch.float16"),
    "the other type": (lambda: images().bfloat16(), TypeError, "torch.bfloat16.*torch.float32"),
    "device": (lambda: images().to("meta"), TypeError, "on meta"),
    "layout": (lambda: images().to_sparse(), TypeError, "sparse_coo"),
    "subclass": (lambda: images().as_subclass(Special), TypeError, "a Special of"),
    "negative": (lambda: torch._neg_view(images()), TypeError, "plain memory"),
    "size": (lambda: images()[:1], ValueError, r"\(1, 3, 4, 5\): expected the size \(2, 3, 4, 5\)"),
    "order": (lambda: images().contiguous(), ValueError, "expected"),
}


@pytest.mark.parametrize("fault", REFUSED)
@pytest.mark.parametrize("enter", [_door.maps_address, _door.rows_address])
def test_what_kernels_cannot_take_is_refused(enter: Callable[..., Any], fault: str) -> None:
    make, error, message = REFUSED[fault]
    enter(images(), SIZE, torch.float32)
    enter(images().bfloat16(), SIZE, torch.bfloat16)
    with pytest.raises(error, match=message):
        enter(make(), SIZE, torch.float32)


def test_values_that_are_not_behind_each_other_are_refused() -> None:
    values = torch.ones(6)
    assert _door.address(values, (6,)) == values.data_ptr()
    with pytest.raises(ValueError, match="contiguous"):
        _door.address(values[::2], (3,))
    with pytest.raises(TypeError, match=r"float32.*take torch\.uint8"):
        _door.address(values, (6,), torch.uint8)


def test_a_pass_takes_no_tensors_of_several_sizes_nor_memory_that_is_too_small() -> None:
    with pytest.raises(TypeError, match=r"kernels take torch\.float32"):
        _rows.Pass([images()], [images().bfloat16()])
    with pytest.raises(ValueError, match="expected the size"):
        _rows.Pass([images()], [images()[:1]])
    with pytest.raises(ValueError, match="expected the size"):
        _rows.Pass([images()], [], table=torch.ones(17))
    with pytest.raises(ValueError, match="2 sums for 1 threads and 3 channels"):
        _rows.Pass([images()], [], sums=torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("dtype", _door.ACTIVATIONS)
def test_memory_is_of_its_type_on_the_cpu_whatever_the_defaults(dtype: torch.dtype) -> None:
    with torch.device("meta"):
        made = _door.floats(2, 3), _door.maps(SIZE, dtype)
    assert [tensor.dtype for tensor in made] == [torch.float32, dtype]
    assert all(tensor.device.type == "cpu" for tensor in made)
    assert made[1].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("which", range(4))
def test_state_of_another_size_is_pytorchs_error(which: int) -> None:
    state = [torch.ones(3) for _ in range(4)]
    state[which] = torch.ones(1)
    with pytest.raises(RuntimeError, match="3 elements"):
        operations.batch_norm(images(), *state, training=True)


@pytest.mark.parametrize("stride", [0, 2])
def test_state_may_lie_in_memory_as_it_likes(stride: int) -> None:
    given = images()
    results = []
    for function in (operations.batch_norm, functional.batch_norm):
        mean, variance = torch.zeros(6)[::2], torch.ones(6)[::2]
        weight = torch.arange(1.0, 7).as_strided((3,), (stride,))
        out = function(given, mean, variance, weight, None, True)
        results.append(torch.cat([out.flatten(), mean, variance]))
    close(*results)


def test_statistics_without_a_variance_are_pytorchs_error() -> None:
    with pytest.raises(RuntimeError):
        operations.batch_norm(images(), torch.zeros(3), None)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f.max_pool2d(x, 2, 0),
        lambda f, x: f.max_pool2d(x, (2,), [1]),
        lambda f, x: f.max_pool2d(x, 2.0),
        lambda f, x: f.max_pool2d(x, 2, padding=-1),
        lambda f, x: f.max_pool2d(x, []),
        lambda f, x: f.avg_pool2d(x, 2, divisor_override=0),
        lambda f, x: f.avg_pool2d(x, (3, 2), [2]),
        lambda f, x: f.avg_pool2d(x, torch.tensor(2)),
        lambda f, x: f.local_response_norm(x, 3, torch.tensor(0.5)),
        lambda f, x: f.local_response_norm(x, 2.0),
        lambda f, x: f.batch_norm(x, torch.ones(3), torch.ones(3), momentum=None, training=True),
        lambda f, x: f.adaptive_avg_pool2d(x, (None, 1)),
        lambda f, x: f.adaptive_avg_pool2d(x, True),
        lambda f, x: f.adaptive_avg_pool2d(x, 1.0),
        lambda f, x: f.adaptive_avg_pool2d(x, torch.tensor(1)),
        lambda f, x: f.adaptive_avg_pool2d(x[:, :, :0], (1, 1)).isnan().float(),
    ],
)
def test_strange_arguments_give_what_they_give_to_pytorch(call: Callable[..., Tensor]) -> None:
    given = images()
    try:
        expected = call(functional, given)
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        with pytest.raises(type(error)):
            call(operations, given)
    else:
        close(call(operations, given), expected)


def test_padding_by_name_is_pytorchs() -> None:
    weight = torch.randn(2, 3, 3, 3)
    expected = functional.relu(functional.conv2d(images_ := images(), weight, padding="same"))
    close(operations.conv2d_relu(images_, weight, padding="same"), expected)
    assert isinstance(operations.Conv2dReLU(3, 2, 3, padding="same")(images_), Tensor)


def test_nothing_to_concatenate_is_pytorchs_error() -> None:
    with pytest.raises((RuntimeError, ValueError), match="non-empty"):
        operations.concatenate([])


def test_a_negative_parameter_is_read_as_such() -> None:
    weight = nn.Parameter(torch.ones(3))
    given = images()
    negative = torch._neg_view(weight.detach())
    expected = functional.batch_norm(given, None, None, negative, None, True)
    close(operations.batch_norm(given, None, None, negative, None, True), expected)
