"""What the process that imports a module leaves for the run."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from knltrain.errors import ConfigError, KnltrainError, WorkerFailed
from knltrain.launch import importing_process
from knltrain.launch.importing_process import TOLD, import_into, main
from knltrain.network.zoo.networks import network_named

OWN = """
from torch import nn
def build():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
"""


@pytest.fixture
def request_of_it(tmp_path: Path) -> Iterator[dict[str, Any]]:
    (tmp_path / "importable.py").write_text(OWN)
    path, writes = list(sys.path), sys.dont_write_bytecode
    yield {
        "module": f"{tmp_path}/importable.py:build",
        "folder": str(tmp_path),
        "image_shape": [8, 8, 1],
        "seed": 1,
        "auxiliary_weights": [],
        "weights": None,
        "new_layers": [],
    }
    sys.path[:], sys.dont_write_bytecode = path, writes
    sys.modules.pop("importable", None)


def test_network_and_parameters_are_left(request_of_it: dict[str, Any], tmp_path: Path) -> None:
    assert import_into(request_of_it) == ()
    network = network_named(str(tmp_path / "network.json"))
    kept = load_file(tmp_path / "start.safetensors")
    assert {name: values.shape for name, values in kept.items()} == {
        spec.name: spec.shape for spec in network.parameters
    }
    assert network.output_shape == (10,)


def test_weights_of_a_file_come_in_place_of_the_modules_but_for_new_layers(
    request_of_it: dict[str, Any], tmp_path: Path
) -> None:
    import_into(request_of_it)
    own = load_file(tmp_path / "start.safetensors")
    given = {name: values + 1 for name, values in own.items()}
    save_file({**given, "more": np.zeros(1, np.float32)}, tmp_path / "given.safetensors")
    more = {"weights": str(tmp_path / "given.safetensors"), "new_layers": ["3"]}
    (note,) = import_into({**request_of_it, **more})
    assert "more not used" in note
    found = load_file(tmp_path / "start.safetensors")
    assert np.array_equal(found["0.weights"], given["0.weights"])
    assert np.array_equal(found["3.weights"], own["3.weights"])


def test_outcome_is_notes_or_an_error(
    request_of_it: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = tmp_path / "outcome.json"
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request_of_it)))
    main()
    assert json.loads(outcome.read_text()) == {"notes": []}
    other = {**request_of_it, "module": request_of_it["module"] + "er"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(other)))
    main()
    found = json.loads(outcome.read_text())
    assert (found["error"], "'builder'" in found["message"]) == ("ConfigError", True)


def test_an_error_of_another_kind_has_one_that_the_run_knows(
    request_of_it: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[KnltrainError] = [WorkerFailed(1, "cause"), OwnError("cause")]
    monkeypatch.setattr(importing_process, "import_into", lambda _: _raise(raised.pop()))
    for kind, message in (("ConfigError", "cause"), ("NetworkError", "worker 1 failed: cause")):
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request_of_it)))
        main()
        found = json.loads((tmp_path / "outcome.json").read_text())
        assert found == {"error": kind, "message": message}
        assert str(TOLD[kind](message)) == message


class OwnError(ConfigError):
    """An error of a user."""


def _raise(error: KnltrainError) -> None:
    raise error


def test_without_pytorch_the_way_out_is_told(
    request_of_it: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"imported by PyTorch.*as by pip install torch$"):
        import_into(request_of_it)
