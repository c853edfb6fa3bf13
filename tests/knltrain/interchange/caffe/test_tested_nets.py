from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.importing import Imported, import_caffe

from .prototxts import DENSE, LABELLED, LOSS, SMALL

TESTED = SMALL.replace("batch_size: 4", "batch_size: 50").replace('type: "xavier"', "")


def _imported(folder: Path, solver: str, **nets: str) -> Imported:
    for name, text in nets.items():
        (folder / f"{name}.prototxt").write_text(text)
    path = folder / "solver.prototxt"
    path.write_text(f'{solver} base_lr: 0.1 lr_policy: "fixed" max_iter: 9\n')
    return import_caffe(path, "a.json")


def test_test_net_that_computes_the_same_gives_the_test_batch(tmp_path: Path) -> None:
    solver = 'train_net: "a.prototxt" test_net: "b.prototxt" test_iter: 3 test_interval: 2'
    text = _imported(tmp_path, solver, a=SMALL, b=TESTED).config_toml
    assert text is not None
    assert "test_images = 150\n" in text
    inside = f"train_net_param {{ {SMALL} }} test_net_param {{ {TESTED} }}"
    text = _imported(tmp_path, f"{inside} test_iter: 3 test_interval: 2").config_toml
    assert text is not None
    assert "test_images = 150\n" in text


def test_several_test_nets_are_checked_and_the_first_is_tested(tmp_path: Path) -> None:
    solver = """train_net: "a.prototxt" test_net: "b.prototxt" test_net: "a.prototxt"
    test_iter: 3 test_iter: 7 test_interval: 2
    test_state { stage: "x" } test_state { stage: "y" }"""
    found = _imported(tmp_path, solver, a=SMALL, b=TESTED)
    notes = "\n".join(found.notes)
    assert "solver.prototxt:2: test_iter: 7 dropped: the first is tested" in notes
    assert "solver.prototxt:3: test_state dropped: the first is tested" in notes
    assert found.config_toml is not None
    assert "test_images = 150\n" in found.config_toml


def test_one_net_may_have_several_states(tmp_path: Path) -> None:
    solver = 'net: "a.prototxt" test_iter: 3 test_iter: 7 test_interval: 2 test_state {} '
    assert "test_state dropped" not in "\n".join(_imported(tmp_path, solver, a=SMALL).notes)


@pytest.mark.parametrize(
    ("tested", "message"),
    [
        (SMALL.replace("num_output: 10", "num_output: 9"), "its layer 'ip' is another than 'ip'"),
        (SMALL.replace('"ip"', '"fc"'), "its layer 'fc' is another than 'ip'"),
        (
            LABELLED + DENSE + 'layer { name: "r" type: "ReLU" bottom: "ip" top: "ip" }' + LOSS,
            "it has 2 layers, the net that is trained 1",
        ),
        (LABELLED.replace("mnist", "other") + DENSE + LOSS, None),
    ],
)
def test_test_net_that_is_another_is_refused(
    tested: str, message: str | None, tmp_path: Path
) -> None:
    solver = 'train_net: "a.prototxt" test_net: "b.prototxt" test_iter: 3 test_interval: 2'
    if message is None:  # Its images have the shape of those that are trained on.
        _imported(tmp_path, solver, a=SMALL, b=tested)
        return
    with pytest.raises(ConfigError, match=f"solver.prototxt: test_net .*b.prototxt: .*{message}"):
        _imported(tmp_path, solver, a=SMALL, b=tested)


def test_test_net_that_is_not_there_is_named(tmp_path: Path) -> None:
    solver = 'train_net: "a.prototxt" test_net: "none" test_iter: 3 test_interval: 2'
    with pytest.raises(ConfigError, match="test_net: 'none' is neither in the working folder"):
        _imported(tmp_path, solver, a=SMALL)
