"""Which choices of a method may not be stable: the bounds, and how a choice lies to them."""

from __future__ import annotations

LONGEST_DOWNPOUR = 4
"""Steps: the longest period with which Zhang, Choromanska and LeCun found DOWNPOUR stable."""


def elastic_doubts(moving_rate: float, workers: int, learning_rate: float) -> list[str]:
    """Tell which bounds of elastic averaging a moving rate α is past, with P workers and rate η.

    Zhang, Choromanska, LeCun 2015: on a quadratic of curvature 1, workers that take turns are
    stable for 0 <= η <= 2 and 0 <= α <= (4 - 2 η) / (4 - η), whatever P is; their center is no
    longer between itself and the workers' mean past β = P α = 1.
    """
    doubts = []
    bound = (4 - 2 * learning_rate) / (4 - learning_rate) if learning_rate < 2 else 0.0
    if moving_rate > bound:
        doubts.append(
            f"exchange.moving_rate = {moving_rate:g} with learning rate {learning_rate:g}: past "
            f"(4 - 2 η) / (4 - η) = {bound:.4g}, up to which elastic averaging is stable on a "
            "quadratic of curvature 1"
        )
    if moving_rate * workers > 1 + 1e-6:  # 1 / P times P may come out above 1 by a rounding
        doubts.append(
            f"exchange.moving_rate = {moving_rate:g} with {workers} workers: past 1 / workers = "
            f"{1 / workers:.4g} the center overshoots the mean of the workers (β = P α <= 1); "
            f"0.9 / workers = {0.9 / workers:.4g} is the usual choice"
        )
    return doubts


def downpour_doubts(period: int) -> list[str]:
    """Tell if workers drift too far apart between two pushes."""
    if period <= LONGEST_DOWNPOUR:
        return []
    return [
        f"exchange.communication_period = {period}: DOWNPOUR was found unstable at 16 and 64 "
        f"steps, and best at 1 to {LONGEST_DOWNPOUR}; elastic averaging (easgd) allows more"
    ]
