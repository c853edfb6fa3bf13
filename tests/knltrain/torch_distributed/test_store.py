from __future__ import annotations

import time

import pytest
import torch.distributed as dist

from knltrain.errors import ExchangeTimeout
from knltrain.torch_distributed.store import boot_id, heard, told


def test_what_is_told_is_heard_and_forgotten_also_after_an_error() -> None:
    store = dist.HashStore()
    with pytest.raises(ValueError, match="in between"), told(store, "key", "a word"):
        assert heard(store, "key", time.monotonic() + 5, 5) == "a word"
        raise ValueError("in between")
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.1 s in vain for the first rank"):
        heard(store, "key", time.monotonic() + 0.1, 0.1)


def test_the_computer_stays_the_same() -> None:
    assert boot_id()
    assert boot_id() == boot_id()
