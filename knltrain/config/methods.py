"""The table of methods by their published names: equation, source, strategy, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

SC17 = "You, Buluç, Demmel, SC17"
ZHANG = "Zhang, Choromanska, LeCun, NIPS 2015"
SHMCAFFE = "Ahn, Kim, Kang, Lim, ICDCS 2018"
PATENT = "Ahn et al., US 11487698"
CAFFE_MPI = "Inspur's Caffe-MPI, in Ahn et al., ICDCS 2018"
CAFFEGPI = "Kuehn, Keuper, Pfreundt, arXiv 1706.00095"
STICH = "Stich, ICLR 2019"
LIN = "Lin, Stich, Patel, Jaggi, arXiv 1808.07217"
SLOWMO = "Wang, Tantia, Ballas, Rabbat, arXiv 1910.00643"
DILOCO = "Douillard et al., arXiv 2311.08105"
STREAMING = "Douillard et al., arXiv 2501.18512"


Schedule: TypeAlias = Literal["synchronous", "first_come", "round_robin", "lock_free", "never"]


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """One published method; i counts workers, W are their parameters, C is the center.

    - ``strategy``: MODULE.CLASS of `knltrain.exchange.strategies`
    - ``rule``: a key of `knltrain.assembly.rules.RULES`
    - ``levels``: instead of a rule, the methods inside groups and between them
    - ``reads``: the method-specific keys of the table ``exchange`` that it reads
    - ``sums_in_any_order``: whether sums depend on which worker comes first
    - ``exchange``, ``optimizer``: defaults for those tables; those of ``optimizer`` are for the
      optimizer that they name, or else for 'sgd'
    """

    name: str
    strategy: str
    rule: str
    equation: str
    paper: str
    reads: tuple[str, ...] = ()
    exchange: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule = "synchronous"
    levels: tuple[str, str] | None = None
    sums_in_any_order: bool = False

    @property
    def comes_alone(self) -> bool:
        """Whether each worker, or the root of its group, visits the center (asynchronous)."""
        return self.schedule not in ("synchronous", "never")

    @property
    def comes_at_any_time(self) -> bool:
        """Whether its workers visit the center whatever the others do."""
        return self.schedule in ("first_come", "lock_free")


_PULL = "Wi <- Wi - η gi - α (Wi - C)"
_PUSH = "C <- C + α (Wi - C)"
_PUSH_ALL = "C <- C + α Σi (Wi - C)"
_HEAVY = "C <- C + v"
_DOWNPOUR = "every τ steps C <- C + (Wi - pulled); Wi <- C"
_OUTER = "every τ steps d = mean of W - C"

_ELASTIC = ("moving_rate", "beta", "rho")
_MOMENTUM = ("center_momentum", "center_nesterov")
_RATE = ("center_learning_rate", *_MOMENTUM)
_GROUPS = ("group_size",)
_STREAM = ("fragments", "delay_steps", "mixing")
_AVERAGE = ("averaging_rate",)
_CENTER = ("servers",)
"""Read by all methods whose workers visit the center."""

_TOGETHER = "synchronous.SynchronousStrategy"
_ALONE = "asynchronous.AsynchronousStrategy"

_PLAIN = {"momentum": 0.0}
_OUTER_SGD = {
    "communication_period": 500,
    "center_learning_rate": 0.7,
    "center_momentum": 0.9,
    "center_nesterov": True,
}
_INNER_ADAMW = {"name": "adamw", "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "clip_norm": 1.0}

_OF_SC17 = (
    MethodFacts("sync_easgd", _TOGETHER, "elastic", f"{_PULL}; {_PUSH_ALL}", SC17, _ELASTIC),
    MethodFacts(
        "sync_easgd1",
        "synchronous.MasterStrategy",
        "elastic",
        f"{_PULL}; {_PUSH_ALL} by a tree, at a master",
        SC17,
        _ELASTIC,
    ),
    MethodFacts(
        "sync_easgd2", _TOGETHER, "elastic", f"{_PULL}; {_PUSH_ALL}, shared by all", SC17, _ELASTIC
    ),
    MethodFacts(
        "sync_easgd3",
        "overlapped.OverlappedStrategy",
        "elastic",
        f"{_PULL}; {_PUSH_ALL} while g is computed",
        SC17,
        _ELASTIC,
    ),
    MethodFacts(
        "original_easgd",
        _ALONE,
        "elastic",
        f"{_PULL}; {_PUSH}",
        SC17,
        _ELASTIC,
        optimizer=_PLAIN,
        schedule="round_robin",
    ),
    MethodFacts(
        "original_easgd_star",
        "asynchronous.InTurnStrategy",
        "elastic",
        f"{_PULL}; {_PUSH}; g computed in turn, too",
        SC17,
        _ELASTIC,
        optimizer=_PLAIN,
        schedule="round_robin",
    ),
    MethodFacts(
        "async_easgd",
        _ALONE,
        "elastic",
        f"{_PULL}; {_PUSH}",
        SC17,
        _ELASTIC,
        optimizer=_PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "async_measgd",
        _ALONE,
        "elastic",
        f"Vi <- μ Vi - η gi; Wi <- Wi + Vi - α (Wi - C); {_PUSH}",
        SC17,
        _ELASTIC,
        optimizer={"momentum": 0.9},
        schedule="first_come",
    ),
    MethodFacts(
        "hogwild_easgd",
        _ALONE,
        "elastic",
        f"{_PULL}; {_PUSH}",
        SC17,
        _ELASTIC,
        optimizer=_PLAIN,
        schedule="lock_free",
    ),
    MethodFacts(
        "async_sgd",
        _ALONE,
        "downpour",
        "C <- C - η gi; Wi <- C",
        SC17,
        _MOMENTUM,
        optimizer=_PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "async_msgd",
        _ALONE,
        "downpour",
        f"v <- μ v - η gi; {_HEAVY}; Wi <- C",
        SC17,
        _MOMENTUM,
        {"center_momentum": 0.9},
        _PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "hogwild_sgd",
        _ALONE,
        "downpour",
        "C <- C - η gi; Wi <- C",
        SC17,
        _MOMENTUM,
        optimizer=_PLAIN,
        schedule="lock_free",
    ),
    MethodFacts(
        "hierarchical_easgd",
        "hierarchical_centers.CenterHierarchyStrategy",
        "",
        f"{_PULL}; {_PUSH_ALL} in groups; every τ steps their Cg as W, behind the next g",
        SC17,
        (*_ELASTIC, *_GROUPS, "group_period"),
        {"group_period": 1},
        levels=("sync_easgd", "sync_easgd"),
    ),
    MethodFacts("core_groups", _TOGETHER, "gradient_sum", "Wi <- Wi - η Σi gi", SC17),
)

_OF_ZHANG = (
    MethodFacts(
        "easgd",
        _ALONE,
        "elastic",
        f"every τ steps {_PUSH}; {_PULL}",
        ZHANG,
        _ELASTIC,
        {"communication_period": 10},
        _PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "eamsgd",
        _ALONE,
        "elastic",
        f"every τ steps {_PUSH}; Vi <- δ Vi - η gi(Wi + δ Vi); Wi <- Wi + Vi",
        ZHANG,
        _ELASTIC,
        {"communication_period": 10},
        {"momentum": 0.99, "nesterov": True},
        schedule="first_come",
    ),
    MethodFacts(
        "downpour",
        _ALONE,
        "downpour",
        _DOWNPOUR,
        ZHANG,
        _MOMENTUM,
        optimizer=_PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "mdownpour",
        _ALONE,
        "downpour",
        f"v <- δ v - η gi(C + δ v); {_HEAVY}; Wi <- C + δ v",
        ZHANG,
        _MOMENTUM,
        {"center_momentum": 0.99, "center_nesterov": True},
        _PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "adownpour",
        _ALONE,
        "averaged_downpour",
        f"{_DOWNPOUR}; model: mean of all C so far",
        ZHANG,
        _MOMENTUM,
        optimizer=_PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "mvadownpour",
        _ALONE,
        "averaged_downpour",
        f"{_DOWNPOUR}; model: z <- (1 - a) z + a C",
        ZHANG,
        (*_MOMENTUM, *_AVERAGE),
        {"averaging_rate": 0.001},
        _PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "asgd",
        _ALONE,
        "averaged_sgd",
        "one worker: W <- W - η g; model: mean of all W so far",
        ZHANG,
        optimizer=_PLAIN,
        schedule="first_come",
    ),
    MethodFacts(
        "mvasgd",
        _ALONE,
        "averaged_sgd",
        "one worker: W <- W - η g; model: z <- (1 - a) z + a W",
        ZHANG,
        _AVERAGE,
        {"averaging_rate": 0.001},
        _PLAIN,
        schedule="first_come",
    ),
)

_OF_SHMCAFFE = (
    MethodFacts(
        "seasgd",
        "asynchronous.OverlappedPushStrategy",
        "elastic",
        "Wi <- Wi - η gi; d <- α (Wi - C as read); Wi <- Wi - d; C <- C + d meanwhile",
        SHMCAFFE,
        _ELASTIC,
        {"moving_rate": 0.2, "termination": "average"},
        schedule="first_come",
    ),
    MethodFacts(
        "parameter_server",
        "parameter_server.ParameterServerStrategy",
        "accumulated_gradient",
        "as sync_sgd at worker 0, by the sum of g that all add to C; all read W",
        PATENT,
        _CENTER,
        sums_in_any_order=True,
    ),
    MethodFacts(
        "caffe_mpi",
        "star.StarStrategy",
        "gradient_mean",
        "as sync_sgd at worker 0, to which each sends its g, and which sends W to each",
        CAFFE_MPI,
    ),
    MethodFacts(
        "shmcaffe_h",
        "hierarchical.HierarchicalStrategy",
        "",
        "in a group Wi <- Wi - η mean of g; its root as seasgd, α; all Wi <- the root's",
        SHMCAFFE,
        (*_ELASTIC, *_GROUPS),
        {"moving_rate": 0.2},
        schedule="first_come",
        levels=("sync_sgd", "seasgd"),
    ),
)

_WITHOUT_ELASTICITY = (
    MethodFacts(
        "local_sgd",
        _TOGETHER,
        "model_mean",
        "every τ steps Wi <- C <- mean of W",
        STICH,
        exchange={"communication_period": 8},
    ),
    MethodFacts(
        "post_local_sgd",
        _TOGETHER,
        "model_mean",
        "as local_sgd, with τ = 1 in the first steps",
        LIN,
        ("synchronous_steps",),
        {"communication_period": 4, "synchronous_steps": 100},
    ),
    MethodFacts(
        "hierarchical_sgd",
        "hierarchical.HierarchicalStrategy",
        "",
        "Wi <- mean of the group's W every so many steps, of all W every τ steps",
        LIN,
        (*_GROUPS, "group_period"),
        {"communication_period": 16, "group_period": 4},
        levels=("local_sgd", "local_sgd"),
    ),
    MethodFacts(
        "slowmo",
        _TOGETHER,
        "slow_momentum",
        f"{_OUTER}; u <- μ u - d / η; C <- C - ηo η u; Wi <- C",
        SLOWMO,
        ("center_learning_rate", "center_momentum"),
        {"communication_period": 48, "center_learning_rate": 1.0, "center_momentum": 0.5},
    ),
    MethodFacts(
        "diloco",
        _TOGETHER,
        "outer_descent",
        f"{_OUTER}; v <- μ v + d; C <- C + ηo (d + μ v); Wi <- C",
        DILOCO,
        _RATE,
        _OUTER_SGD,
        _INNER_ADAMW,
    ),
    MethodFacts(
        "streaming_diloco",
        "streaming.StreamingStrategy",
        "outer_descent",
        "as diloco, one fragment after another, while more steps are taken; Wi <- m Wi + (1 - m) C",
        STREAMING,
        (*_RATE, *_STREAM),
        {**_OUTER_SGD, "fragments": 4, "delay_steps": 5, "mixing": 0.5},
        _INNER_ADAMW,
    ),
    MethodFacts("sync_sgd", _TOGETHER, "gradient_mean", "Wi <- Wi - η mean of g", SC17),
    MethodFacts(
        "layerwise_sgd",
        "overlapped.LayerwiseStrategy",
        "gradient_mean",
        "as sync_sgd, the mean of a layer's g while those of the layers before are computed",
        CAFFEGPI,
        ("fusion_kib",),
    ),
    MethodFacts(
        "caffegpi",
        "layer_trees.LayerTreeStrategy",
        "gradient_mean",
        "as sync_sgd at worker 0, layer by layer meanwhile (with clip_norm after all); "
        "Σi gi up a tree, W down another",
        CAFFEGPI,
        ("reduction_branches", "broadcast_branches"),
    ),
    MethodFacts(
        "none", _TOGETHER, "gradient_mean", "Wi <- Wi - η gi", "each worker alone", schedule="never"
    ),
)

METHODS: dict[str, MethodFacts] = {
    each.name: replace(each, reads=(*each.reads, *_CENTER)) if each.comes_alone else each
    for each in (*_OF_SC17, *_OF_ZHANG, *_OF_SHMCAFFE, *_WITHOUT_ELASTICITY)
}

OPTIONS: tuple[str, ...] = tuple(
    dict.fromkeys(key for facts in METHODS.values() for key in facts.reads)
)
"""The keys of the table ``exchange`` that only some methods read."""
