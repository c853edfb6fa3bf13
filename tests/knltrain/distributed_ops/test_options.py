from __future__ import annotations

import numba
import pytest

from knltrain.distributed_ops import Options, use_threads
from knltrain.errors import NetworkError


def test_unknown_implementation_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(NetworkError, match="'cuda': expected one of reference, numba, onednn"):
        _ = Options(implementation="cuda").operations


def test_steps_go_with_the_implementation() -> None:
    assert Options("reference").sgd_update.__module__ == "vectorized_ops.reference.sgd"
    assert Options("numba").sgd_update.__module__ == "vectorized_ops.numba.sgd"


def test_threads_are_those_of_the_layers_to_come() -> None:
    use_threads(1)
    assert numba.get_num_threads() == 1
    with pytest.raises(NetworkError, match="threads were asked for"):
        use_threads(1000)
