"""The packed vector falls into runs that are moved alike."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from knltrain.network.layers import (
    BatchNormalisation,
    Convolution,
    Dense,
    Layer,
    Multipliers,
    ParameterSpec,
)
from knltrain.network.network import Network
from knltrain.network.parameter_groups import (
    ParameterGroup,
    parameter_groups_of,
    parameter_groups_within,
)

TREATMENTS = st.tuples(
    st.sampled_from([1.0, 2.0]), st.sampled_from([0.0, 1.0]), st.sampled_from([None, 0.1])
)


def test_statistics_and_multipliers_start_segments_of_their_own() -> None:
    layers: tuple[Layer, ...] = (
        Convolution("conv", 3, 3, bias=False),  # 54 values of 64
        BatchNormalisation("norm", momentum=0.25),  # 4 times 3 values of 16
        Dense("one", 4, bias_multipliers=Multipliers(2.0, 0.0)),
        Dense("two", 4, weights_multipliers=Multipliers(2.0, 0.0)),
    )
    network = Network("net", (3, 3, 2), layers)
    assert network.parameter_groups == (
        ParameterGroup(0, 96, 1.0, 1.0, None, ("conv", "norm")),
        ParameterGroup(96, 128, 1.0, 1.0, 0.25, ("norm",)),
        ParameterGroup(128, 144, 1.0, 1.0, None, ("one",)),
        ParameterGroup(144, 176, 2.0, 0.0, None, ("one", "two")),
        ParameterGroup(176, 192, 1.0, 1.0, None, ("two",)),
    )
    assert network.packed_size == 192


def test_vector_of_nothing_has_no_segments() -> None:
    assert parameter_groups_of((), 0) == ()


@given(st.lists(st.tuples(TREATMENTS, st.integers(1, 40)), min_size=1, max_size=12))
def test_segments_cover_the_vector_and_neighbours_differ(
    parts: list[tuple[tuple[float, float, float | None], int]],
) -> None:
    specs, offset = [], 0
    for number, ((rate, decay, momentum), size) in enumerate(parts):
        specs.append(
            ParameterSpec(
                f"l{number}.weights",
                (size,),
                "weights",
                offset,
                learning_rate_multiplier=rate,
                decay_multiplier=decay,
                statistic_momentum=momentum,
            )
        )
        offset += -(-size // 16) * 16
    groups = parameter_groups_of(specs, offset)
    assert (groups[0].start, groups[-1].stop) == (0, offset)
    for left, right in pairwise(groups):
        assert left.stop == right.start
        assert _treatment(left) != _treatment(right)
    for spec in specs:
        (home,) = (each for each in groups if each.start <= spec.offset < each.stop)
        assert _treatment(home) == _treatment(spec)
        assert spec.offset + spec.size <= home.stop
        assert spec.layer in home.layers
    assert [name for each in groups for name in each.layers] == [spec.layer for spec in specs]


def _treatment(part: ParameterGroup | ParameterSpec) -> tuple[float, float, float | None]:
    return part.learning_rate_multiplier, part.decay_multiplier, part.statistic_momentum


def test_a_part_of_segments_counts_from_its_begin() -> None:
    whole = (
        ParameterGroup(0, 32, 1.0, 1.0, None, ("a",)),
        ParameterGroup(32, 48, 2.0, 0.0, None, ("a", "b")),
        ParameterGroup(48, 80, 1.0, 1.0, 0.1, ("b",)),
    )
    found = parameter_groups_within(whole, slice(16, 48))
    assert [(each.start, each.stop) for each in found] == [(0, 16), (16, 32)]
    assert [each.learning_rate_multiplier for each in found] == [1.0, 2.0]
    assert parameter_groups_within(whole, slice(0, 80)) == whole
