from __future__ import annotations

import pytest
import torch
from agreement import layouts, placed
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from vectorized_ops.torch import _door, _rows


@given(shape=st.tuples(*[st.integers(1, 4)] * 4), layout=layouts)
def test_rows_lie_where_distance_says(shape: tuple[int, ...], layout: str) -> None:
    images = placed(torch.arange(float(torch.Size(shape).numel())).view(shape), layout)
    rows = _rows.rows_of(images)
    assert torch.equal(rows, images)
    distance, channels = _door.distance(rows), shape[1]
    pixels = rows.permute(0, 2, 3, 1).reshape(-1, channels)
    memory = rows.as_strided((len(pixels), channels), (distance, 1))
    assert torch.equal(memory, pixels)


def test_slices_of_channels_are_rows_and_not_copied() -> None:
    images = placed(torch.randn(2, 7, 3, 3), "slice")
    assert _rows.rows_of(images) is images


@pytest.mark.parametrize(
    "images",
    [
        torch.randn(2, 3, 4, 4),
        torch.randn(1, 1, 1, 1).expand(2, 3, 4, 4),
        placed(torch.randn(2, 3, 4, 4), "channels_last")[..., 1:],
        placed(torch.randn(4, 3, 4, 4), "channels_last")[::2],
        placed(torch.randn(2, 3, 8, 4), "channels_last")[:, :, ::2],
    ],
)
def test_other_memory_has_no_distance(images: torch.Tensor) -> None:
    assert _door.distance(images) == 0


class Special(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.ones(2), True),
        (nn.Parameter(torch.ones(2)), True),
        (None, True),
        (torch.ones(2).double(), False),
        (torch.ones(2).bfloat16(), False),
        (torch.ones(0), False),
        (torch.ones(2, device="meta"), False),
        (torch.ones(2).to_sparse(), False),
        (torch.ones(2).as_subclass(Special), False),
    ],
)
def test_kernels_take_ordinary_tensors_of_one_type_on_the_cpu(
    tensor: torch.Tensor | None, expected: bool
) -> None:
    assert _rows.is_plain(torch.ones(1), tensor) is expected
    with torch.autocast("cpu", dtype=torch.float16):
        assert not _rows.is_plain(tensor)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert _rows.is_plain(torch.ones(1), tensor) is expected


BFLOAT16 = torch.ones(2).bfloat16()


@pytest.mark.parametrize(
    ("images", "parameters", "expected"),
    [
        (BFLOAT16, [torch.ones(2), None, torch.ones(2)], True),
        (BFLOAT16, [BFLOAT16, BFLOAT16], True),
        (BFLOAT16, [BFLOAT16, torch.ones(2)], False),
        (BFLOAT16, [torch.ones(2).half()], False),
        (torch.ones(2), [BFLOAT16], False),
        (torch.ones(2), [torch.ones(2)], True),
        (torch.ones(2), [None], True),
    ],
)
def test_parameters_are_float32_or_of_the_type_of_the_images(
    images: torch.Tensor, parameters: list[torch.Tensor | None], expected: bool
) -> None:
    assert _rows.is_plain(images)
    assert _rows.are_parameters(images, *parameters) is expected


def test_only_what_the_caches_cannot_hold_is_written_past_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_rows, "_STREAMED_BYTES", 1 << 16)
    large = placed(torch.empty(4, 16, 40, 40), "channels_last")
    assert _rows.past_caches([large], [large.clone()])
    assert not _rows.past_caches([large], [large])
    assert not _rows.past_caches([large[:1, :, :20]], [])
    assert not _rows.past_caches([large[:, :8]], [])
    assert not _rows.past_caches([], [large])


def test_what_is_written_past_the_caches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from vectorized_ops import torch as operations

    images = torch.randn(2, 32, 9, 9)
    through = operations.relu(images), operations.local_response_norm(images, 5)
    monkeypatch.setattr(_rows, "_STREAMED_BYTES", 1)
    past = operations.relu(images), operations.local_response_norm(images, 5)
    assert all(torch.equal(*pair) for pair in zip(through, past, strict=True))
