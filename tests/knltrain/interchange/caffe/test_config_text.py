from __future__ import annotations

from knltrain.config.reading import tomllib
from knltrain.interchange.caffe.config_text import config_text, tables_of
from knltrain.interchange.caffe.settings import Setting

from .prototxts import SMALL, net

SETTINGS = [
    Setting("train.steps", 9, "max_iter, line 3"),
    Setting("name", 'a "b"', "snapshot_prefix, line 4"),
    Setting("learning_rate.base", 1e-05, "base_lr, line 5"),
    Setting("network.name", "b.json", ""),
    Setting("learning_rate.step_values", [1, 2], "stepvalue, line 6"),
]


def _text(*notes: str) -> str:
    return config_text("x/s.prototxt", "y/n.prototxt", SETTINGS, net(SMALL), notes)


def test_text_is_toml_of_the_settings() -> None:
    assert (
        tomllib.loads(_text())
        == tables_of(SETTINGS)
        == {
            "name": 'a "b"',
            "network": {"name": "b.json"},
            "train": {"steps": 9},
            "learning_rate": {"base": 1e-05, "step_values": [1, 2]},
        }
    )


def test_setting_has_its_origin_above_it() -> None:
    lines = _text().splitlines()
    assert lines[lines.index("steps = 9") - 1] == "# max_iter, line 3"
    assert (
        lines[lines.index('name = "b.json"') + 1]
        == "# - Dense ip (line 3): num_output: 10 (line 4)"
    )


def test_notes_are_comments_with_names_of_files_whatever_is_in_them() -> None:
    text = _text("x/s.prototxt:7: a\nb = 3 \x00" + " word" * 40)
    assert "# - s.prototxt:7: a b = 3" in text
    assert max(map(len, text.splitlines())) <= 100
    assert tomllib.loads(text) == tables_of(SETTINGS)
