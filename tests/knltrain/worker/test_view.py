from __future__ import annotations

import ast
from pathlib import Path

import knltrain.worker
from knltrain.worker.view import WorkerView

FOLDER = Path(knltrain.worker.__file__).parent


def test_a_worker_has_all_that_others_may_know_of_it(make_worker, no_exchange) -> None:
    worker = make_worker(no_exchange(1), steps=1)
    names = {*WorkerView.__annotations__, *vars(WorkerView)} - {"__annotations__"}
    assert all(hasattr(worker, name) for name in names if not name.startswith("_"))


def test_no_other_part_of_the_package_imports_the_loop() -> None:
    importing = {
        path.name
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "knltrain.worker.loop"
    }
    assert importing == set()
