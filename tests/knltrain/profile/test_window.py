from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.profile.window import check_window


def test_a_run_that_ends_before_its_window_does_is_refused() -> None:
    check_window(5, 11)
    with pytest.raises(ConfigError, match=r"profile_steps = 6 in a run of 11 steps.* a longer run"):
        check_window(6, 11)
