"""Which transport is of which kind; what each kind promises is in `test_transport`."""

from __future__ import annotations

import ast
import inspect

import pytest

from knltrain.exchange.transports.across_nodes import CrossNodeTransport
from knltrain.exchange.transports.collective_transport import CollectiveTransport
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.one_sided_center import OneSidedCenter
from knltrain.exchange.transports.transport import Transport
from knltrain.exchange.transports.visited_center import VisitedCenter

KINDS = {
    Loopback: {CollectiveTransport, VisitedCenter},
    NodeShared: {CollectiveTransport, VisitedCenter},
    CrossNodeTransport: {CollectiveTransport},
    OneSidedCenter: {VisitedCenter},
}


def only_refuses(method: ast.FunctionDef) -> bool:
    """Whether there is nothing in it but a docstring and a raise."""
    return all(isinstance(one, (ast.Expr, ast.Raise)) for one in method.body) and isinstance(
        method.body[-1], ast.Raise
    )


@pytest.mark.parametrize("transport", KINDS)
def test_workers_meet_or_visit_as_a_transport_says(transport: type[Transport]) -> None:
    kinds = {kind for kind in (CollectiveTransport, VisitedCenter) if issubclass(transport, kind)}
    assert kinds == KINDS[transport]


@pytest.mark.parametrize("transport", KINDS)
def test_no_method_is_there_to_refuse_alone(transport: type[Transport]) -> None:
    """But turns, which nobody keeps over one-sided memory."""
    (definition,) = ast.parse(inspect.getsource(transport)).body
    assert isinstance(definition, ast.ClassDef)
    methods = [one for one in definition.body if isinstance(one, ast.FunctionDef)]
    refusing = {one.name for one in methods if only_refuses(one)}
    assert refusing == ({"await_turn"} if transport is OneSidedCenter else set())
