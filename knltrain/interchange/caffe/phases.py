"""Which layers of a net are in: by phase, level and stages (Caffe's net.cpp, FilterNet)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from knltrain.interchange.caffe.message import Message

Phase = Literal["TRAIN", "TEST"]

_PHASES: Final[dict[str, Phase | None]] = {"TRAIN": "TRAIN", "TEST": "TEST"}
_INT32: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class NetState:
    """What rules of layers are compared with."""

    phase: Phase
    level: int = 0
    stages: frozenset[str] = frozenset()

    def merged(self, told: Message) -> NetState:
        """With what a message `state`, `train_state` or `test_state` says, its phase aside."""
        told.all("phase")  # A train net is one of TRAIN, whatever it says.
        return NetState(
            self.phase,
            told.whole("level", self.level),
            self.stages | frozenset(told.texts("stage")),
        )


def is_in(layer: Message, state: NetState) -> bool:
    """Whether a layer is in: if any of its `include` rules holds, or none of its `exclude`.

    ConfigError for a layer with both.
    """
    include, exclude = layer.messages("include"), layer.messages("exclude")
    if include and exclude:
        raise layer.error(
            exclude[0].line,
            f"both include (line {include[0].line}) and exclude: expected rules of one kind",
        )
    if include:
        return any(_holds(rule, state) for rule in include)
    return not any(_holds(rule, state) for rule in exclude)


def _holds(rule: Message, state: NetState) -> bool:
    # All are read, whichever decides: a rule's unknown fields are told.
    phase = rule.choice("phase", None, _PHASES)
    least, most = rule.whole("min_level", -_INT32), rule.whole("max_level", _INT32)
    stages, not_stages = rule.texts("stage"), rule.texts("not_stage")
    return (
        phase in (None, state.phase)
        and least <= state.level <= most
        and state.stages.issuperset(stages)
        and state.stages.isdisjoint(not_stages)
    )
