from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.numba.kernels.pooling.windows import Links, window_sizes, windows
from vectorized_ops.shapes import PoolingShape

SHAPES = [
    PoolingShape(7, 5, (3, 2), (2, 1), (1, 1)),
    PoolingShape(6, 7, (2, 3), (3, 2), (0, 2), ceil=True),
    PoolingShape(4, 3, (4, 3), (1, 1)),
    PoolingShape(5, 5, (1, 1), (2, 3)),
]


def met(shape: PoolingShape) -> list[tuple[int, int, int]]:
    """Every (window, pixel, place) that meet, window by window and place by place."""
    found = []
    for window, (line, column) in enumerate(np.ndindex(shape.lines, shape.pixels)):
        for place, (r, s) in enumerate(np.ndindex(*shape.kernel)):
            y = line * shape.stride[0] - shape.padding[0] + r
            x = column * shape.stride[1] - shape.padding[1] + s
            if 0 <= y < shape.height and 0 <= x < shape.width:
                found.append((window, y * shape.width + x, place))
    return found


def listed(links: Links) -> list[tuple[int, int, int]]:
    starts = links.starts[:, 0]
    targets = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    assert starts[-1] == len(links.sources) == len(links.places)
    columns = (array.tolist() for array in (targets, links.sources, links.places))
    return [*zip(*columns, strict=True)]


@pytest.mark.parametrize("shape", SHAPES)
def test_links_tell_which_pixel_is_in_which_window_in_the_order_of_places(
    shape: PoolingShape,
) -> None:
    forward, _ = windows(shape)
    assert listed(forward) == met(shape)
    assert len(forward.starts) == shape.lines * shape.pixels + 1


@pytest.mark.parametrize("shape", SHAPES)
def test_links_back_are_the_same_seen_from_the_image(shape: PoolingShape) -> None:
    _, back = windows(shape)
    assert sorted(listed(back)) == sorted(
        (pixel, window, place) for window, pixel, place in met(shape)
    )
    assert len(back.starts) == shape.height * shape.width + 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("direction", [0, 1])
def test_sources_are_asked_for_one_target_before_the_first_that_needs_them(
    shape: PoolingShape, direction: int
) -> None:
    links, first_needs = windows(shape)[direction], {}
    for target, source, _ in listed(links):
        first_needs.setdefault(source, target)
    for target in range(len(links.starts) - 1):
        asked = links.fresh[links.starts[target, 1] : links.starts[target + 1, 1]].tolist()
        assert asked == [
            source for source, need in sorted(first_needs.items()) if need == target + 1
        ]


def test_windows_count_their_padding_but_not_what_lies_beyond() -> None:
    shape = PoolingShape(6, 4, (3, 2), (2, 3), (1, 0), ceil=True)
    assert (shape.lines, shape.pixels) == (4, 2)
    assert window_sizes(shape).tolist() == [6, 3, 6, 3, 6, 3, 4, 2]
