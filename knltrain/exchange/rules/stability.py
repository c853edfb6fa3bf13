"""Warnings about options for which a method may be unstable, with the published bounds."""

from __future__ import annotations

LONGEST_DOWNPOUR = 4
"""The longest period, in steps, with which Zhang, Choromanska and LeCun found DOWNPOUR stable."""


def elastic_doubts(moving_rate: float, workers: int, learning_rate: float) -> list[str]:
    """Return a warning for each bound that a moving rate α exceeds, with P workers and rate η.

    Zhang, Choromanska, LeCun 2015: on a quadratic of curvature 1, workers that take turns are
    stable for 0 <= η <= 2 and 0 <= α <= (4 - 2 η) / (4 - η), for any P. Past β = P α = 1 the
    center overshoots the mean of the workers.
    """
    doubts = []
    bound = (4 - 2 * learning_rate) / (4 - learning_rate) if learning_rate < 2 else 0.0
    if moving_rate > bound:
        doubts.append(
            f"exchange.moving_rate = {moving_rate:g} with learning rate {learning_rate:g}: past "
            f"(4 - 2 η) / (4 - η) = {bound:.4g}, up to which elastic averaging is stable on a "
            "quadratic of curvature 1"
        )
    if moving_rate * workers > 1 + 1e-6:  # 1 / P times P may exceed 1 by a rounding error
        doubts.append(
            f"exchange.moving_rate = {moving_rate:g} with {workers} workers: past 1 / workers = "
            f"{1 / workers:.4g} the center overshoots the mean of the workers (β = P α <= 1); "
            f"0.9 / workers = {0.9 / workers:.4g} is the usual choice"
        )
    return doubts


def downpour_doubts(period: int) -> list[str]:
    """Return a warning if workers drift too far apart between two pushes."""
    if period <= LONGEST_DOWNPOUR:
        return []
    return [
        f"exchange.communication_period = {period}: DOWNPOUR was found unstable at 16 and 64 "
        f"steps, and best at 1 to {LONGEST_DOWNPOUR}; elastic averaging (easgd) allows more"
    ]
