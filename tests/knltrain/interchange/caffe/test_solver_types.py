from __future__ import annotations

from typing import Any

import pytest

from knltrain.config.optimizer_tables import OPTIMIZER_DEFAULTS
from knltrain.errors import ConfigError
from knltrain.interchange.caffe.config_text import tables_of
from knltrain.interchange.caffe.settings import SolverSettings
from knltrain.interchange.caffe.solver_types import put_optimizer
from knltrain.interchange.caffe.text_format import parse


def _optimizer(text: str) -> dict[str, Any]:
    found = SolverSettings(parse(text, "s.prototxt"))
    put_optimizer(found)
    return tables_of(found.settings)["optimizer"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type: 'Adam' momentum: 0.8", {"beta1": 0.8, "beta2": 0.999, "epsilon": 1e-8}),
        ("type: 'AdaGrad' delta: 1e-4", {"epsilon": 1e-4}),
        ("type: 'RMSProp' rms_decay: 0.9", {"rho": 0.9, "epsilon": 1e-8}),
        ("type: 'AdaDelta' momentum: 0.95 delta: 1e-6", {"rho": 0.95, "epsilon": 1e-6}),
    ],
)
def test_types_of_solvers_are_optimizers(text: str, expected: dict[str, float]) -> None:
    name = text.split("'")[1].lower()
    found = _optimizer(text)
    assert found == {"name": name, "weight_decay": 0.0, **expected}
    assert found.keys() - {"name"} <= OPTIMIZER_DEFAULTS[name].keys()


def test_regularisation_may_be_l1() -> None:
    text = "weight_decay: 0.1 regularization_type: 'L1'"
    assert _optimizer(text)["regularisation"] == "l1"


def test_nesterov_is_sgd_with_a_key() -> None:
    expected = {"name": "sgd", "nesterov": True, "momentum": 0.0, "weight_decay": 0.0}
    assert _optimizer("solver_type: NESTEROV") == _optimizer("type: 'Nesterov'") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type: 'sgd'", "s.prototxt:1: unknown type 'sgd': .* did you mean 'SGD'"),
        ("type: 'SGD'\nsolver_type: ADAM", "s.prototxt:2: type \\(line 1\\) and solver_type"),
        ("solver_type: ADAMW", "s.prototxt:1: unknown solver_type 'ADAMW'"),
        ("regularization_type: 'L3'", "unknown regularization_type 'L3'"),
    ],
)
def test_what_no_optimizer_is_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _optimizer(text)
