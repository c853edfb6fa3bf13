"""The methods of exchange by their published names: what each is, and what it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SC17 = "You, Buluç, Demmel, SC17"
ZHANG = "Zhang, Choromanska, LeCun, NIPS 2015"
SHMCAFFE = "Ahn, Kim, Kang, Lim, ICDCS 2018"
CAFFEGPI = "Kuehn, Keuper, Pfreundt, arXiv 1706.00095"
STICH = "Stich, ICLR 2019"
LIN = "Lin, Stich, Patel, Jaggi, arXiv 1808.07217"
SLOWMO = "Wang, Tantia, Ballas, Rabbat, arXiv 1910.00643"
DILOCO = "Douillard et al., arXiv 2311.08105"
STREAMING = "Douillard et al., arXiv 2501.18512"


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """One published method; i counts workers, W are their parameters, C is the center.

    ``reads`` are the keys of the table ``exchange`` that some methods read, this one among them.
    ``exchange`` and ``optimizer`` are the values of those tables that a configuration need not
    give; those of ``optimizer`` hold for the optimizer that they name, or else for 'sgd'. Where
    gradients and weights go ``along_trees`` all workers are one MPI job, on one computer, too.
    """

    name: str
    schedule: Literal["synchronous", "first_come", "round_robin", "lock_free", "never"]
    equation: str
    paper: str
    reads: tuple[str, ...] = ()
    exchange: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    along_trees: bool = False

    @property
    def goes_by_mpi(self) -> bool:
        """Whether MPI, and nothing else, carries its exchanges between computers."""
        return self.along_trees or self.schedule not in ("synchronous", "never")


_PULL = "Wi <- Wi - η gi - α (Wi - C)"
_PUSH = "C <- C + α (Wi - C)"
_PUSH_ALL = "C <- C + α Σi (Wi - C)"
_HEAVY = "C <- C + v"
_DOWNPOUR = "every τ steps C <- C + (Wi - pulled); Wi <- C"
_OUTER = "every τ steps d = mean of W - C"

_ELASTIC = ("moving_rate",)
_MOMENTUM = ("center_momentum", "center_nesterov")
_RATE = ("center_learning_rate", *_MOMENTUM)
_GROUPS = ("group_size",)
_STREAM = ("fragments", "delay_steps", "mixing")
_AVERAGE = ("averaging_rate",)

_PLAIN = {"momentum": 0.0}
_OUTER_SGD = {
    "communication_period": 500,
    "center_learning_rate": 0.7,
    "center_momentum": 0.9,
    "center_nesterov": True,
}
_INNER_ADAMW = {"name": "adamw", "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "clip_norm": 1.0}

_OF_SC17 = (
    MethodFacts("sync_easgd", "synchronous", f"{_PULL}; {_PUSH_ALL}", SC17, _ELASTIC),
    MethodFacts(
        "sync_easgd1", "synchronous", f"{_PULL}; {_PUSH_ALL} by a tree, at a master", SC17, _ELASTIC
    ),
    MethodFacts(
        "sync_easgd2", "synchronous", f"{_PULL}; {_PUSH_ALL}, shared by all", SC17, _ELASTIC
    ),
    MethodFacts(
        "sync_easgd3", "synchronous", f"{_PULL}; {_PUSH_ALL} while g is computed", SC17, _ELASTIC
    ),
    MethodFacts(
        "original_easgd", "round_robin", f"{_PULL}; {_PUSH}", SC17, _ELASTIC, optimizer=_PLAIN
    ),
    MethodFacts(
        "original_easgd_star",
        "round_robin",
        f"{_PULL}; {_PUSH}; g computed in turn, too",
        SC17,
        _ELASTIC,
        optimizer=_PLAIN,
    ),
    MethodFacts("async_easgd", "first_come", f"{_PULL}; {_PUSH}", SC17, _ELASTIC, optimizer=_PLAIN),
    MethodFacts(
        "async_measgd",
        "first_come",
        f"Vi <- μ Vi - η gi; Wi <- Wi + Vi - α (Wi - C); {_PUSH}",
        SC17,
        _ELASTIC,
        optimizer={"momentum": 0.9},
    ),
    MethodFacts(
        "hogwild_easgd", "lock_free", f"{_PULL}; {_PUSH}", SC17, _ELASTIC, optimizer=_PLAIN
    ),
    MethodFacts(
        "async_sgd", "first_come", "C <- C - η gi; Wi <- C", SC17, _MOMENTUM, optimizer=_PLAIN
    ),
    MethodFacts(
        "async_msgd",
        "first_come",
        f"v <- μ v - η gi; {_HEAVY}; Wi <- C",
        SC17,
        _MOMENTUM,
        {"center_momentum": 0.9},
        _PLAIN,
    ),
    MethodFacts(
        "hogwild_sgd", "lock_free", "C <- C - η gi; Wi <- C", SC17, _MOMENTUM, optimizer=_PLAIN
    ),
    MethodFacts(
        "hierarchical_easgd",
        "synchronous",
        f"{_PULL}; {_PUSH_ALL} in groups; every τ steps their Cg as W, behind the next g",
        SC17,
        (*_ELASTIC, *_GROUPS, "group_period"),
        {"group_period": 1},
    ),
    MethodFacts("core_groups", "synchronous", "Wi <- Wi - η Σi gi", SC17),
)

_OF_ZHANG = (
    MethodFacts(
        "easgd",
        "first_come",
        f"every τ steps {_PUSH}; {_PULL}",
        ZHANG,
        _ELASTIC,
        {"communication_period": 10},
        _PLAIN,
    ),
    MethodFacts(
        "eamsgd",
        "first_come",
        f"every τ steps {_PUSH}; Vi <- δ Vi - η gi(Wi + δ Vi); Wi <- Wi + Vi",
        ZHANG,
        _ELASTIC,
        {"communication_period": 10},
        {"momentum": 0.99, "nesterov": True},
    ),
    MethodFacts("downpour", "first_come", _DOWNPOUR, ZHANG, _MOMENTUM, optimizer=_PLAIN),
    MethodFacts(
        "mdownpour",
        "first_come",
        f"v <- δ v - η gi(C + δ v); {_HEAVY}; Wi <- C + δ v",
        ZHANG,
        _MOMENTUM,
        {"center_momentum": 0.99, "center_nesterov": True},
        _PLAIN,
    ),
    MethodFacts(
        "adownpour",
        "first_come",
        f"{_DOWNPOUR}; model: mean of all C so far",
        ZHANG,
        _MOMENTUM,
        optimizer=_PLAIN,
    ),
    MethodFacts(
        "mvadownpour",
        "first_come",
        f"{_DOWNPOUR}; model: z <- (1 - a) z + a C",
        ZHANG,
        (*_MOMENTUM, *_AVERAGE),
        {"averaging_rate": 0.001},
        _PLAIN,
    ),
    MethodFacts(
        "asgd", "first_come", "W <- W - η g; model: mean of all W so far", ZHANG, optimizer=_PLAIN
    ),
    MethodFacts(
        "mvasgd",
        "first_come",
        "W <- W - η g; model: z <- (1 - a) z + a W",
        ZHANG,
        _AVERAGE,
        {"averaging_rate": 0.001},
        _PLAIN,
    ),
)

_OF_SHMCAFFE = (
    MethodFacts(
        "seasgd",
        "first_come",
        "Wi <- Wi - η gi; d <- α (Wi - C as read); Wi <- Wi - d; C <- C + d meanwhile",
        SHMCAFFE,
        _ELASTIC,
        {"moving_rate": 0.2, "termination": "average"},
    ),
    MethodFacts(
        "shmcaffe_h",
        "first_come",
        "in a group Wi <- Wi - η mean of g; its root as seasgd, α; all Wi <- the root's",
        SHMCAFFE,
        (*_ELASTIC, *_GROUPS),
        {"moving_rate": 0.2},
    ),
)

_WITHOUT_ELASTICITY = (
    MethodFacts(
        "local_sgd",
        "synchronous",
        "every τ steps Wi <- C <- mean of W",
        STICH,
        exchange={"communication_period": 8},
    ),
    MethodFacts(
        "post_local_sgd",
        "synchronous",
        "as local_sgd, with τ = 1 in the first steps",
        LIN,
        ("synchronous_steps",),
        {"communication_period": 4, "synchronous_steps": 100},
    ),
    MethodFacts(
        "hierarchical_sgd",
        "synchronous",
        "Wi <- mean of the group's W every so many steps, of all W every τ steps",
        LIN,
        (*_GROUPS, "group_period"),
        {"communication_period": 16, "group_period": 4},
    ),
    MethodFacts(
        "slowmo",
        "synchronous",
        f"{_OUTER}; u <- μ u - d / η; C <- C - ηo η u; Wi <- C",
        SLOWMO,
        ("center_learning_rate", "center_momentum"),
        {"communication_period": 48, "center_learning_rate": 1.0, "center_momentum": 0.5},
    ),
    MethodFacts(
        "diloco",
        "synchronous",
        f"{_OUTER}; v <- μ v + d; C <- C + ηo (d + μ v); Wi <- C",
        DILOCO,
        _RATE,
        _OUTER_SGD,
        _INNER_ADAMW,
    ),
    MethodFacts(
        "streaming_diloco",
        "synchronous",
        "as diloco, one fragment after another, while more steps are taken; Wi <- m Wi + (1 - m) C",
        STREAMING,
        (*_RATE, *_STREAM),
        {**_OUTER_SGD, "fragments": 4, "delay_steps": 5, "mixing": 0.5},
        _INNER_ADAMW,
    ),
    MethodFacts("sync_sgd", "synchronous", "Wi <- Wi - η mean of g", SC17),
    MethodFacts(
        "layerwise_sgd",
        "synchronous",
        "as sync_sgd, the mean of a layer's g while those of the layers before are computed",
        CAFFEGPI,
    ),
    MethodFacts(
        "caffegpi",
        "synchronous",
        "as sync_sgd at worker 0, layer by layer meanwhile; Σi gi up a tree, W down another",
        CAFFEGPI,
        along_trees=True,
    ),
    MethodFacts("none", "never", "Wi <- Wi - η gi", "each worker alone"),
)

METHODS: dict[str, MethodFacts] = {
    each.name: each for each in (*_OF_SC17, *_OF_ZHANG, *_OF_SHMCAFFE, *_WITHOUT_ELASTICITY)
}

OPTIONS: tuple[str, ...] = tuple(
    dict.fromkeys(key for facts in METHODS.values() for key in facts.reads)
)
"""The keys of the table ``exchange`` that only some methods read."""
