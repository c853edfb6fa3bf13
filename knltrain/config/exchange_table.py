"""The tables [exchange] and [balance]: what workers exchange, and what each takes of a batch."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from knltrain.config.tables import Count, Folder, Fraction, Name, NotNegative, Positive, Table

Shares: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)
]
Speeds: TypeAlias = Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)]


class ExchangeConfig(Table):
    """[exchange]: how workers exchange parameters or gradients.

    Keys that may be None are for some methods, which set the defaults.
    """

    method: Name = Field(
        default="sync_easgd", description="method, as 'knltrain methods' lists them"
    )
    communication_period: Count = Field(
        default=1, description="steps from exchange to exchange (τ)"
    )
    moving_rate: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="pull between a worker and the center (α); left out: 0.9 / workers",
    )
    center_learning_rate: Positive | None = Field(
        default=None,
        description="share of what the workers have moved by that the center moves by (ηo)",
    )
    center_momentum: Fraction | None = Field(
        default=None, description="share of the center's velocity kept from push to push (μ)"
    )
    center_nesterov: bool | None = Field(
        default=None, description="Nesterov's form of the center's momentum"
    )
    averaging_rate: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="share of the center in the moving average of it (a)"
    )
    group_size: Count | None = Field(
        default=None,
        description="workers of a group (S); left out: the largest divisor with two groups or more,"
        " on several computers the workers of each",
    )
    group_period: Count | None = Field(
        default=None, description="steps from exchange to exchange inside a group"
    )
    synchronous_steps: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="first steps, each of which has an exchange"
    )
    fragments: Count | None = Field(
        default=None, description="parts of the parameters that are exchanged in turn"
    )
    delay_steps: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="steps that the exchange of a fragment may take"
    )
    mixing: Fraction | None = Field(
        default=None, description="share of a worker's own parameters after such an exchange (m)"
    )
    packing: Literal["packed", "per_layer"] = Field(
        default="packed",
        description="per_layer: an exchange for each layer's parameters, to see what packing saves",
    )
    termination: Literal["each", "master", "fastest", "average"] = Field(
        default="each",
        description="what ends the run of workers, or groups, that come to the center alone: each"
        " has done all steps, rank 0 has, the fastest has, or their average is so many",
    )
    between_nodes: Literal["auto", "ccl", "gloo", "mpi", "oneccl_bindings"] = Field(
        default="auto",
        description="what carries exchanges between computers: oneCCL ('ccl'), PyTorch's 'gloo',"
        " 'mpi', or oneCCL by Intel's archived bindings; auto: 'mpi' for methods that go by"
        " nothing else, for others oneCCL where it is installed, gloo where not",
    )
    wire_format: Literal["float32", "bfloat16", "int8", "top_k"] = Field(
        default="float32",
        description="how contributions are written between computers: whole, as bfloat16, as a byte"
        " each, or the largest alone",
    )
    wire_top_share: Annotated[float, Field(gt=0, le=0.5)] | None = Field(
        default=None, description="share of the values that top_k sends; left out: 0.01"
    )
    emulated_link_gbits: Positive | None = Field(
        default=None,
        description="let exchanges take as long as over a link of so many Gbit/s for each worker",
    )
    emulated_latency_us: NotNegative = Field(
        default=0.0, description="latency of a message over that link, in microseconds"
    )
    segment: Literal["shm", "memfd", "hugetlb"] = Field(
        default="shm", description="kind of shared memory; hugetlb: huge pages that were set aside"
    )
    timeout_seconds: Positive = Field(
        default=60.0, description="longest wait for another worker, by step since all last met"
    )

    @model_validator(mode="after")
    def _latency_is_that_of_a_link(self) -> ExchangeConfig:
        if self.emulated_latency_us and self.emulated_link_gbits is None:
            raise ValueError(
                f"emulated_latency_us = {self.emulated_latency_us:g} is that of an emulated link, "
                "and there is none: give emulated_link_gbits, or leave it out"
            )
        return self


class BalanceConfig(Table):
    """[balance]: how many images of a batch each worker takes."""

    shares: Literal["equal", "fitted"] | Shares = Field(
        default="equal",
        description="images of each worker, by rank; fitted: as many as make all need as long for a"
        " step, measured before the first one",
    )
    granule: Count = Field(
        default=16, description="images that fitted shares are multiples of, as a vector of a core"
    )
    refit_steps: Annotated[int, Field(ge=0)] = Field(
        default=50,
        description="steps after which fitted shares are fitted anew by the times of the steps; 0:"
        " never",
    )
    replay: Folder | None = Field(
        default=None,
        description="shares.csv of another run, whose shares are taken at the same steps",
    )
    emulated_images_per_second: Speeds | None = Field(
        default=None,
        description="speeds of the workers, by rank, that are emulated by sleeping: for"
        " measurements",
    )

    @model_validator(mode="after")
    def _shares_are_said_once(self) -> BalanceConfig:
        if self.replay is not None and self.shares != "equal":
            raise ValueError(
                f"replay = '{self.replay}' and shares = {_shown(self.shares)}: expected one of "
                "them, which says how many images each worker takes"
            )
        return self

    @property
    def is_equal(self) -> bool:
        """Whether all workers take as many images."""
        return self.shares == "equal" and self.replay is None

    @property
    def may_change(self) -> bool:
        """Whether shares are known only once the workers are there, and may change later."""
        return self.shares == "fitted" or self.replay is not None

    @property
    def is_plain(self) -> bool:
        """Whether workers take equal shares at their own speeds."""
        return self.is_equal and self.emulated_images_per_second is None

    def images_of_each(self, batch: int, workers: int) -> tuple[int, ...]:
        """The images of each worker, by rank; where they are still to be fitted, equal ones."""
        if isinstance(self.shares, tuple):
            return self.shares
        each, more = divmod(batch, workers)
        return tuple(each + (rank < more) for rank in range(workers))

    def check(self, batch: int, workers: int) -> None:
        """Raise ValueError unless shares and speeds are those of so many workers and images."""
        shares, speeds = self.shares, self.emulated_images_per_second
        if self.is_equal:
            _check_equal(batch, workers)
        if isinstance(shares, tuple) and (len(shares) != workers or sum(shares) != batch):
            raise ValueError(
                f"balance.shares = {_shown(shares)}: expected {workers} numbers of images, one for "
                f"each worker, that add up to train.batch = {batch}; these are {len(shares)} and "
                f"add up to {sum(shares)}"
            )
        if isinstance(shares, tuple) and not shares[0]:
            raise ValueError(
                f"balance.shares = {_shown(shares)}: expected images for rank 0, whose loss is "
                "reported"
            )
        if speeds is not None and len(speeds) != workers:
            raise ValueError(
                f"balance.emulated_images_per_second = {list(speeds)}: expected {workers} speeds, "
                "one for each worker"
            )


def _shown(shares: str | tuple[int, ...]) -> str:
    return f"'{shares}'" if isinstance(shares, str) else str(list(shares))


def _check_equal(batch: int, workers: int) -> None:
    if batch % workers:
        fitting = max(workers, batch - batch % workers)
        raise ValueError(
            f"train.batch = {batch} images do not divide evenly among {workers} workers: "
            f"use a multiple of {workers}, such as {fitting}, or balance.shares = 'fitted'"
        )
