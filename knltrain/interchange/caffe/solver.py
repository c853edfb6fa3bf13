"""A solver of Caffe as settings of a run, each with the field and line that it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net import CaffeNet
from knltrain.interchange.caffe.policies import rate_settings
from knltrain.interchange.caffe.settings import SolverSettings
from knltrain.interchange.caffe.solver_types import OPTIMIZER_FIELDS, put_optimizer
from knltrain.network.layers import BatchNormalisation

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
        if passes > 1:
            found.notes.append(
                f"{solver.place(solver.line_of('iter_size') or solver.line)}: running statistics "
                f"of BatchNorm move once a step, by the mean of its {passes} batches: Caffe's move "
                "with each"
            )
        found.put("workers", 1, why="BatchNorm normalises the whole batch")


def _loss(found: SolverSettings, net: CaffeNet) -> None:
    if net.loss is not None and net.loss[0] != "softmax_cross_entropy":
        kind, line = net.loss
        found.put("loss.kind", kind, why=f"the loss of the net's line {line}")


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
    for each in solver.all("test_iter")[1:]:
        found.notes.append(f"{solver.place(each.line)}: {each.told} dropped: the first is tested")
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
    lambda found, _: put_optimizer(found): OPTIMIZER_FIELDS,
    _loss: (),
    _rates: ("base_lr", "lr_policy", "warmup_iter", *_OF_POLICIES),
    _tests: ("test_iter", "test_interval"),
    _snapshots: ("snapshot", "snapshot_prefix"),
    _others: ("random_seed", "weights"),
}
"""What reads the fields of a solver, and which: one that cannot be kept makes no other unknown."""
