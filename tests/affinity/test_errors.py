from __future__ import annotations

import re

from affinity import errors
from affinity.errors import AffinityError, MemoryPolicyError, PlacementError, TooManyWorkers


def test_the_tree_at_the_top_is_that_of_the_classes() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value is not AffinityError
    }
    assert drawn == defined
    assert all(issubclass(vars(errors)[name], AffinityError) for name in drawn)


def test_too_many_workers_say_for_how_many_there_is_room() -> None:
    error = TooManyWorkers("9 workers asked for", most=4)
    assert isinstance(error, PlacementError)
    assert (str(error), error.most) == ("9 workers asked for", 4)


def test_an_error_of_the_kernel_keeps_its_number() -> None:
    assert MemoryPolicyError("refused", 1).errno == 1
    assert MemoryPolicyError("not asked").errno == 0
