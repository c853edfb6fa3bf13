from __future__ import annotations

import numpy as np
import pytest

from knltrain.communication.reduction import SingleProcessReducer
from knltrain.errors import CollectiveError


@pytest.mark.parametrize("average", [False, True])
def test_sum_of_one_rank_is_what_it_has(average: bool) -> None:
    reducer, values = SingleProcessReducer(), np.arange(5, dtype=np.float32)
    reduction = reducer.start(values, average)
    assert reduction.wait() == reduction.wait()
    assert values.tolist() == [0, 1, 2, 3, 4]
    assert (reducer.rank, reducer.ranks) == (0, 1)
    reducer.close()


def test_wrong_values_are_refused_as_with_others() -> None:
    with pytest.raises(CollectiveError):
        SingleProcessReducer().start(np.ones(3))  # type: ignore[arg-type]
