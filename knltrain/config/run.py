"""The description of a whole run, and what its tables must agree on."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from knltrain.config.tables import (
    BackendConfig,
    CheckpointConfig,
    CountOrAuto,
    DataConfig,
    EvaluationConfig,
    ExchangeConfig,
    LearningRateConfig,
    NetworkConfig,
    OptimizerConfig,
    PlacementConfig,
    Table,
    TrainConfig,
)

Workers: TypeAlias = CountOrAuto | Literal["core", "tile", "l3", "numa", "package"]


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
