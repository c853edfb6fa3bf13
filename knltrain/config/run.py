"""The configuration of a whole run, and checks across its tables."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from knltrain.config.backend_tables import BackendConfig, BalanceConfig
from knltrain.config.data_table import DataConfig
from knltrain.config.exchange_table import ExchangeConfig
from knltrain.config.methods import METHODS, OPTIONS
from knltrain.config.optimizer_tables import LearningRateConfig, OptimizerConfig
from knltrain.config.tables import (
    CheckpointConfig,
    CountOrAuto,
    EvaluationConfig,
    Folder,
    LossConfig,
    NetworkConfig,
    PlacementConfig,
    PreemptionConfig,
    Table,
    TrainConfig,
)

Workers: TypeAlias = CountOrAuto | Literal["core", "tile", "l3", "numa", "package"]

_MEASURED: Final = (
    ("backend", "tuning", "full", "'auto' or 'off'"),
    ("backend", "micro_batch", "auto", "a number of images"),
    ("balance", "shares", "fitted", "numbers, or balance.replay"),
    ("balance", "periods", "by_speed", "numbers"),
)
"""Tables, keys and values that stand for what is measured, and what may stand there instead."""


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
        description="workers on each computer, or one per core, tile, l3, numa or package",
    )
    nodes: CountOrAuto = Field(
        default="auto", description="computers; auto: as many as the launcher (srun, ...) uses"
    )
    runs_folder: Folder = Field(
        default="runs", description="folder that the run's folder is made in"
    )
    network: NetworkConfig
    data: DataConfig
    train: TrainConfig
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    learning_rate: LearningRateConfig
    exchange: ExchangeConfig = ExchangeConfig()
    backend: BackendConfig = BackendConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    preemption: PreemptionConfig = PreemptionConfig()
    placement: PlacementConfig = PlacementConfig()
    balance: BalanceConfig = BalanceConfig()

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_method(cls, given: Any) -> Any:
        """Fill in the method's defaults for keys that were not given."""
        if not isinstance(given, dict):
            return given
        tables = {name: _given_keys(given.get(name, {})) for name in ("exchange", "optimizer")}
        exchange, optimizer = tables["exchange"], tables["optimizer"]
        name = exchange.get("method") if exchange is not None else None
        facts = METHODS.get(name) if isinstance(name, str) else None
        if facts is None or exchange is None or optimizer is None:
            return given
        ours = dict(facts.exchange)
        if not exchange.keys().isdisjoint(("beta", "rho")):
            ours.pop("moving_rate", None)
        theirs = facts.optimizer.get("name", "sgd")
        of_theirs = facts.optimizer if optimizer.get("name", theirs) == theirs else {}
        return {
            **given,
            "exchange": {**ours, **exchange},
            "optimizer": {**of_theirs, **optimizer},
        }

    @model_validator(mode="after")
    def _crops_have_a_softmax(self) -> RunConfig:
        if self.evaluation.crops > 1 and self.loss.kind != "softmax_cross_entropy":
            raise ValueError(
                f"evaluation.crops = {self.evaluation.crops} averages softmax, which loss.kind = "
                f"'{self.loss.kind}' has not: expected 1, or loss.kind = 'softmax_cross_entropy'"
            )
        return self

    @model_validator(mode="after")
    def _method_reads_its_keys(self) -> RunConfig:
        facts, exchange = METHODS.get(self.exchange.method), self.exchange
        if facts is None:
            return self  # An unknown name is refused later, where its object is made.
        for key in OPTIONS:
            if getattr(exchange, key) is not None and key not in facts.reads:
                known = ", ".join(name for name, each in METHODS.items() if key in each.reads)
                raise ValueError(
                    f"exchange.{key} = {getattr(exchange, key)} is read by {known}, not by "
                    f"{exchange.method}: leave it out"
                )
        return self

    @model_validator(mode="after")
    def _method_can_end_so(self) -> RunConfig:
        facts, exchange = METHODS.get(self.exchange.method), self.exchange
        if facts is None or exchange.termination == "each" or facts.comes_at_any_time:
            return self
        known = ", ".join(name for name, each in METHODS.items() if each.comes_at_any_time)
        raise ValueError(
            f"exchange.termination = '{exchange.termination}' is for methods whose workers visit "
            f"the center at any time ({known}), not for {exchange.method}: leave it out, or set it "
            "to 'each'"
        )

    @model_validator(mode="after")
    def _nothing_depends_on_time(self) -> RunConfig:
        if not self.train.deterministic:
            return self
        facts = METHODS.get(self.exchange.method)
        is_alone = isinstance(self.workers, int) and self.total_workers == 1
        come_alone = facts is not None and (
            facts.schedule in ("first_come", "lock_free") or facts.sums_in_any_order
        )
        if come_alone and not is_alone:
            raise ValueError(
                f"train.deterministic with exchange.method = '{self.exchange.method}', whose "
                "workers come when they are ready: expected a method of all workers together "
                "(knltrain methods), or deterministic = false"
            )
        for table, key, measured, instead in _MEASURED:
            if getattr(getattr(self, table), key) == measured:
                raise ValueError(
                    f"train.deterministic with {table}.{key} = '{measured}', which measures times: "
                    f"expected {instead}, or deterministic = false"
                )
        return self

    @model_validator(mode="after")
    def _wire_format_reads_its_share(self) -> RunConfig:
        chosen = self.exchange
        if chosen.wire_top_share is not None and chosen.wire_format != "top_k":
            raise ValueError(
                f"exchange.wire_top_share = {chosen.wire_top_share} is read by the wire format "
                f"'top_k', not by '{chosen.wire_format}': leave it out"
            )
        return self

    @model_validator(mode="after")
    def _workers_fit(self) -> RunConfig:
        if isinstance(self.workers, int):
            known = self.nodes != "auto"
            self.balance.check(self.train.batch, self.total_workers, known)
        return self

    @property
    def total_workers(self) -> int:
        """Workers on all computers, once their number is set; "auto" computers count as 1."""
        return int(self.workers) * self.total_nodes

    @property
    def images_of_each(self) -> tuple[int, ...]:
        """Images of a batch that each worker takes, by rank; see `BalanceConfig`."""
        return self.balance.images_of_each(self.train.batch, self.total_workers)

    @property
    def total_nodes(self) -> int:
        """Computers; "auto" counts as 1."""
        return 1 if self.nodes == "auto" else self.nodes


def _given_keys(table: Any) -> dict[str, Any] | None:
    """Return the given keys of a table (an object or a mapping); None if it is no table."""
    if isinstance(table, Table):
        return table.model_dump(exclude_unset=True, exclude_none=True)
    return table if isinstance(table, dict) else None
