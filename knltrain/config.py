"""Every choice of one run: read from a TOML file, checked, frozen, written back whole."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from knltrain.errors import ConfigError, unknown_name

# Python 3.10 has no tomllib; tomli is the same parser under its older name.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Name: TypeAlias = Annotated[str, Field(min_length=1)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
CountOrAuto: TypeAlias = Count | Literal["auto"]
Workers: TypeAlias = CountOrAuto | Literal["core", "tile", "l3", "numa", "package"]
CpuList: TypeAlias = Annotated[str, Field(pattern=r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$")]
NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, lt=1)]

# What each learning-rate policy reads besides `base`.
POLICY_KEYS: dict[str, frozenset[str]] = {
    "fixed": frozenset(),
    "step": frozenset({"gamma", "step_size"}),
    "multistep": frozenset({"gamma", "step_values"}),
    "exp": frozenset({"gamma"}),
    "inv": frozenset({"gamma", "power"}),
    "poly": frozenset({"power"}),
    "sigmoid": frozenset({"gamma", "step_size"}),
    "cosine": frozenset(),
}
ALTERNATIVES = {"train.epochs": "train.steps", "train.steps": "train.epochs"}
SUBJECT = re.compile(r"^\w+ should ")  # how pydantic's messages begin


class Table(BaseModel):
    """Base of all tables: no unknown keys, no guessed types, no changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NetworkConfig(Table):
    """[network]: what is trained."""

    name: Name = Field(description="network to train, such as 'lenet'")


class DataConfig(Table):
    """[data]: what it is trained and tested on."""

    name: Name = Field(description="data set, such as 'digits' or 'mnist'")
    root: str | None = Field(default=None, description="folder with the data set's files")
    train_images: Count | None = Field(
        default=None, description="use only the first N training images"
    )
    test_images: Count | None = Field(default=None, description="use only the first N test images")
    shift_pixels: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="move training images by up to so many pixels, anew in every epoch"
    )


class TrainConfig(Table):
    """[train]: how long, and how many images a step takes."""

    epochs: Count | None = Field(default=None, description="passes over the training images")
    steps: Count | None = Field(default=None, description="steps, instead of epochs")
    batch: Count = Field(description="images per step over all workers together")

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        if (self.epochs is None) == (self.steps is None):
            given = "neither" if self.epochs is None else "both"
            raise ValueError(f"expected exactly one of epochs and steps, got {given}")
        return self


class OptimizerConfig(Table):
    """[optimizer]: what a worker does with its gradient."""

    name: Name = Field(default="sgd", description="optimizer of every worker")
    momentum: Fraction = Field(
        default=0.9, description="share of the velocity kept from step to step (μ)"
    )
    weight_decay: NotNegative = Field(
        default=0.0, description="pull of every parameter towards 0 (λ)"
    )
    nesterov: bool = Field(default=False, description="Nesterov's form of the momentum")


class LearningRateConfig(Table):
    """[learning_rate]: η as a function of the step; Caffe's names and formulas."""

    base: Positive = Field(description="learning rate that the policy starts from")
    policy: Literal["fixed", "step", "multistep", "exp", "inv", "poly", "sigmoid", "cosine"] = (
        Field(default="fixed", description="how the rate falls")
    )
    gamma: Positive | None = Field(default=None, description="factor or slope of the policy")
    power: Positive | None = Field(default=None, description="exponent of 'inv' and 'poly'")
    step_size: Count | None = Field(
        default=None, description="steps between drops, centre of 'sigmoid'"
    )
    step_values: Annotated[tuple[Count, ...], Field(strict=False)] | None = Field(
        default=None, description="steps at which 'multistep' drops, rising"
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(
        default=0, description="steps over which the rate rises linearly to the policy's"
    )
    warmup_start: NotNegative = Field(default=0.0, description="rate that the warm-up starts from")

    @model_validator(mode="after")
    def _policy_has_its_keys(self) -> LearningRateConfig:
        policy_keys = frozenset[str]().union(*POLICY_KEYS.values())
        given = {key for key in policy_keys if getattr(self, key) is not None}
        needed = POLICY_KEYS[self.policy]
        if missing := sorted(needed - given):
            raise ValueError(f"policy '{self.policy}' needs {' and '.join(missing)}")
        if surplus := sorted(given - needed):
            raise ValueError(f"policy '{self.policy}' does not read {' and '.join(surplus)}")
        values = self.step_values or ()
        if any(later <= earlier for earlier, later in pairwise(values)):
            raise ValueError(f"step_values must rise, got {list(values)}")
        return self


class ExchangeConfig(Table):
    """[exchange]: how the workers' models are brought together."""

    method: Name = Field(default="sync_easgd", description="'sync_easgd', 'sync_sgd' or 'none'")
    moving_rate: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="pull between a worker and the center (α); left out: 0.9 / workers",
    )
    communication_period: Count = Field(
        default=1, description="steps from exchange to exchange (τ)"
    )
    segment: Literal["shm", "memfd", "hugetlb"] = Field(
        default="shm", description="kind of shared memory; hugetlb: huge pages that were set aside"
    )
    timeout_seconds: Positive = Field(default=60.0, description="longest wait for another worker")


class BackendConfig(Table):
    """[backend]: what computes loss and gradient."""

    name: Name = Field(default="cpu", description="'cpu' or 'torch'")
    implementation: Name = Field(
        default="numba", description="kernels of the cpu backend: 'numba', 'onednn' or 'reference'"
    )
    threads: CountOrAuto = Field(
        default="auto", description="threads per worker; auto: one per core"
    )


class EvaluationConfig(Table):
    """[evaluation]: when the model is measured on the test images."""

    every_epochs: NotNegative = Field(
        default=1.0, description="epochs between two; 0: only at the end"
    )


class CheckpointConfig(Table):
    """[checkpoint]: when the run is written down so that it can be continued."""

    every_epochs: NotNegative = Field(
        default=0.0, description="epochs between two; 0: only at the end"
    )
    keep: Count = Field(
        default=2, description="how many are kept, besides one not yet known to be good"
    )


class PlacementConfig(Table):
    """[placement]: where the workers run, and where their memory lies."""

    pin: bool = Field(default=True, description="bind every worker to cores of its own")
    threads_per_core: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1, description="computing threads on each core"
    )
    os_cpus: CpuList = Field(
        default="", description="cpus, such as 0,52, whose cores are left to the system"
    )
    os_cores: Annotated[int, Field(ge=0)] = Field(
        default=0, description="cores of each package that are left to the system"
    )
    memory: Literal["strict", "spill", "split", "weighted", "cache", "none"] = Field(
        default="spill", description="how a worker's memory is tied to its nodes"
    )
    memory_kind: Literal["best", "hbm", "dram"] = Field(
        default="best", description="memory to use first; best: HBM where there is some"
    )
    hbm_nodes: Annotated[str, Field(pattern=r"^[\d,@-]*$")] = Field(
        default="", description="NUMA nodes that are HBM, where the machine does not tell"
    )


class RunConfig(Table):
    """One run; `workers` and `threads` may be left to the machine ("auto")."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)] = Field(
        default="run", description="name of the run's folder"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        default=1, description="start of all random numbers: parameters and order of images"
    )
    workers: Workers = Field(
        default="auto",
        description="workers on this computer, or one per core, tile, l3, numa or package",
    )
    runs_folder: Annotated[str, Field(min_length=1)] = Field(
        default="runs", description="folder that the run's folder is made in"
    )
    network: NetworkConfig
    data: DataConfig
    train: TrainConfig
    optimizer: OptimizerConfig = OptimizerConfig()
    learning_rate: LearningRateConfig
    exchange: ExchangeConfig = ExchangeConfig()
    backend: BackendConfig = BackendConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    placement: PlacementConfig = PlacementConfig()

    @model_validator(mode="after")
    def _workers_fit(self) -> RunConfig:
        if isinstance(self.workers, int):
            _check_batch(self.train.batch, self.workers)
            _check_moving_rate(self.exchange.moving_rate, self.workers)
        return self


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run description, with single keys replaced by `overrides` such as "train.epochs=5".

    The value of an override is TOML, or else a string as it stands; without a value the key is
    removed. train.steps replaces train.epochs and the other way round. Raises ConfigError that
    names the file and all keys that are wrong.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}): give a TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    _override(tables, overrides)
    return _validated(tables, str(path))


def with_workers(config: RunConfig, workers: int) -> RunConfig:
    """The same run with its number of workers decided; ConfigError when the batch does not fit."""
    return _validated(config.model_dump() | {"workers": workers}, f"run '{config.name}'")


def to_toml(config: RunConfig) -> str:
    """The whole configuration, defaults included, as TOML that `load_config` reads back equal."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def _check_batch(batch: int, workers: int) -> None:
    if batch % workers:
        fitting = max(workers, batch - batch % workers)
        raise ValueError(
            f"train.batch = {batch} images do not divide evenly among {workers} workers: "
            f"use a multiple of {workers}, such as {fitting}"
        )


def _check_moving_rate(moving_rate: float | None, workers: int) -> None:
    if moving_rate is not None and moving_rate > 1 / workers:
        raise ValueError(
            f"exchange.moving_rate = {moving_rate} with {workers} workers: expected at most "
            f"1 / workers = {1 / workers:.4g}, past which the center overshoots the workers' mean; "
            f"0.9 / workers = {0.9 / workers:.4g} is the usual choice"
        )


def _override(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    changes = [_split(override) for override in overrides]
    for key, text in changes:
        if text and key in ALTERNATIVES:
            _table_of(ALTERNATIVES[key], tables).pop(_last(ALTERNATIVES[key]), None)
    for key, text in changes:
        table = _table_of(key, tables)
        if text:
            table[_last(key)] = _parsed(key, text)
        else:
            table.pop(_last(key), None)


def _split(override: str) -> tuple[str, str]:
    key, equals, text = (part.strip() for part in override.partition("="))
    if not equals or not all(key.split(".")):
        raise ConfigError(f"--set {override}: expected KEY=VALUE, such as train.epochs=5")
    return key, text


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _table_of(key: str, tables: dict[str, Any]) -> dict[str, Any]:
    table = tables
    for part in key.split(".")[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {key}: '{part}' is a value, not a table")
    return table


def _parsed(key: str, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[0] in "\"'[{":
            raise ConfigError(f"--set {key}={text}: not valid TOML: {error}") from error
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _validated(tables: Mapping[str, Any], source: str) -> RunConfig:
    try:
        return RunConfig.model_validate(tables)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {line}" for line in _explain(error))) from error


def _explain(error: ValidationError) -> Iterable[str]:
    """One line per wrong key: pydantic reports each member of a union on its own."""
    problems: dict[str, list[ErrorDetails]] = {}
    for problem in error.errors():
        problems.setdefault(_key(problem["loc"]), []).append(problem)
    return [_explained(key, found) for key, found in problems.items()]


def _explained(key: str, problems: list[ErrorDetails]) -> str:
    kind, message = problems[0]["type"], problems[0]["msg"]
    if kind == "extra_forbidden":
        return unknown_name("key", key, _known_keys(key))
    if kind == "missing":
        return f"{key} is missing{_described(key)}"
    if kind == "value_error":
        cause = message.removeprefix("Value error, ")
        return f"[{key}]: {cause}" if key else cause
    wishes = dict.fromkeys(SUBJECT.sub("", problem["msg"]) for problem in problems)
    return f"{key} = {problems[0]['input']!r}: expected to {' or to '.join(wishes)}"


def _key(location: tuple[int | str, ...]) -> str:
    """Dotted key of a pydantic location, without the union members that end it."""
    depth = 2 if location and location[0] in _tables() else 1
    indices = "".join(f"[{part}]" for part in location[depth:] if isinstance(part, int))
    return ".".join(str(part) for part in location[:depth]) + indices


def _tables() -> dict[str, type[Table]]:
    return {
        name: field.annotation
        for name, field in RunConfig.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table)
    }


def _keys() -> dict[str, str]:
    """Description of every key by its dotted name."""
    keys = {name: field.description or "" for name, field in RunConfig.model_fields.items()}
    for name, table in _tables().items():
        keys |= {f"{name}.{k}": field.description or "" for k, field in table.model_fields.items()}
    return keys


def _known_keys(unknown: str) -> list[str]:
    """Keys of the table that `unknown` stands in, and keys of the same last name elsewhere."""
    table = unknown.rpartition(".")[0]
    return [
        key for key in _keys() if key.rpartition(".")[0] == table or _last(key) == _last(unknown)
    ]


def _described(key: str) -> str:
    description = _keys().get(key)
    return f": {description}" if description else ""
