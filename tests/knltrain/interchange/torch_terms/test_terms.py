from __future__ import annotations

from typing import Any

import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms import Call


def _call(**arguments: Any) -> Call:
    return Call("a", (), (), arguments, {}, "module 'a' (Conv2d)")


@pytest.mark.parametrize(
    ("value", "pair"),
    [(3, (3, 3)), ([3], (3, 3)), ([3, 4], (3, 4)), ([], (7, 8))],
)
def test_extents_are_pairs(value: Any, pair: tuple[int, int]) -> None:
    assert _call(kernel_size=value).pair("kernel_size", (7, 8)) == pair


@pytest.mark.parametrize("value", ["same", [1, 2, 3], [], [1.5, 2]])
def test_what_is_no_extent_is_named_with_its_place(value: Any) -> None:
    with pytest.raises(NetworkError, match=r"module 'a' \(Conv2d\): padding = .*one whole number"):
        _call(padding=value).pair("padding")


def test_settings_that_are_not_supported_are_named() -> None:
    _call(dilation=[1, 1], ceil=True).expect(dilation=1, ceil=True)
    with pytest.raises(NetworkError, match=r"dilation = \[1, 2\], only 1 is supported"):
        _call(dilation=[1, 2]).expect(dilation=1)
