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
        (2, {"wire_format": "int8"}, "added where the center lies, in float32"),
    ],
    ids=str,
)
def test_servers_that_there_are_not_and_other_formats_are_refused(
    method: str, nodes: int, chosen: dict[str, object], says: str
) -> None:
    check(method, nodes)
    check(method, 3, servers=[0, 2])
    with pytest.raises(ConfigError, match=says):
        check(method, nodes, **chosen)


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
