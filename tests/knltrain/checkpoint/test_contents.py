"""What others find in a checkpoint's folder."""

from __future__ import annotations

import json


def test_folder_holds_named_parameters_that_others_can_read(writer, state, tiny_network):
    from safetensors import safe_open

    folder = writer().save(state(7))
    assert folder.name == "checkpoint-7"
    assert sorted(path.name for path in folder.iterdir()) == [
        "center.safetensors",
        "state.json",
        "worker-0.safetensors",
    ]
    with safe_open(folder / "center.safetensors", framework="numpy") as file:
        metadata = json.loads(file.metadata()["checkpoint"])
        assert metadata == {"network": "tiny", "step": 7}
        shapes = {name: file.get_tensor(name).shape for name in ("out.weights", "out.bias")}
    assert shapes == {"out.weights": (2, 3), "out.bias": (2,)}
    description = json.loads((folder / "state.json").read_text())
    assert description["parameters"] == {"out.weights": [2, 3], "out.bias": [2]}
