from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vectorized_ops.numba.kernels.convolution.register_tiling import cheapest_rows


@given(
    rows=st.integers(1, 2000),
    heights=st.lists(st.integers(2, 60), unique=True).map(lambda heights: (*heights, 1)),
)
def test_chosen_height_fits_and_no_other_that_fits_is_cheaper(
    rows: int, heights: tuple[int, ...]
) -> None:
    chosen = cheapest_rows(rows, heights)
    assert chosen in heights
    assert chosen <= rows

    def cost(height: int) -> int:
        return -(-rows // height) * (height + 2)

    assert all(cost(chosen) <= cost(height) for height in heights if height <= rows)


def test_chosen_height_of_lenets_filters_wastes_nothing() -> None:
    assert cheapest_rows(50, (25, 20, 16, 8, 1)) == 25
    assert cheapest_rows(20, (25, 20, 16, 8, 1)) == 20
