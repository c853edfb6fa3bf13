from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.channels_last.lrn import LocalResponseNormalisation
from vectorized_ops.errors import OperationError


@settings(max_examples=60)
@given(data=st.data())
def test_outputs_and_gradients_follow_the_reference(
    data: st.DataObject, local_response_contract: Callable[..., None]
) -> None:
    local_response_contract("channels_last", data.draw)


def test_window_without_a_middle_is_refused() -> None:
    with pytest.raises(OperationError, match=r"4 channels .* odd"):
        LocalResponseNormalisation(4, 1e-4, 0.75, 1.0)
