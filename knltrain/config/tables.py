"""The tables of a configuration: their keys and valid values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Name: TypeAlias = Annotated[str, Field(min_length=1)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
CountOrAuto: TypeAlias = Count | Literal["auto"]
CpuList: TypeAlias = Annotated[str, Field(pattern=r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$")]
NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SignalName: TypeAlias = Literal["SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"]
SignalNames: TypeAlias = Annotated[tuple[SignalName, ...], Field(strict=False)]


def _from_home(path: str) -> str:
    if "\0" in path:
        raise ValueError(f"{path!r}: expected a path, which has no NUL in it")
    try:
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        raise ValueError(
            f"'{path}': no home folder is known for it; expected a path in full, or ./~ for a "
            "folder that is called so"
        ) from None


def _module_function(text: str) -> str:
    file, colon, function = text.rpartition(":")
    if not (colon and file.endswith(".py") and function.isidentifier()):
        raise ValueError(f"'{text}': expected a file and its function, as my_model.py:build")
    return text


Folder: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_from_home)]
"""A path; ~ at its begin is a home folder."""
ModuleFunction: TypeAlias = Annotated[str, AfterValidator(_module_function)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Weight: TypeAlias = Annotated[float, Field(ge=1e-20, le=1e20)]
"""How much something counts beside others; neither 0 nor infinite in float32, nor times a loss."""


class Table(BaseModel):
    """Base of all tables: refuses unknown keys, converts no types, and is immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MultiplierConfig(Table):
    """[[network.multipliers]]: factors for some parameters, times those that they have already."""

    pattern: Name = Field(description="layers, such as 'fc*', or parameters, such as '*.bias'")
    learning_rate: NotNegative = Field(default=1.0, description="factor of the learning rate")
    weight_decay: NotNegative = Field(default=1.0, description="factor of the weight decay")


class NetworkConfig(Table):
    """[network]: what is trained."""

    name: Name = Field(
        description="network to train, such as 'lenet', or a file that describes one, as own.json"
    )
    module: ModuleFunction | None = Field(
        default=None,
        description="function of a file that returns the PyTorch network to train, in place of a"
        " name, as my_model.py:build",
    )
    classes: Annotated[int, Field(ge=2)] | None = Field(
        default=None, description="classes that it tells apart; left out: those it is known for"
    )
    weights: Folder | None = Field(
        default=None,
        description="file with the parameters to start from: .safetensors, .pt, .caffemodel",
    )
    new_layers: Annotated[tuple[Name, ...], Field(strict=False)] = Field(
        default=(), description="patterns of layers that start afresh, whatever that file has"
    )
    frozen: Annotated[tuple[Name, ...], Field(strict=False)] = Field(
        default=(), description="patterns of layers or parameters that are not trained"
    )
    multipliers: Annotated[tuple[MultiplierConfig, ...], Field(strict=False)] = Field(
        default=(), description="factors of learning rate and weight decay by pattern"
    )

    @model_validator(mode="before")
    @classmethod
    def _module_is_a_name(cls, given: Any) -> Any:
        is_alone = isinstance(given, dict) and given.get("name") is None
        return {**given, "name": given["module"]} if is_alone and given.get("module") else given

    @model_validator(mode="after")
    def _module_is_alone(self) -> NetworkConfig:
        if self.module is None:
            return self
        if self.name != self.module:
            raise ValueError(
                f"name = '{self.name}' and module = '{self.module}': expected one of them"
            )
        if self.classes is not None:
            raise ValueError(
                f"classes = {self.classes}: how many a module has is up to its function; leave it "
                "out, as by --set network.classes="
            )
        return self

    @model_validator(mode="after")
    def _weights_are_given(self) -> NetworkConfig:
        if self.new_layers and self.weights is None:
            raise ValueError(
                f"new_layers = {list(self.new_layers)} without weights: every layer starts afresh"
            )
        return self


class TrainConfig(Table):
    """[train]: how long, and how many images a step takes."""

    epochs: Count | None = Field(default=None, description="passes over the training images")
    steps: Count | None = Field(default=None, description="steps, instead of epochs")
    batch: Count = Field(description="images per batch over all workers together")
    iter_size: Count = Field(
        default=1,
        description="batches per step, whose mean gradient is taken (gradient accumulation)",
    )
    first_step: Annotated[int, Field(ge=0)] = Field(
        default=0, description="steps that network.weights have been trained already"
    )
    optimizer_state: Folder | None = Field(
        default=None,
        description="file with the optimizer's state at that step, as written by import-caffe",
    )
    deterministic: bool = Field(
        default=False,
        description="let equal runs on equal computers end with the same bits: nothing is chosen by"
        " measurement, and devices run deterministic algorithms",
    )
    trace_steps: Annotated[int, Field(ge=0)] = Field(
        default=0, description="first steps of which each worker writes a trace, trace-RANK.json"
    )
    profile_steps: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0,
        description="steps whose stages are measured for profile.json, after the first six",
    )

    @model_validator(mode="after")
    def _one_length(self) -> TrainConfig:
        if (self.epochs is None) == (self.steps is None):
            given = "neither" if self.epochs is None else "both"
            raise ValueError(f"expected exactly one of epochs and steps, got {given}")
        return self

    @model_validator(mode="after")
    def _one_listener(self) -> TrainConfig:
        if self.trace_steps and self.profile_steps:
            raise ValueError(
                f"trace_steps = {self.trace_steps} and profile_steps = {self.profile_steps}: "
                "expected one of them, as both listen to the same clocks"
            )
        return self


class LossConfig(Table):
    """[loss]: what training lowers."""

    kind: Literal["softmax_cross_entropy", "sigmoid_cross_entropy", "mean_squared_error"] = Field(
        default="softmax_cross_entropy",
        description="softmax_cross_entropy: one class per image, or shares; sigmoid_cross_entropy:"
        " each class by itself; mean_squared_error: of the outputs",
    )

    label_smoothing: Fraction = Field(
        default=0.0,
        description="share of each label that is spread evenly over all classes (ε); evaluations"
        " measure without",
    )
    class_weights: (
        Literal["balanced"] | Annotated[tuple[Weight, ...], Field(strict=False)] | None
    ) = Field(
        default=None,
        description="how much an image of each class counts; balanced: so that all classes count"
        " alike; evaluations measure without",
    )
    auxiliary_weights: Annotated[tuple[Weight, ...], Field(strict=False)] | None = Field(
        default=None,
        description="weights of the losses of the network's auxiliary outputs; left out: its own",
    )

    @model_validator(mode="after")
    def _is_of_softmax(self) -> LossConfig:
        given = {"label_smoothing": self.label_smoothing, "class_weights": self.class_weights}
        for key, value in given.items():
            if value not in (None, 0.0) and self.kind != "softmax_cross_entropy":
                raise ValueError(
                    f"{key} = {value!r} is of kind 'softmax_cross_entropy', not of '{self.kind}': "
                    "leave it out"
                )
        return self


class EvaluationConfig(Table):
    """[evaluation]: when the model is measured on the test images."""

    every_epochs: NotNegative = Field(
        default=1.0, description="epochs between two; 0: only at the end"
    )
    every_steps: Count | None = Field(
        default=None, description="steps between two; if given, every_epochs is not read"
    )
    at_end: bool = Field(
        default=True,
        description="measure the model after the last step; false: at no time",
    )
    crops: Literal[1, 10] = Field(
        default=1,
        description="images of each picture whose softmax is averaged; 10: four corners, the"
        " middle, and their mirror images",
    )

    @model_validator(mode="after")
    def _last_or_none(self) -> EvaluationConfig:
        if not self.at_end and (self.every_epochs or self.every_steps):
            raise ValueError(
                "at_end = false, but some before: expected every_epochs = 0 and no every_steps"
            )
        return self

    def period(self, steps_per_epoch: int) -> float:
        """Steps between two, 0 for none but the last."""
        return self.every_steps or self.every_epochs * steps_per_epoch


class CheckpointConfig(Table):
    """[checkpoint]: when the run is written down so that it can be continued."""

    every_epochs: NotNegative = Field(
        default=0.0, description="epochs between two; 0: only at the end"
    )
    every_steps: Count | None = Field(
        default=None, description="steps between two; if given, every_epochs is not read"
    )
    at_end: bool = Field(
        default=True, description="write one after the last step; false: at no time"
    )
    every_minutes: NotNegative = Field(
        default=10.0, description="minutes after which one is written, besides; 0: none by time"
    )
    keep: Count = Field(
        default=2, description="how many are kept besides the newest, not yet known to be good"
    )

    @model_validator(mode="after")
    def _last_or_none(self) -> CheckpointConfig:
        if not self.at_end and (self.every_epochs or self.every_steps or self.every_minutes):
            raise ValueError(
                "at_end = false, but some before: expected every_epochs = 0, every_minutes = 0 and "
                "no every_steps"
            )
        return self

    def period(self, steps_per_epoch: int) -> float:
        """Steps between two, 0 for none but the last."""
        return self.every_steps or self.every_epochs * steps_per_epoch


class PreemptionConfig(Table):
    """[preemption]: what ends a run before its time, so that it can be continued."""

    signals: SignalNames = Field(
        default=("SIGTERM", "SIGUSR1"),
        description="after these a checkpoint is written, and the run ends with status 75; a second"
        " one ends it at once",
    )
    checkpoint_signals: SignalNames = Field(
        default=("SIGUSR2",), description="after these one is written, and the run goes on"
    )
    grace_seconds: Positive = Field(
        default=25.0, description="after which such a run is ended, with a checkpoint or without"
    )
    heed_job_end: bool = Field(
        default=False, description="end so before the time limit of a job of Slurm, too"
    )
    reserve_seconds: NotNegative = Field(
        default=30.0,
        description="before the job's end, besides twice what the last checkpoint took",
    )

    @model_validator(mode="after")
    def _signals_ask_for_one_thing(self) -> PreemptionConfig:
        if both := [name for name in self.signals if name in self.checkpoint_signals]:
            raise ValueError(
                f"{both[0]} is among signals and among checkpoint_signals: expected it in one of "
                "them"
            )
        return self


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
    communication_cores: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="cores of each worker for exchanges that go on while its others compute",
    )
    data_cores: Annotated[int, Field(ge=0)] | Literal["auto"] = Field(
        default=0,
        description="cores of each computer that make batches ahead of its workers; auto: one of"
        " every 16; 0: each worker makes its own, before it computes",
    )
    gpus: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="GPUs of each computer that its workers take by turns, so that several may"
        " share one; auto: each has one of its own",
    )
    gpu_host_cores: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto",
        description="cores next to its GPU of each worker that has one; auto: 2, or all there are"
        " where every worker of the computer has one",
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
