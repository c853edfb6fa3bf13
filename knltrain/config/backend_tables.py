"""The tables [backend] and [balance]: what computes, and how much each worker takes of a batch."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationError, model_validator

from affinity import AffinityError, parse_cpulist
from knltrain.config.tables import Count, CountOrAuto, CpuList, Folder, Name, Positive, Table

MicroBatch: TypeAlias = Annotated[int, Field(ge=0)] | Literal["auto"]
Device: TypeAlias = Annotated[str, Field(pattern=r"^(cpu|auto|cuda(:\d+)?|xpu(:\d+)?)$")]
Precision: TypeAlias = Literal["auto", "float32", "tf32", "bfloat16"]
Algorithm: TypeAlias = Literal["auto", "direct", "winograd2", "winograd4", "strassen", "amx"]
Layout: TypeAlias = Literal["auto", "images_last", "channels_last"]
Direction: TypeAlias = Literal["forward", "backward_data", "backward_weights"]
Shares: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)
]
Periods: TypeAlias = Annotated[tuple[Count, ...], Field(strict=False, min_length=1)]
Rates: TypeAlias = Annotated[
    tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(strict=False, min_length=1)
]
Speeds: TypeAlias = Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)]


class WorkersBackendConfig(Table):
    """[[backend.workers]]: some workers, and what of [backend] is different for them."""

    ranks: Annotated[CpuList, Field(min_length=1)] | None = Field(
        default=None, description="workers, such as '0' or '0-3,8'; left out: all on the hosts"
    )
    hosts: Name | None = Field(
        default=None, description="names of computers, such as 'gpu*'; left out: all"
    )
    name: Name | None = Field(default=None, description="their backend.name")
    implementation: Name | None = Field(default=None, description="their backend.implementation")
    device: Device | None = Field(default=None, description="their backend.device")
    precision: Precision | None = Field(default=None, description="their backend.precision")
    emulate_bfloat16: bool | None = Field(
        default=None, description="their backend.emulate_bfloat16"
    )

    @model_validator(mode="after")
    def _says_who(self) -> WorkersBackendConfig:
        if self.ranks is None and self.hosts is None:
            raise ValueError("expected ranks, such as '0-3', or hosts, such as 'gpu*'")
        if self.ranks is not None:
            try:
                parse_cpulist(self.ranks)
            except AffinityError as error:
                raise ValueError(f"ranks = '{self.ranks}': {error}") from None
        return self


class BackendConfig(Table):
    """[backend]: what computes loss and gradient."""

    name: Name = Field(default="cpu", description="'cpu' or 'torch'")
    implementation: Name = Field(
        default="numba",
        description="kernels of the cpu backend: 'numba', 'onednn' or 'reference'",
    )
    layout: Layout = Field(
        default="auto",
        description="what the lanes of numba's vectors are: images, of which a step computes a"
        " multiple of 16, or channels; auto: by the batch and the network, images with algorithms",
    )
    engine: Literal["eager", "compile", "ipex"] = Field(
        default="eager",
        description="what runs the torch backend's modules; compile: what torch.compile makes of"
        " them; ipex: Intel's extension for PyTorch",
    )
    device: Device = Field(
        default="cpu",
        description="where the torch backend computes: cpu, cuda or xpu (one for each worker), one"
        " device as cuda:1, which workers share; auto: the accelerator that torch finds",
    )
    precision: Precision = Field(
        default="float32",
        description="what numba keeps activations and their gradients in, and torch rounds the"
        " products of layers to; tf32: on NVIDIA GPUs; auto: bfloat16 where numba's processor has"
        " instructions for it, else float32, as with layout = 'channels_last', and where AMX is"
        " refused on a processor that is slower without",
    )
    emulate_bfloat16: bool = Field(
        default=False,
        description="let numba compute in bfloat16 on processors without instructions for it, to"
        " the same bits, slower than in float32",
    )
    graphs: Literal["auto"] | bool = Field(
        default="auto",
        description="let the torch backend record a step as a CUDA graph, and replay it; auto: on"
        " NVIDIA GPUs",
    )
    winograd: bool = Field(
        default=True,
        description="let numba convolve by Winograd's or Strassen's algorithm where that is faster;"
        " rounding errors are larger",
    )
    algorithms: dict[str, Algorithm | dict[Direction, Algorithm]] = Field(
        default={},
        description="by convolution, or pattern of names, the algorithm that numba takes, for all"
        " directions or some; a name counts before a pattern, a longer one before a shorter one;"
        " what none fits is measured",
    )
    micro_batch: MicroBatch = Field(
        default=0,
        description="images of a worker's batch that the cpu backend computes at a time, for less"
        " memory; 0: all; auto: all, or as many as are measured to be faster",
    )
    threads: CountOrAuto = Field(
        default="auto", description="threads per worker; auto: one per core"
    )
    tuning: Literal["auto", "full", "off"] = Field(
        default="auto",
        description="how numba chooses an algorithm for each layer and direction; auto: measure"
        " those that may be the fastest; full: measure all; off: by what each is expected to take",
    )
    tuning_seconds: Positive = Field(
        default=60.0,
        description="what a worker may spend on measuring, with tuning = 'auto'; what is known from"
        " earlier runs is not measured again",
    )

    workers: Annotated[tuple[WorkersBackendConfig, ...], Field(strict=False)] = Field(
        default=(),
        description="[[backend.workers]]: workers with another backend or device; the first that"
        " fits counts",
    )

    @property
    def is_plain(self) -> bool:
        """Whether all workers compute alike, and on the host."""
        return self.device == "cpu" and not self.workers

    @property
    def keeps_bfloat16(self) -> bool:
        """Whether all workers keep activations in bfloat16, whatever the processor."""
        all_of_them = (self, *map(self.of, self.workers))
        return all((each.name, each.precision) == ("cpu", "bfloat16") for each in all_of_them)

    @property
    def fitting_precision(self) -> Precision:
        """The precision; "auto" is float32 with channels in the lanes, which have no other."""
        of_channels = self.layout == "channels_last" and self.precision == "auto"
        return "float32" if of_channels else self.precision

    @property
    def _computing(self) -> tuple[tuple[str, str], ...]:
        return ("name", self.name), ("implementation", self.implementation)

    def of(self, some: WorkersBackendConfig | None) -> BackendConfig:
        """The backend of these workers, or of those that are not named."""
        if some is None:
            return self.model_copy(update={"workers": ()})
        theirs = some.model_dump(exclude_none=True, exclude={"ranks", "hosts"})
        if theirs.get("name", self.name) != self.name:
            of_another = {"engine": "eager", "micro_batch": 0, "device": "cpu", "graphs": "auto"}
            theirs = of_another | theirs
        if any(theirs.get(key, own) != own for key, own in self._computing):
            theirs = {"algorithms": {}, "precision": "float32", "layout": "auto"} | theirs
        if theirs.get("precision", self.precision) != "bfloat16":
            theirs = theirs | {"emulate_bfloat16": False}
        return BackendConfig.model_validate({**self.model_dump(), "workers": (), **theirs})

    @model_validator(mode="after")
    def _algorithms_are_there(self) -> BackendConfig:
        if self.algorithms and (self.name, self.implementation) != ("cpu", "numba"):
            raise ValueError(
                f"algorithms with name = '{self.name}', implementation = '{self.implementation}': "
                "expected 'cpu' and 'numba', which alone has several, or none, as by --set "
                "backend.algorithms="
            )
        if self.algorithms and not self.winograd:
            raise ValueError(
                "winograd = false with algorithms: expected one of them; algorithms = { '*' = "
                "'direct' } is the same"
            )
        asked = self.algorithms.values()
        tiles = any("amx" in ([it] if isinstance(it, str) else it.values()) for it in asked)
        if tiles and self.precision == "float32":
            raise ValueError(
                "algorithms with 'amx', which multiplies bfloat16, and precision = 'float32': "
                "expected precision = 'bfloat16', or other algorithms"
            )
        return self

    @model_validator(mode="after")
    def _layout_is_numbas(self) -> BackendConfig:
        if self.layout != "auto" and (self.name, self.implementation) != ("cpu", "numba"):
            raise ValueError(
                f"layout = '{self.layout}' with name = '{self.name}', implementation = "
                f"'{self.implementation}': expected 'cpu' and 'numba', which alone has several; "
                "leave it out"
            )
        if self.layout == "channels_last" and self.precision not in ("float32", "auto"):
            raise ValueError(
                f"layout = 'channels_last' with precision = '{self.precision}': expected "
                "'float32' or 'auto'; leave out layout or precision"
            )
        other = {"strassen", "amx"}
        asked = self.algorithms.values()
        named = {name for it in asked for name in ([it] if isinstance(it, str) else it.values())}
        if self.layout == "channels_last" and not other.isdisjoint(named):
            raise ValueError(
                f"layout = 'channels_last' with algorithms '{min(other & named)}': expected "
                "'direct', 'winograd2', 'winograd4' or 'auto', which channels in the lanes have"
            )
        return self

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @model_validator(mode="after")
    def _backends_of_workers_are_possible(self) -> BackendConfig:
        for number, each in enumerate(self.workers):
            try:
                self.of(each)
            except ValidationError as error:
                told = (one["msg"].removeprefix("Value error, ") for one in error.errors())
                raise ValueError(f"workers[{number}]: {'; '.join(told)}") from None
        return self

    @model_validator(mode="after")
    def _engine_is_torchs(self) -> BackendConfig:
        if self.engine != "eager" and self.name != "torch":
            raise ValueError(
                f"engine '{self.engine}' runs the modules of backend 'torch', not '{self.name}': "
                "choose name = 'torch', or leave out engine"
            )
        return self

    @model_validator(mode="after")
    def _device_is_torchs(self) -> BackendConfig:
        if self.device != "cpu" and (self.name != "torch" or self.engine == "ipex"):
            raise ValueError(
                f"device = '{self.device}' is of backend 'torch' with engine 'eager' or 'compile', "
                f"not of '{self.name}' with '{self.engine}': choose name = 'torch', or leave out "
                "device"
            )
        return self

    @model_validator(mode="after")
    def _precision_is_there(self) -> BackendConfig:
        if self.precision == "tf32" and self.device == "cpu":
            raise ValueError(
                "precision = 'tf32' is of NVIDIA GPUs: expected 'float32' or 'bfloat16' with "
                "device = 'cpu'"
            )
        is_numba = (self.name, self.implementation) == ("cpu", "numba")
        is_torch = self.name == "torch" and self.engine != "ipex"
        if self.precision == "bfloat16" and not is_numba and not is_torch:
            raise ValueError(
                f"precision = 'bfloat16' with name = '{self.name}', implementation = "
                f"'{self.implementation}', engine = '{self.engine}': expected 'cpu' with 'numba', "
                "or 'torch' with 'eager' or 'compile'; or leave out precision"
            )
        if not is_numba and self.precision == "auto":
            raise ValueError(
                "precision = 'auto' is of backend 'cpu' with 'numba', not of "
                f"'{self.name}' with '{self.implementation}': leave it out"
            )
        if self.emulate_bfloat16 and (not is_numba or self.precision != "bfloat16"):
            raise ValueError(
                f"emulate_bfloat16 = true with name = '{self.name}', implementation = "
                f"'{self.implementation}', precision = '{self.precision}': expected 'cpu', 'numba' "
                "and 'bfloat16'; or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _graphs_are_of_devices(self) -> BackendConfig:
        if self.graphs is True and self.device == "cpu":
            raise ValueError(
                "graphs = true is of NVIDIA GPUs: choose device = 'cuda', or leave out graphs"
            )
        return self

    @model_validator(mode="after")
    def _micro_batch_is_the_cpus(self) -> BackendConfig:
        if self.micro_batch != 0 and self.name == "torch":
            raise ValueError(
                f"micro_batch = {self.micro_batch!r} is of backend 'cpu', 'torch' computes the "
                "whole batch at a time: choose name = 'cpu', or leave out micro_batch"
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
    periods: Literal["equal", "by_speed"] | Periods = Field(
        default="equal",
        description="steps from exchange to exchange of each worker that comes to the center alone,"
        " by rank; by_speed: exchange.communication_period for the slowest, more for the others, so"
        " that all come as often by the clock",
    )
    moving_rates: Rates | None = Field(
        default=None,
        description="exchange.moving_rate of each worker that comes to the center alone, by rank",
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
    def has_paces(self) -> bool:
        """Whether workers have periods or moving rates of their own."""
        return self.periods != "equal" or self.moving_rates is not None

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

    def check(self, batch: int, workers: int, nodes_known: bool = True) -> None:
        """Raise ValueError unless shares and speeds are those of so many workers and images.

        Unless ``nodes_known`` there may be several times as many workers.
        """
        shares, speeds = self.shares, self.emulated_images_per_second

        def fits(count: int) -> bool:
            return count == workers or (not nodes_known and count % workers == 0)

        if self.is_equal:
            _check_equal(batch, workers)
        if isinstance(shares, tuple) and not (fits(len(shares)) and sum(shares) == batch):
            raise ValueError(
                f"balance.shares = {_shown(shares)}: expected a number of images for each worker, "
                f"{workers} in all, that add up to train.batch = {batch}; these are {len(shares)} "
                f"and add up to {sum(shares)}"
            )
        if isinstance(shares, tuple) and not shares[0]:
            raise ValueError(
                f"balance.shares = {_shown(shares)}: expected images for rank 0, which tells of "
                "the run's progress"
            )
        if speeds is not None and not fits(len(speeds)):
            raise ValueError(
                f"balance.emulated_images_per_second = {list(speeds)}: expected a speed for each "
                f"worker, {workers} in all; these are {len(speeds)}"
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
