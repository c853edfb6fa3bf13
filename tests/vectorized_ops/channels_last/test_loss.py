from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=25)
@given(data=st.data())
def test_loss_and_gradient_follow_the_reference(
    data: st.DataObject, loss_contract: Callable[..., None]
) -> None:
    loss_contract("channels_last", data.draw)


def test_what_is_not_finite_is_carried_on(
    infinities_in_loss_contract: Callable[..., None],
) -> None:
    infinities_in_loss_contract("channels_last")


@settings(max_examples=120)
@given(data=st.data())
def test_other_losses_follow_the_reference(
    data: st.DataObject, other_losses_contract: Callable[..., None]
) -> None:
    other_losses_contract("channels_last", data.draw)
