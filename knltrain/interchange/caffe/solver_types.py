"""Caffe's types of solvers as optimizers of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from knltrain.errors import unknown_name
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.settings import SolverSettings


@dataclass(frozen=True, slots=True)
class SolverType:
    """The optimizer of a type: its name and keys, and the numbers that it takes from fields."""

    optimizer: str
    numbers: Mapping[str, tuple[str, float]]
    """Key of ours -> Caffe's field and its default."""
    fixed: Mapping[str, Any] = field(default_factory=dict)


_DELTA: Final = ("delta", 1e-8)
_MOMENTUM: Final = ("momentum", 0.0)
SOLVER_TYPES: Final = {
    "SGD": SolverType("sgd", {"momentum": _MOMENTUM}),
    "Nesterov": SolverType("sgd", {"momentum": _MOMENTUM}, {"nesterov": True}),
    "AdaGrad": SolverType("adagrad", {"epsilon": _DELTA}),
    "RMSProp": SolverType("rmsprop", {"rho": ("rms_decay", 0.99), "epsilon": _DELTA}),
    "AdaDelta": SolverType("adadelta", {"rho": _MOMENTUM, "epsilon": _DELTA}),
    "Adam": SolverType(
        "adam", {"beta1": _MOMENTUM, "beta2": ("momentum2", 0.999), "epsilon": _DELTA}
    ),
}
_OLD_TYPES: Final = {name.upper(): name for name in SOLVER_TYPES}
_REGULARISATIONS: Final = {"L2": "l2", "L1": "l1"}
OPTIMIZER_FIELDS: Final = (
    *("type", "solver_type", "weight_decay", "regularization_type", "clip_gradients"),
    *(name for each in SOLVER_TYPES.values() for name, _ in each.numbers.values()),
)
"""What `put_optimizer` reads."""


def put_optimizer(found: SolverSettings) -> None:
    """Set the keys of `[optimizer]`; ConfigError for what no optimizer of ours is."""
    solver = found.solver
    kind = _type(solver)
    found.put("optimizer.name", kind.optimizer, "type")
    for key, value in kind.fixed.items():
        found.put(f"optimizer.{key}", value, "type")
    for key, (name, default) in kind.numbers.items():
        found.put(f"optimizer.{key}", solver.number(name, default), name)
    unused = {name for each in SOLVER_TYPES.values() for name, _ in each.numbers.values()}
    for name in sorted(unused - {name for name, _ in kind.numbers.values()}):
        found.note(name, f"'{kind.optimizer}' does not read it")
    decay = solver.number("weight_decay", 0.0)
    found.put("optimizer.weight_decay", decay, "weight_decay")
    form = solver.text("regularization_type", "L2")
    if form not in _REGULARISATIONS:
        raise solver.error(
            solver.line_of("regularization_type") or solver.line,
            unknown_name("regularization_type", form, _REGULARISATIONS),
        )
    if form != "L2" and decay:
        found.put("optimizer.regularisation", _REGULARISATIONS[form], "regularization_type")
    limit = solver.number("clip_gradients", -1.0)
    if limit >= 0:  # One of 0, which would stop everything, is refused with the rest.
        found.put("optimizer.clip_norm", limit, "clip_gradients")


def _type(solver: Message) -> SolverType:
    named, old = solver.text("type"), solver.choice("solver_type", None, _OLD_TYPES)
    if named and old:
        raise solver.error(
            solver.line_of("solver_type") or solver.line,
            f"type (line {solver.line_of('type')}) and solver_type: expected one of them",
        )
    name = named or old or "SGD"
    if name not in SOLVER_TYPES:
        raise solver.error(
            solver.line_of("type") or solver.line, unknown_name("type", name, SOLVER_TYPES)
        )
    return SOLVER_TYPES[name]
