from __future__ import annotations

from knltrain.interchange.caffe.settings import Setting, SolverSettings
from knltrain.interchange.caffe.text_format import parse


def test_setting_tells_lines_of_its_fields_and_defaults() -> None:
    found = SolverSettings(parse("a: 1\nb: 2", "s.prototxt"))
    found.put("train.steps", 3, "b", "c", why="and more")
    assert found.settings == [
        Setting("train.steps", 3, "b, line 2, Caffe's default of c; and more")
    ]


def test_note_is_of_fields_that_are_there() -> None:
    solver = parse("a: 1\nb: 2", "s.prototxt")
    found = SolverSettings(solver)
    found.note("b", "so")
    found.note("c", "so")
    assert found.notes == ["s.prototxt:2: b: 2 dropped: so"]
    assert [path for path, _ in solver.unread()] == ["a"]
