"""The table [exchange]: its keys and their valid values."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from knltrain.config.tables import Count, Fraction, Name, NotNegative, Positive, Table

Servers: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)
]


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
        description="pull between a worker and the center (α); left out: beta / workers",
    )
    beta: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="instead of moving_rate: workers times it (β = P α); left out: 0.9",
    )
    rho: Positive | None = Field(
        default=None,
        description="instead of moving_rate: it over learning_rate.base (ρ = α / η)",
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
    servers: Servers | None = Field(
        default=None,
        description="computers, by their numbers from 0, whose memory has a share of the center;"
        " left out: all",
    )
    reduction_branches: Count | None = Field(
        default=None,
        description="workers whose gradients a worker adds up, in a tree; left out: binomial",
    )
    broadcast_branches: Count | None = Field(
        default=None,
        description="workers to which a worker sends weights, in a tree; left out: the shortest",
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
    fusion_kib: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="layers whose gradients take less are exchanged with those that are done before"
        " them (tensor fusion); left out: 4096",
    )
    between_nodes: Literal["auto", "ccl", "gloo", "mpi", "gaspi", "oneccl_bindings"] = Field(
        default="auto",
        description="what carries exchanges between computers: oneCCL ('ccl'), PyTorch's 'gloo',"
        " 'mpi', sums by one-sided writes of MPI ('gaspi'), or oneCCL by Intel's archived"
        " bindings; auto: 'mpi' for methods that go by nothing else, for others oneCCL where it is"
        " installed, gloo where not",
    )
    all_reduce: Literal["auto", "ring", "recursive_doubling"] = Field(
        default="auto",
        description="algorithm of sums by 'gaspi'; auto: recursive doubling up to 32 KiB, a ring"
        " for more",
    )
    within_nodes: Literal["segment", "device"] = Field(
        default="segment",
        description="what carries exchanges between the workers of a computer: memory that they"
        " share, or the library of their devices (NCCL), so that vectors stay there",
    )
    wire_format: Literal["float32", "bfloat16", "int8", "float4", "top_k"] = Field(
        default="float32",
        description="how contributions are written between computers: whole, as bfloat16, as a byte"
        " or 4 bits each, or the largest alone; but for float32, a center that workers visit is"
        " read as bfloat16",
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
    def _the_pull_is_given_once(self) -> ExchangeConfig:
        given = {key: getattr(self, key) for key in ("moving_rate", "beta", "rho")}
        given = {key: value for key, value in given.items() if value is not None}
        if len(given) > 1:
            listed = " and ".join(f"{key} = {value:g}" for key, value in given.items())
            raise ValueError(f"{listed} both say how strong the pull is: give one of them")
        return self

    @model_validator(mode="after")
    def _each_server_is_named_once(self) -> ExchangeConfig:
        if self.servers is not None and len(set(self.servers)) < len(self.servers):
            raise ValueError(f"servers = {list(self.servers)}: expected each computer once")
        return self

    @model_validator(mode="after")
    def _the_algorithm_is_that_of_our_own_sums(self) -> ExchangeConfig:
        if self.all_reduce != "auto" and self.between_nodes != "gaspi":
            raise ValueError(
                f"all_reduce = '{self.all_reduce}' with between_nodes = '{self.between_nodes}', "
                "which has its own algorithms: expected between_nodes = 'gaspi', or leave it out"
            )
        if self.between_nodes == "gaspi" and self.wire_format != "float32":
            raise ValueError(
                f"wire_format = '{self.wire_format}' with between_nodes = 'gaspi', which sums in "
                "float32: expected 'float32', or another way, as 'mpi'"
            )
        return self

    @model_validator(mode="after")
    def _latency_is_that_of_a_link(self) -> ExchangeConfig:
        if self.emulated_latency_us and self.emulated_link_gbits is None:
            raise ValueError(
                f"emulated_latency_us = {self.emulated_latency_us:g} is that of an emulated link, "
                "and there is none: give emulated_link_gbits, or leave it out"
            )
        return self
