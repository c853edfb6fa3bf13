"""A solver of Caffe as settings of a run, each with the field and line that it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from knltrain.errors import ConfigError, unknown_name
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net import CaffeNet
from knltrain.interchange.caffe.policies import rate_settings
from knltrain.interchange.caffe.settings import SolverSettings
from knltrain.network.layers import BatchNormalisation


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

_DROPPED: Final = {
    "ap_version": "knltrain classifies",
    "average_loss": "metrics-*.jsonl has the loss of every step that is recorded",
    "debug_info": "see train.trace_steps",
    "device_id": "knltrain trains on CPUs",
    "display": "progress is shown by time",
    "engine": "see backend.implementation",
    "eval_type": "knltrain classifies",
    "layer_wise_reduce": "see exchange.method = 'layerwise_sgd'",
    "show_per_class_result": "knltrain reports the accuracy of all classes together",
    "snapshot_after_train": "the last model is always written",
    "snapshot_diff": "checkpoints have no gradients",
    "snapshot_format": "checkpoints are safetensors",
    "solver_mode": "knltrain trains on CPUs",
    "test_compute_loss": "the loss of tests is always computed",
    "test_initialization": "the untrained network is not tested",
}
_REGULARISATIONS: Final = {"L2": "l2", "L1": "l1"}
_OF_POLICIES: Final = {
    *("gamma", "power", "stepsize", "stepvalue", "stagelr", "stageiter", "warmup_start_lr")
}
_SEED_LIMIT: Final = 1 << 63


def settings_of(solver: Message, net: CaffeNet) -> SolverSettings:
    """The settings of a run that trains `net` as the solver says."""
    found = SolverSettings(solver)
    for part, names in _PARTS.items():
        try:
            part(found, net)
        except ConfigError as error:
            found.refusals.append(str(error))
            for name in names:
                solver.all(name)
    for name, why in _DROPPED.items():
        found.note(name, why)
    for path, each in solver.unread():
        found.refusals.append(
            str(
                solver.error(
                    each.line,
                    f"{path} is not known here, and may change how it trains: leave it out if it "
                    "does not",
                )
            )
        )
    return found


def _length(found: SolverSettings, net: CaffeNet) -> None:
    solver = found.solver
    steps, passes = solver.whole("max_iter", 0), solver.whole("iter_size", 1)
    if steps < 1 or passes < 1:
        name = "max_iter" if steps < 1 else "iter_size"
        raise solver.error(solver.line_of(name) or solver.line, f"{name}: expected at least 1")
    found.put("train.steps", steps, "max_iter")
    batch = net.source.batch
    if batch is None:
        raise solver.error(
            solver.line, f"layer {net.source.kind} of its net says no batch_size: expected it"
        )
    found.put("train.batch", batch, why=f"batch_size, line {net.source.line} of the net")
    if passes > 1:
        found.put("train.iter_size", passes, "iter_size")
    if any(isinstance(each, BatchNormalisation) for each in net.network.layers):
        found.put("workers", 1, why="BatchNorm normalises the whole batch")


def _optimizer(found: SolverSettings, _net: CaffeNet) -> None:
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


def _rates(found: SolverSettings, _net: CaffeNet) -> None:
    for key, value, fields, why in rate_settings(found.solver):
        found.put(f"learning_rate.{key}", value, *fields, why=why)
    for name in {path for path, _ in found.solver.unread()} & _OF_POLICIES:
        found.note(name, "its lr_policy does not read it")


def _tests(found: SolverSettings, net: CaffeNet) -> None:
    solver = found.solver
    batches, interval = solver.wholes("test_iter"), solver.whole("test_interval", 0)
    if not batches:
        found.put("evaluation.every_epochs", 0.0, why="no test_iter: only at the end")
        return
    if len(batches) > 1:
        raise solver.error(
            solver.all("test_iter")[1].line, "several test nets: expected one test_iter"
        )
    if interval < 1 or batches[0] < 1:
        name = "test_interval" if interval < 1 else "test_iter"
        raise solver.error(
            solver.line_of(name) or solver.line_of("test_iter") or solver.line,
            f"{name}: expected it with test_iter, at least 1",
        )
    found.put("evaluation.every_steps", interval, "test_interval")
    if net.test_batch is not None:
        images = batches[0] * net.test_batch
        found.put(
            "data.test_images", images, "test_iter", why=f"times its batch_size, {net.test_batch}"
        )


def _snapshots(found: SolverSettings, _net: CaffeNet) -> None:
    solver = found.solver
    period, prefix = solver.whole("snapshot", 0), solver.text("snapshot_prefix")
    if period > 0:
        found.put("checkpoint.every_steps", period, "snapshot")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", prefix.rpartition("/")[2]).lstrip("._-")[:100]
    found.put("name", name or "caffe", *(["snapshot_prefix"] if name else []))


def _others(found: SolverSettings, _net: CaffeNet) -> None:
    solver = found.solver
    seed = solver.whole("random_seed", -1)
    if seed >= _SEED_LIMIT:
        raise solver.error(
            solver.line_of("random_seed") or solver.line,
            f"random_seed: {seed}: expected a number below 2**63",
        )
    if seed >= 0:
        found.put("seed", seed, "random_seed")
    weights = solver.texts("weights")
    if len(weights) > 1 or any("," in each for each in weights):
        raise solver.error(
            solver.line_of("weights") or solver.line, "weights of several files: expected one"
        )
    if weights:
        found.put("network.weights", weights[0], "weights")


_PARTS: Final[dict[Callable[[SolverSettings, CaffeNet], None], tuple[str, ...]]] = {
    _length: ("max_iter", "iter_size"),
    _optimizer: (
        *("type", "solver_type", "weight_decay", "regularization_type", "clip_gradients"),
        *(name for each in SOLVER_TYPES.values() for name, _ in each.numbers.values()),
    ),
    _rates: ("base_lr", "lr_policy", "warmup_iter", *_OF_POLICIES),
    _tests: ("test_iter", "test_interval"),
    _snapshots: ("snapshot", "snapshot_prefix"),
    _others: ("random_seed", "weights"),
}
"""What reads the fields of a solver, and which: one that cannot be kept makes no other unknown."""
