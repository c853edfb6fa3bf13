from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from knltrain.profile.arrivals import Arrivals

NOTHING = np.zeros(0)


def test_parts_have_the_times_from_when_they_were_given_to_when_they_came() -> None:
    found = Arrivals(3)
    found.add(np.array([1.0, 2.0, 4.0]), 4.5, np.array([1.5, 5.0, 5.25]))
    (seconds,) = found.take()
    assert_allclose(seconds, [[0.5, 3.0, 0.25], [0.5, 3.0, 1.25], [0.0, 0.5, 0.25]])
    assert not list(found.take())


def test_what_comes_while_the_next_step_has_begun_is_the_step_s_before() -> None:
    found = Arrivals(2)
    found.add(np.array([1.0, 2.0]), 2.5, np.array([1.5]))
    assert not list(found.take())
    found.add(np.array([11.0, 12.0]), 12.5, np.array([3.0, 11.5]))
    (seconds,) = found.take()
    assert_allclose(seconds[1], [0.5, 1.0])
    found.add(np.array([21.0, 22.0]), 22.5, np.array([13.0, 21.25, 22.25]))
    second, third = found.take()
    assert_allclose(second[1], [0.5, 1.0])
    assert_allclose(third[2], [0.0, 0.0])


def test_what_came_of_steps_before_the_first_one_counts_for_nothing() -> None:
    found = Arrivals(2)
    found.add(np.array([1.0, 2.0]), 2.5, np.array([0.25, 0.5, 1.5, 2.75]))
    (seconds,) = found.take()
    assert_allclose(seconds[1], [0.5, 0.75])


def test_a_step_of_which_a_part_was_missed_counts_for_nothing_and_later_ones_do() -> None:
    found = Arrivals(2)
    found.add(np.array([1.0, 2.0]), 2.5, np.array([2.75]))
    found.add(np.array([11.0, 12.0]), 12.5, np.array([11.5]))
    assert not list(found.take())
    found.add(np.array([21.0, 22.0]), 22.5, np.array([13.0, 21.25]))
    (seconds,) = found.take()
    assert_allclose(seconds[1], [0.5, 1.0])


def test_a_step_without_its_parts_and_what_was_before_a_loss_count_for_nothing() -> None:
    found = Arrivals(2)
    found.add(NOTHING, 0.0, np.array([0.5]))
    assert not list(found.take())
    found.add(np.array([1.0, 2.0]), 2.5, np.array([1.5]))
    found.clear()
    found.add(np.array([11.0, 12.0]), 12.5, np.array([2.5, 11.5, 12.25]))
    (seconds,) = found.take()
    assert_allclose(seconds[1], [0.5, 0.25])
