from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from knltrain.errors import ConfigError, NetworkError
from knltrain.interchange.caffe.importing import Imported, Resumed, import_caffe
from knltrain.interchange.caffe.solverstate import optimizer_vectors, read_solverstate
from knltrain.interchange.optimizer_file import read_optimizer_file

from .caffe_files import blob, field, real
from .prototxts import DATA, DENSE, LABELLED, LOSS, NETS, layer, net

NORMALISED = (
    DATA
    + layer("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", "data", "c")
    + layer("BatchNorm", "", "c", "bn")
    + layer("Scale", "scale_param { bias_term: true }", "bn", "s")
    + layer("Bias", "", "s", "b")
    + layer("InnerProduct", "inner_product_param { num_output: 2 bias_term: false }", "b", "ip")
)
"""Arrays of 6, 2, 2, 2, 1, 2, 2, 2 and 256 values."""

SIZES = (6, 2, 2, 2, 1, 2, 2, 2, 256)
OF_OURS = ("c.weights", "c.bias", None, None, None, "bn.scale", "bn.shift", "b.bias", "ip.weights")


def _state(path: Path, sizes: Sequence[int], iteration: int = 7) -> Path:
    """Each history has values that are its number."""
    blobs = [field(3, blob((size,), (place,) * size)) for place, size in enumerate(sizes)]
    path.write_bytes(field(1, iteration) + field(2, b"there/a.caffemodel") + b"".join(blobs))
    return path


@pytest.mark.parametrize(
    ("optimizer", "names"),
    [("sgd", ["velocity"]), ("adam", ["first_moment", "second_moment"])],
)
def test_history_is_that_of_the_arrays_in_caffes_order(
    optimizer: str, names: list[str], tmp_path: Path
) -> None:
    state = read_solverstate(_state(tmp_path / "a", SIZES * len(names)))
    assert (state.iteration, state.learned_net) == (7, "there/a.caffemodel")
    found = optimizer_vectors(state, net(NORMALISED), optimizer, tmp_path / "a")
    assert list(found.vectors) == names
    for number, vector in enumerate(found.vectors.values()):
        kept = dict.fromkeys(vector.views, 0)
        kept |= {name: place + number * len(SIZES) for place, name in enumerate(OF_OURS) if name}
        assert {name: set(map(int, values.ravel())) for name, values in vector.views.items()} == {
            name: {value} for name, value in kept.items()
        }


def test_history_of_another_net_is_refused(tmp_path: Path) -> None:
    path, found = tmp_path / "a", net(NORMALISED)
    with pytest.raises(NetworkError, match=r"the history of 9 arrays: expected 2 for each of .* 9"):
        optimizer_vectors(read_solverstate(_state(path, SIZES)), found, "adadelta", path)
    other = read_solverstate(_state(path, (7, *SIZES[1:])))
    with pytest.raises(NetworkError, match=r"history 0 is \(7,\): expected \(2, 3, 1, 1\) of 'c"):
        optimizer_vectors(other, found, "sgd", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89HDF\r\n\x1a\nmore", "is HDF5: expected a .solverstate .*BINARYPROTO writes it so"),
        (b"", "tells no iteration: expected a .solverstate of Caffe"),
        (field(1, 5), "tells no history"),
        (field(1, 5) + field(3, b"\xff"), "history 0"),
        (field(1, 5)[:1], "byte 1 begins a number beyond the end"),
    ],
)
def test_files_that_are_none_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.solverstate"
    path.write_bytes(content)
    with pytest.raises(NetworkError, match=message):
        read_solverstate(path)
    with pytest.raises(NetworkError, match=r"cannot be read .*expected a .solverstate"):
        read_solverstate(tmp_path / "none")


def test_cut_files_are_refused_at_any_byte(tmp_path: Path) -> None:
    whole = _state(tmp_path / "a", (3, 2)).read_bytes()
    path = tmp_path / "b"
    refused = 0
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        try:
            state = read_solverstate(path)
        except NetworkError:
            refused += 1
            continue
        assert len(state.history) < 2  # Cut between two fields.
    assert refused >= len(whole) - 2


def _imported(state: Path, folder: Path, weights: Path | None = None, more: str = "") -> Imported:
    (folder / "net.prototxt").write_text(LABELLED + DENSE + LOSS)
    solver = folder / "solver.prototxt"
    text = 'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 100 momentum: 0.9'
    solver.write_text(f"{text} {more}\n")
    return import_caffe(solver, "a.json", resumed=Resumed(state, weights, "a-state.safetensors"))


def test_run_goes_on_from_the_iteration_with_momentum(tmp_path: Path) -> None:
    state = _state(tmp_path / "a.solverstate", (7840, 10))
    (tmp_path / "a.caffemodel").write_bytes(b"")  # It lies beside, whatever its path was.
    found = _imported(state, tmp_path, more='weights: "other"')
    assert found.config_toml is not None
    assert "here they are standardised: the loss" in found.notes[-1]
    assert "# iteration of a.solverstate\nfirst_step = 7\n" in found.config_toml
    assert '# history of a.solverstate\noptimizer_state = "a-state' in found.config_toml
    beside = tmp_path / "a.caffemodel"
    assert f'# learned_net of a.solverstate\nweights = "{beside}"' in found.config_toml
    assert found.optimizer_state is not None
    path = tmp_path / "a-state.safetensors"
    path.write_bytes(found.optimizer_state)
    kept = read_optimizer_file(path, found.network)
    assert (kept.optimizer, [*kept.vectors]) == ("sgd", ["velocity"])
    assert (kept.vectors["velocity"].views["ip.bias"] == 1).all()


def test_weights_that_are_gone_are_asked_for(tmp_path: Path) -> None:
    state = _state(tmp_path / "a.solverstate", (7840, 10))
    with pytest.raises(ConfigError, match=r"its weights 'there/a.caffemodel' .* --weights FILE"):
        _imported(state, tmp_path)
    text = _imported(state, tmp_path, Path("given.caffemodel")).config_toml
    assert text is not None
    assert '# --weights\nweights = "given.caffemodel"' in text


def test_state_behind_the_end_is_refused(tmp_path: Path) -> None:
    state = _state(tmp_path / "a.solverstate", (7840, 10), iteration=100)
    with pytest.raises(ConfigError, match="is of iteration 100: expected one before max_iter, 100"):
        _imported(state, tmp_path, Path("given.caffemodel"))
    with pytest.raises(ConfigError, match="is a net: expected its solver"):
        import_caffe(tmp_path / "net.prototxt", "a.json", resumed=Resumed(state, None, "b"))


def test_state_that_caffe_has_written(tmp_path: Path) -> None:
    path = real("lenet_iter_10000.solverstate")
    state = read_solverstate(path)
    assert state.iteration == 10000
    assert state.learned_net.endswith("lenet_iter_10000.caffemodel")
    for name in ("lenet_solver.prototxt", "lenet_train_test.prototxt"):
        shutil.copy(NETS / name, tmp_path)
    solver = tmp_path / "lenet_solver.prototxt"
    solver.write_text(solver.read_text().replace("max_iter: 10000", "max_iter: 20000"))
    found = import_caffe(solver, "a.json", resumed=Resumed(path, None, "a.safetensors"))
    assert found.optimizer_state is not None
    (tmp_path / "a.safetensors").write_bytes(found.optimizer_state)
    kept = read_optimizer_file(tmp_path / "a.safetensors", found.network)
    views = kept.vectors["velocity"].views
    assert all(np.abs(values).max() > 0 for values in views.values())
    assert np.array_equal(views["ip2.bias"], state.history[-1])
