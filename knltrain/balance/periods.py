"""How many steps a worker takes between its exchanges, where each comes to the center alone."""

from __future__ import annotations

from collections.abc import Sequence


def periods_by_speed(step_seconds: Sequence[float], period: int) -> tuple[int, ...]:
    """The periods of workers whose steps take so long: all come as often by the clock.

    The slowest has `period`, and worker r max(1, floor(period * v_r / v_min)) with v its steps per
    second: dynamic local updates, Liu et al. 2024 (arXiv 2401.09135).
    """
    slowest = max(step_seconds)
    return tuple(max(1, int(period * (slowest / seconds))) for seconds in step_seconds)
