"""What a run of visitors must be: servers that there are, visits that are not lost."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from quadratics import NETWORK, config_of, rate_at

from knltrain.assembly.factories import reference_kernels
from knltrain.assembly.methods import build
from knltrain.assembly.rules import MethodContext
from knltrain.errors import ConfigError


def check(name: str, nodes: int, **exchange: object) -> None:
    """What a run of two workers on each node is checked by."""
    config = config_of(name, 2 * nodes, nodes, exchange)
    method = build(MethodContext(config, 2 * nodes, NETWORK, reference_kernels(), rate_at))
    method.strategy.check_run(method, config)


@pytest.mark.parametrize("method", ["seasgd", "shmcaffe_h", "async_msgd", "parameter_server"])
@pytest.mark.parametrize(
    ("nodes", "chosen", "says"),
    [
        (2, {"servers": [0, 2]}, "there is no computer 2; expected some of 0 to 1"),
        (1, {"servers": [0]}, "on 1 computer, whose memory has the center"),
    ],
    ids=str,
)
def test_servers_that_there_are_not_are_refused(
    method: str, nodes: int, chosen: dict[str, object], says: str
) -> None:
    check(method, nodes)
    check(method, 3, servers=[0, 2])
    with pytest.raises(ConfigError, match=says):
        check(method, nodes, **chosen)


@pytest.mark.parametrize("written", ["bfloat16", "int8", "float4", "top_k"])
@pytest.mark.parametrize(
    ("method", "says"),
    [
        *((each, "") for each in ("seasgd", "easgd", "eamsgd", "shmcaffe_h", "original_easgd")),
        *((each, "") for each in ("async_sgd", "downpour", "hogwild_sgd", "hogwild_easgd")),
        *(
            (each, "back as they are, in float32: expected 'float32', or a method .*'seasgd'")
            for each in ("async_msgd", "mdownpour", "adownpour", "mvadownpour")
        ),
        ("parameter_server", "as the master has them.*'sync_sgd'"),
    ],
)
def test_wire_formats_are_for_centers_that_add_up(method: str, says: str, written: str) -> None:
    if not says:
        check(method, 2, wire_format=written)
        return
    with pytest.raises(ConfigError, match=f"wire_format = '{written}': by '{method}' .*{says}"):
        check(method, 2, wire_format=written)


def test_visits_without_locks_only_add_up() -> None:
    check("hogwild_sgd", 2)
    check("hogwild_sgd", 1, center_momentum=0.5)
    with pytest.raises(ConfigError, match=r"without locks whole visits would be lost.*async_msgd"):
        check("hogwild_sgd", 2, center_momentum=0.5)


def test_methods_without_a_center_have_no_servers() -> None:
    with pytest.raises(ValidationError, match=r"servers .*seasgd.*not by sync_sgd"):
        config_of("sync_sgd", 2, 2, {"servers": [0]})


@pytest.mark.parametrize(
    ("servers", "says"),
    [([0, 0], "each computer once"), ([], "at least 1 item"), ([-1], "greater than or equal")],
)
def test_lists_that_name_no_servers_are_refused(servers: list[int], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        config_of("seasgd", 2, 2, {"servers": servers})
