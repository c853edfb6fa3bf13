"""Caffe's learning-rate policies as keys of [learning_rate]."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from knltrain.errors import unknown_name
from knltrain.interchange.caffe.message import Message


class RateSetting(NamedTuple):
    """A key, its value, the fields that it comes from, and a reason."""

    key: str
    value: Any
    fields: tuple[str, ...]
    why: str = ""


_POLICIES: Final[dict[str, dict[str, str]]] = {
    "fixed": {},
    "step": {"gamma": "gamma", "stepsize": "step_size"},
    "exp": {"gamma": "gamma"},
    "inv": {"gamma": "gamma", "power": "power"},
    "multistep": {"gamma": "gamma", "stepvalue": "step_values"},
    "poly": {"power": "power"},
    "sigmoid": {"gamma": "gamma", "stepsize": "step_size"},
}
"""The fields that each reads -> our keys; names and formulas are the same."""

_WITHOUT: Final = {
    "plateau": "expected multistep, with the steps at which it fell",
}


def rate_settings(solver: Message) -> list[RateSetting]:
    """The keys of a solver's learning rate; ConfigError for what ours cannot say."""
    base, name = solver.number("base_lr", 0.0), solver.text("lr_policy")
    if name == "multifixed":
        found = _stages(solver)
        if solver.whole("warmup_iter", 0) > 0 and base != found[0].value:
            raise solver.error(
                solver.line_of("warmup_iter") or solver.line,
                f"the warm-up aims at base_lr, {base}, and 'multifixed' begins with stagelr "
                f"{found[0].value}: expected the same",
            )
        return [*found, *_warmup(solver)]
    if not base > 0:
        raise solver.error(
            solver.line_of("base_lr") or solver.line, "base_lr: expected it, above 0"
        )
    line = solver.line_of("lr_policy") or solver.line
    if name in _WITHOUT:
        raise solver.error(line, f"lr_policy: '{name}' is not there: {_WITHOUT[name]}")
    if name not in _POLICIES:
        raise solver.error(line, unknown_name("lr_policy", name, _POLICIES))
    found = [
        RateSetting("base", base, ("base_lr",)),
        RateSetting("policy", name, ("lr_policy",)),
    ]
    for field, key in _POLICIES[name].items():
        if solver.line_of(field) is None:
            raise solver.error(line, f"lr_policy: '{name}' needs {field}: expected it")
        if field == "stepvalue":
            found.append(RateSetting(key, solver.wholes(field), (field,)))
        elif field == "stepsize":
            found.append(RateSetting(key, solver.whole(field, 0), (field,)))
        else:
            found.append(_number(solver, name, field, key))
    return [*found, *_warmup(solver)]


def _number(solver: Message, policy: str, field: str, key: str) -> RateSetting:
    value, line = solver.number(field, 0.0), solver.line_of(field) or solver.line
    may_be_negative = (policy, field) == ("sigmoid", "gamma") and value != 0
    if not value > 0 and not may_be_negative:
        raise solver.error(line, f"{field}: {value}: expected a number above 0")
    return RateSetting(key, value, (field,))


def _warmup(solver: Message) -> list[RateSetting]:
    """Intel's warm-up, which aims at base_lr."""
    steps = solver.whole("warmup_iter", 0)
    if steps <= 0:
        return []
    start = solver.number("warmup_start_lr", 0.0)
    return [
        RateSetting("warmup_steps", steps, ("warmup_iter",)),
        RateSetting("warmup_start", start, ("warmup_start_lr",)),
        RateSetting("warmup_target", "base", ("warmup_iter",)),
    ]


def _stages(solver: Message) -> list[RateSetting]:
    """Intel's multifixed: a stage's rate holds up to its last step, that of the last for ever."""
    rates, ends = solver.numbers("stagelr"), solver.wholes("stageiter")
    if not rates or len(rates) != len(ends) or not rates[0] > 0:
        raise solver.error(
            solver.line_of("stagelr") or solver.line_of("lr_policy") or solver.line,
            f"lr_policy: 'multifixed' with {len(rates)} stagelr and {len(ends)} stageiter: "
            "expected as many of both, the first rate above 0",
        )
    if len(rates) == 1:
        return [RateSetting("base", rates[0], ("stagelr",)), RateSetting("policy", "fixed", ())]
    begins = [end + 1 for end in ends[:-1]]
    return [
        RateSetting("base", rates[0], ("stagelr",)),
        RateSetting("policy", "piecewise", ("lr_policy",)),
        RateSetting("step_values", begins, ("stageiter",), "the steps behind these"),
        RateSetting("step_rates", rates[1:], ("stagelr",)),
    ]
