"""Networks of functions in users' files, and what is said of those that fail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knltrain.errors import ConfigError, NetworkError
from knltrain.interchange.own_module import import_own

OWN = """
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import knltrain
from knltrain.errors import KnltrainError
from beside import WIDTH

@dataclass
class Sizes:
    width: int = WIDTH

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, Sizes().width, 3)
        self.fc = nn.Linear(Sizes().width, random.randint(4, 400))
    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))

def build():
    return Net()

def imported():
    return knltrain.from_torch(Net(), torch.randn(1, 3, 9, 9), name="mine")

def number():
    return 3

def whole():
    return Net

def raises():
    return _deeper()

def _deeper():
    return torch.zeros(3) @ torch.zeros(4)

def leaves():
    raise SystemExit(4)

def asks(classes):
    return Net()

def refused():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Softplus(), nn.Flatten())

class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.main, self.side = nn.Linear(4, 3), nn.Linear(4, 3)
    def forward(self, x):
        means = self.conv(x).mean((2, 3))
        return (self.main(means), self.side(means)) if self.training else self.main(means)

def drawn():
    net = Net()
    net.conv.bias.data = torch.from_numpy(np.random.rand(5).astype("float32"))
    return net

class Mine(KnltrainError):
    pass

def own_error():
    raise Mine("as its own code says")

def heads():
    return Heads()

value = 7
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """own(function): its name in a file beside another."""
    (tmp_path / "beside.py").write_text("WIDTH = 5\n")
    file = tmp_path / "my_own_model.py"
    file.write_text(OWN)
    path, writes = list(sys.path), sys.dont_write_bytecode
    yield lambda function: f"{file}:{function}"
    sys.path[:], sys.dont_write_bytecode = path, writes
    for name in ("beside", "my_own_model"):
        sys.modules.pop(name, None)
    assert {each.name for each in tmp_path.iterdir()} <= {"beside.py", "my_own_model.py", "bad.py"}


def test_a_function_gives_a_network_for_images_of_the_data(own: Callable[[str], str]) -> None:
    found = import_own(own("build"), (12, 10, 3), seed=1)
    assert (found.network.name, found.network.input_shape) == ("Net", (12, 10, 3))
    assert found.parameters.views["conv.weights"].shape == (5, 3, 3, 3)


def test_a_function_may_import_its_module_itself(own: Callable[[str], str]) -> None:
    found = import_own(own("imported"), (12, 10, 3), seed=1)
    assert (found.network.name, found.network.input_shape) == ("mine", (9, 9, 3))


def test_parameters_follow_from_the_seed(own: Callable[[str], str]) -> None:
    one, same, other = (import_own(own("build"), (9, 9, 3), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.parameters.packed, same.parameters.packed)
    assert one.network != other.network  # by Python's own random numbers
    first, again = (import_own(own("drawn"), (9, 9, 3), seed=2**62) for _ in range(2))
    assert np.array_equal(first.parameters.packed, again.parameters.packed)


def test_auxiliary_outputs_get_their_weights(own: Callable[[str], str]) -> None:
    network = import_own(own("heads"), (9, 9, 3), 1, (0.25,)).network
    assert [(each.layer, each.weight) for each in network.outputs] == [
        ("main", 1.0),
        ("side", 0.25),
    ]
    with pytest.raises(NetworkError, match=r"Heads has 2 outputs in training"):
        import_own(own("heads"), (9, 9, 3), 1)
    with pytest.raises(NetworkError, match=r"Net has 1 outputs .* = \(0.3,\): expected 0 weights"):
        import_own(own("build"), (9, 9, 3), 1, (0.3,))


@pytest.mark.parametrize(
    ("function", "error", "said"),
    [
        ("number", NetworkError, r"my_own_model.py:number' returned 3: expected a torch.nn.Module"),
        ("whole", NetworkError, r"returned <class 'my_own_model.Net'>: expected"),
        ("build_", ConfigError, r"unknown function 'build_': .*'number'.* did you mean 'build'"),
        (
            "value",
            ConfigError,
            r"unknown function 'value': .* 'Heads', 'Mine', 'Net', 'Sizes', 'asks', ",
        ),
        ("asks", NetworkError, r"raised TypeError, expected a function of no arguments.*'classes'"),
        ("leaves", NetworkError, r"raised SystemExit.*line 44, in leaves\n.*\nSystemExit: 4$"),
        ("own_error", NetworkError, r"raised Mine.*in own_error\n.*Mine: as its own code says$"),
        ("refused", NetworkError, r"^module '1' .*softplus"),
        (
            "raises",
            NetworkError,
            r"raised RuntimeError.*:\n  File \".*/my_own_model.py\", line 38, in raises\n"
            r"    return _deeper\(\)\n.*  File .*, line 41, in _deeper\n.*\nRuntimeError: .*$",
        ),
    ],
)
def test_what_does_not_do_is_told_with_the_users_lines(
    own: Callable[[str], str], function: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=f"(?s){said}") as refused:
        import_own(own(function), (9, 9, 3), seed=1)
    assert "knltrain/interchange" not in str(refused.value)
    assert "site-packages" not in str(refused.value)


def test_a_file_with_an_error_is_told_with_its_line(
    own: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text("def build():\n    return (\n")
    with pytest.raises(NetworkError, match=r'(?s)raised SyntaxError.*bad.py", line 2'):
        import_own(f"{tmp_path}/bad.py:build", (9, 9, 3), seed=1)
    (tmp_path / "bad.py").write_text("import no_such_module\n")
    with pytest.raises(NetworkError, match=r'(?s)ModuleNotFoundError.*bad.py", line 1, in <mod'):
        import_own(f"{tmp_path}/bad.py:build", (9, 9, 3), seed=1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.py:build': there is no such file"):
        import_own(f"{tmp_path}/none.py:build", (9, 9, 3), seed=1)


def test_a_file_that_would_hide_another_module_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ModuleType("taken")
    monkeypatch.setitem(sys.modules, "taken", library)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "taken.py").write_text("def build():\n    return 1\n")
    with pytest.raises(ConfigError, match=r"taken.py would hide the module 'taken' .*another name"):
        import_own(f"{tmp_path}/taken.py:build", (9, 9, 3), seed=1)
    assert sys.modules["taken"] is library
