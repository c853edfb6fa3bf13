from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from knltrain import load_config, read_result, train
from knltrain.errors import ConfigError, KnltrainError
from knltrain.interchange.caffe.importing import Imported, import_caffe
from knltrain.network.description import network_from_json
from knltrain.network.network import Network

from .caffe_files import REAL
from .prototxts import NETS, SMALL

MNIST = REAL.parent / "mnist-60k"
SOLVER = 'net: "n.prototxt"\nbase_lr: 0.1 lr_policy: "fixed" max_iter: 9\n'


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


def _imported(solver: str, net: str = SMALL, data: str | None = None) -> Imported:
    Path("s.prototxt").write_text(solver)
    Path("n.prototxt").write_text(net)
    return import_caffe(Path("s.prototxt"), "own.json", data)


def _written(found: Imported) -> Path:
    assert found.config_toml is not None
    Path("own.json").write_text(found.network_json)
    Path("own.toml").write_text(found.config_toml)
    return Path("own.toml")


def test_solver_becomes_a_configuration_and_a_network() -> None:
    found = _imported(SOLVER)
    config = load_config(_written(found))
    assert (config.network.name, config.data.name, config.train.steps) == ("own.json", "mnist", 9)
    assert config.exchange.method == "sync_sgd"
    assert network_from_json(found.network_json, "own.json") == found.network


def test_net_alone_becomes_a_network() -> None:
    Path("n.prototxt").write_text(SMALL)
    found = import_caffe(Path("n.prototxt"), "own.json")
    assert found.config_toml is None
    assert [layer.name for layer in found.network.layers] == ["ip"]


def test_net_may_stand_in_the_solver() -> None:
    inside = _imported(SOLVER.replace('net: "n.prototxt"', f"net_param {{ {SMALL} }}"))
    assert inside.network == _imported(SOLVER).network


def test_states_of_the_solver_choose_layers() -> None:
    net = SMALL.replace(
        'type: "InnerProduct"', "include { stage: 'x' min_level: 2 } type: 'InnerProduct'"
    )
    assert _imported(SOLVER + "train_state { stage: 'x' level: 2 }", net).network.layers
    with pytest.raises(ConfigError, match="reads blob 'ip', which no layer before it writes"):
        _imported(SOLVER + "train_state { stage: 'x' }", net)


def test_net_is_looked_for_above_the_solver_too() -> None:
    Path("examples/mnist").mkdir(parents=True)
    Path("examples/n.prototxt").write_text(SMALL)
    solver = Path("examples/mnist/s.prototxt").absolute()
    solver.write_text(SOLVER.replace("n.prototxt", "examples/n.prototxt"))
    assert import_caffe(solver, "own.json").notes == ()
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    (note, *_) = import_caffe(solver, "own.json").notes
    assert note.startswith(f"{solver}: net 'examples/n.prototxt' is /")


def test_other_data_are_named_by_the_user() -> None:
    net = SMALL.replace("a/mnist_lmdb", "cifar_lmdb") + "\n"
    Path("s.prototxt").write_text(SOLVER)
    Path("n.prototxt").write_text(net)
    found = import_caffe(Path("s.prototxt"), "own.json", "synthetic", (32, 32, 3))
    config = load_config(_written(found))
    assert (config.data.name, found.network.input_shape) == ("synthetic", (32, 32, 3))
    assert "# --data, for cifar_lmdb of the net's line 1" in Path("own.toml").read_text()
    with pytest.raises(ConfigError, match=r"n.prototxt:1: Data 'cifar_lmdb' cannot be read"):
        import_caffe(Path("s.prototxt"), "own.json", None, (32, 32, 3))


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("base_lr: 1", "s.prototxt:1: no net: expected one of net, train_net"),
        (
            SOLVER + 'train_net: "n"',
            r":1: net \(line 1\) and train_net \(line 3\): expected one of",
        ),
        (SOLVER + 'test_net: "none"', "s.prototxt:3: test_net: 'none' is neither in the working"),
        (
            SOLVER.replace("n.prototxt", "none"),
            "s.prototxt:1: net: 'none' is neither in the working",
        ),
        (SOLVER.replace("n.prototxt", "n" * 300), "s.prototxt:1: net: 'nnn"),
        (SOLVER + "clip_gradients: 0", "optimizer.clip_norm = 0.0: expected to be greater"),
        (SOLVER.replace('"n.prototxt"', "n"), "s.prototxt:1: net: n: expected a text in quotes"),
        (SOLVER + "layers { }", "s.prototxt:"),
        (SOLVER + "momentum: 2", "s.prototxt: as a configuration, optimizer.momentum = 2.0: exp"),
        ("", "s.prototxt:1: no net"),
    ],
)
def test_solver_that_cannot_be_kept_is_named(solver: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _imported(solver)


def test_all_refusals_of_a_solver_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as found:
        _imported(SOLVER + "iter_size: 0\ntype: 'x'\nunheard: 1", SMALL.replace("mnist", "x"))
    assert "--input" in str(found.value)
    with pytest.raises(ConfigError) as found:
        _imported(SOLVER + "iter_size: 0\ntype: 'x'\nunheard: 1")
    assert len(str(found.value).splitlines()) == 3


@pytest.mark.parametrize("seed", range(4))
def test_any_edit_of_a_solver_and_its_net_is_imported_or_refused(seed: int) -> None:
    drawn = random.Random(seed)
    texts = [(NETS / f"lenet_{name}.prototxt").read_text() for name in ("solver", "train_test")]
    outcomes = set()
    for _ in range(50):
        words = [re.findall(r'\s+|"[^"]*"|[\w.]+|.', text) for text in texts]
        edited = drawn.choice(words)
        place = drawn.randrange(len(edited))
        edited[place] = drawn.choice(["", "0", "-1", "inf", '"data"', "{", "}", *edited])
        solver, net = ("".join(each) for each in words)
        Path("lenet_train_test.prototxt").write_text(net)
        try:
            _imported(solver, net)
            outcomes.add("imported")
        except KnltrainError as error:
            assert "prototxt" in str(error)
            outcomes.add("refused")
    assert outcomes == {"imported", "refused"}


def _caffe(network: Network) -> list[str]:
    return [layer.name for layer in network.layers]


def test_lenet_as_people_leave_it_is_imported() -> None:
    found = import_caffe(NETS / "lenet_solver.prototxt", "own.json")
    config = load_config(_written(found))
    assert _caffe(found.network) == ["conv1", "pool1", "conv2", "pool2", "ip1", "relu1", "ip2"]
    assert (config.train.steps, config.train.batch, config.data.test_images) == (10_000, 64, 10_000)
    assert (config.evaluation.every_steps, config.checkpoint.every_steps) == (500, 5_000)
    rate = config.learning_rate
    assert (rate.policy, rate.base, rate.gamma, rate.power) == ("inv", 0.01, 0.0001, 0.75)
    assert (config.optimizer.momentum, config.optimizer.weight_decay) == (0.9, 0.0005)


@pytest.mark.long
@pytest.mark.skipif(not MNIST.is_dir(), reason=f"there is no {MNIST}")
def test_lenet_as_people_leave_it_is_99_percent_right() -> None:
    found = import_caffe(NETS / "lenet_solver.prototxt", "own.json")
    config = load_config(_written(found), [f"data.root={MNIST}"])
    result = read_result(train(config))
    assert (result["steps"], result["test_images"]) == (10_000, 10_000)
    assert result["test_accuracy"] >= 0.99
