from __future__ import annotations

import torch
from agreement import placed

from vectorized_ops.torch._aliases import aliases, arrived, place_for


def test_aliases_are_different_tensors_on_one_memory() -> None:
    out = placed(torch.randn(2, 3, 4, 4), "channels_last")
    found = aliases(out, 3)
    assert len({id(alias) for alias in found}) == 3
    for alias in found:
        assert alias.data_ptr() == out.data_ptr()
        assert alias.stride() == out.stride()
        assert torch.equal(alias, out)
        assert not alias._is_view()


def test_gradients_that_did_not_arrive_are_left_out() -> None:
    gradient = torch.randn(2, 3, 4, 4)
    (found,) = arrived([None, gradient, None])
    assert torch.equal(found, gradient)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert arrived([None]) == []


def test_a_gradient_is_overwritten_where_that_is_allowed_or_it_is_a_copy() -> None:
    given = placed(torch.randn(2, 3, 4, 4), "channels_last")
    copy = given.clone(memory_format=torch.channels_last)
    assert place_for(given, given, overwrite=True) is given
    assert place_for(copy, given, overwrite=False) is copy
    fresh = place_for(given, given, overwrite=False)
    assert fresh.data_ptr() != given.data_ptr()
    assert fresh.is_contiguous(memory_format=torch.channels_last)


def test_a_gradient_between_other_channels_is_not_overwritten() -> None:
    given = placed(torch.randn(2, 3, 4, 4), "slice")
    assert place_for(given, given, overwrite=True) is not given
