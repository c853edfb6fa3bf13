"""Which buffers lie in a box across nodes, and who finds them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ....mpi_ranks import needs_mpi

Run = Callable[..., str]

pytestmark = needs_mpi


@pytest.mark.slow
def test_buffers_come_and_go_and_boxes_are_independent(run: Run) -> None:
    run("buffers_come_and_go", "boxes_are_independent")


@pytest.mark.slow
def test_closed_box_says_so_and_an_error_closes_it(run: Run) -> None:
    run("closed_box_says_so", "error_ends_the_process_without_waiting_for_others")
