from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import zeros_images_last
from vectorized_ops.numba.selection import ChannelSelection

Storing = Callable[[bool], AbstractContextManager[None]]


@settings(max_examples=40)
@given(data=st.data())
def test_selections_and_gradients_equal_the_reference(
    data: st.DataObject, channel_selection_contract: Callable[..., None], storing: Storing
) -> None:
    with storing(data.draw(st.booleans())):
        channel_selection_contract("numba", data.draw)


def test_other_channels_and_other_shapes_are_refused() -> None:
    with pytest.raises(OperationError, match=r"channels \[1, 1\] were chosen: expected one"):
        ChannelSelection([1, 1])
    values, out = zeros_images_last((16, 2, 2, 3)), zeros_images_last((16, 2, 2, 1))
    with pytest.raises(OperationError, match=r"the last of them 3, .* channels below 3"):
        ChannelSelection([3]).forward(values, out)
    with pytest.raises(OperationError, match=r"chosen of \(16, 2, 2, 3\) for \(16, 2, 2, 1\)"):
        ChannelSelection([0, 1]).backward(out, values)
