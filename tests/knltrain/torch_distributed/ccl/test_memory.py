from __future__ import annotations

import torch

from knltrain.torch_distributed.ccl.memory import (
    bytes_at,
    in_a_row,
    row_for,
    take_apart,
    tensor_at,
)
from knltrain.torch_distributed.tensors import memories_of, parts_of


def test_memory_is_seen_as_tensors() -> None:
    tensor = torch.arange(6, dtype=torch.int32)
    seen = tensor_at(tensor.data_ptr(), 6, "int32")
    seen.add_(1)
    assert tensor.tolist() == [1, 2, 3, 4, 5, 6]
    assert bytes_at((tensor.data_ptr(), 4)).tolist() == [1, 0, 0, 0]
    assert bytes_at((0, 0)).numel() == 0


def test_pieces_are_copied_only_if_they_lie_apart() -> None:
    whole = torch.arange(6.0)
    assert in_a_row(parts_of(whole, 3)) == (whole.data_ptr(), None)
    apart = [whole[4:].clone(), whole[:2].clone()]
    address, copy = in_a_row(memories_of(apart))
    assert copy is not None
    assert tensor_at(address, 4, "float32").tolist() == [4, 5, 0, 1]


def test_what_is_written_in_a_row_is_taken_apart() -> None:
    whole, apart = torch.zeros(4), [torch.zeros(1), torch.zeros(3)]
    assert row_for(parts_of(whole, 2)) == (whole.data_ptr(), None)
    address, row = row_for(memories_of(apart))
    tensor_at(address, 4, "float32").copy_(torch.arange(4.0))
    take_apart(row, memories_of(apart))
    assert [tensor.tolist() for tensor in apart] == [[0], [1, 2, 3]]
