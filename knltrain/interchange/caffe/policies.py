"""Caffe's learning-rate policies as keys of [learning_rate]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from knltrain.errors import unknown_name
from knltrain.interchange.caffe.message import Message


class RateSetting(NamedTuple):
    """A key, its value, the fields that it comes from, and a reason."""

    key: str
    value: Any
    fields: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Policy:
    """The fields that a policy reads -> our keys, and the step until which its rate is base_lr."""

    keys: Mapping[str, str]
    stays_until: Callable[[Message], float] = lambda _: 0


_POLICIES: Final = {
    "fixed": _Policy({}, lambda _: float("inf")),
    "step": _Policy(
        {"gamma": "gamma", "stepsize": "step_size"}, lambda solver: solver.whole("stepsize", 0)
    ),
    "exp": _Policy({"gamma": "gamma"}),
    "inv": _Policy({"gamma": "gamma", "power": "power"}),
    "multistep": _Policy(
        {"gamma": "gamma", "stepvalue": "step_values"},
        lambda solver: min(solver.wholes("stepvalue"), default=0),
    ),
    "poly": _Policy({"power": "power"}),
    "sigmoid": _Policy({"gamma": "gamma", "stepsize": "step_size"}),
}
"""Each has the same name and formula as ours."""

_WITHOUT: Final = {
    "plateau": "expected multistep, with the steps at which it fell",
    "multifixed": "expected multistep",
}


def rate_settings(solver: Message) -> list[RateSetting]:
    """The keys of a solver's learning rate; ConfigError for what ours cannot say."""
    base, name = solver.number("base_lr", 0.0), solver.text("lr_policy")
    if not base > 0:
        raise solver.error(
            solver.line_of("base_lr") or solver.line, "base_lr: expected it, above 0"
        )
    line = solver.line_of("lr_policy") or solver.line
    if name in _WITHOUT:
        raise solver.error(line, f"lr_policy: '{name}' is not there: {_WITHOUT[name]}")
    if name not in _POLICIES:
        raise solver.error(line, unknown_name("lr_policy", name, _POLICIES))
    policy = _POLICIES[name]
    found = [
        RateSetting("base", base, ("base_lr",)),
        RateSetting("policy", name, ("lr_policy",)),
    ]
    for field, key in policy.keys.items():
        if solver.line_of(field) is None:
            raise solver.error(line, f"lr_policy: '{name}' needs {field}: expected it")
        if field == "stepvalue":
            found.append(RateSetting(key, solver.wholes(field), (field,)))
        elif field == "stepsize":
            found.append(RateSetting(key, solver.whole(field, 0), (field,)))
        else:
            found.append(_number(solver, name, field, key))
    return [*found, *_warmup(solver, name, policy)]


def _number(solver: Message, policy: str, field: str, key: str) -> RateSetting:
    value, line = solver.number(field, 0.0), solver.line_of(field) or solver.line
    if (policy, field) == ("sigmoid", "gamma"):
        if value >= 0:
            raise solver.error(
                line, f"gamma: {value} lets the rate of 'sigmoid' rise: expected one below 0"
            )
        return RateSetting(key, -value, (field,), "its magnitude: the rate falls")
    if not value > 0:
        raise solver.error(line, f"{field}: {value}: expected a number above 0")
    return RateSetting(key, value, (field,))


def _warmup(solver: Message, name: str, policy: _Policy) -> list[RateSetting]:
    """Intel's warm-up, which aims at base_lr; ours at the policy's rate."""
    steps, start = solver.whole("warmup_iter", 0), solver.number("warmup_start_lr", 0.0)
    if steps <= 0:
        return []
    if steps > policy.stays_until(solver):
        raise solver.error(
            solver.line_of("warmup_iter") or solver.line,
            f"warmup_iter: {steps} aims at base_lr, knltrain's at the rate of '{name}', which has "
            "fallen by then: expected a policy that stays at base_lr for so long",
        )
    return [
        RateSetting("warmup_steps", steps, ("warmup_iter",)),
        RateSetting("warmup_start", start, ("warmup_start_lr",)),
    ]
