"""The steps of a run that are profiled."""

from __future__ import annotations

from typing import Final

from knltrain.errors import ConfigError

WARM_UP_STEPS: Final = 6
"""Steps before the window: they touch memory for the first time, and passes over the same vectors
are noted to be repeated in the second and third one. Two vectors may take turns.
"""


def check_window(steps: int, total_steps: int) -> None:
    """Refuse a window that ends after the run: ConfigError."""
    if steps + WARM_UP_STEPS > total_steps:
        raise ConfigError(
            f"train.profile_steps = {steps} in a run of {total_steps} steps, of which the first "
            f"{WARM_UP_STEPS} are left out: expected a longer run, or no profile (0)"
        )
