"""What a profile says of a network: a row for its step, and one for each kind of operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from knltrain.profile.kinds import by_kind

_OF_STAGE: Final = ("name", "layers", "class", "direction")
_OF_EXCHANGE: Final = (
    "layers", "moving_seconds", "issued_seconds", "exposed_seconds", "packed_bytes", "wire_bytes",
    "exchanged_bytes", "communication_intensity",
)  # fmt: skip


def step_row(network: str, ground: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a step in seconds, its speed, and its intensities.

    `arithmetic_intensity` is of operations and compulsory bytes by definition;
    `communication_intensity` of operations of a node's workers and bytes that it sends, None where
    nothing is sent. `exposed_seconds` and `hidden_share` are those of the profile. `stages` are its
    regions that take time, with their flops and compulsory bytes by definition; `exchanges` are of
    the parts of a gradient that are exchanged by themselves (docs/profile.md).
    """
    stages, parts = profile["stages"], {each["name"]: each["seconds"] for each in profile["parts"]}
    step, workers = profile["step_seconds"]["mean"], len(profile["ranks"])
    images = profile["batch_per_worker"] * profile["batches_per_step"] * workers
    flops = sum(each["flops"] for each in stages)
    moved = sum(each["compulsory_bytes"] for each in stages)
    sent = profile.get("exchange_bytes")
    of_node = flops * profile["workers_per_node"] * profile["communication_period"]
    machine, communication = profile["machine"][0], profile["communication"]
    return {
        "network": network,
        "ground": ground,
        "step_seconds": step,
        "images_per_second": images / step,
        "forward_seconds": _seconds(profile, "forward"),
        "backward_seconds": _seconds(profile, "backward"),
        "update_seconds": parts["update"],
        "exposed_seconds": communication["exposed_seconds"] if workers > 1 else None,
        "hidden_share": communication["hidden_share"],
        "arithmetic_intensity": flops / moved if moved else None,
        "communication_intensity": of_node / sent if sent else None,
        "sgemm_gflops": machine["sgemm_flops_per_second"] / 1e9,
        "copy_gbytes_per_second": machine["copy_bytes_per_second"] / 1e9,
        "failed_checks": [each["name"] for each in profile["checks"] if not each["passed"]],
        "stages": [
            {
                **{name: each[name] for name in _OF_STAGE},
                "seconds": each["seconds"]["mean"],
                "flops": each["flops"],
                "bytes": each["compulsory_bytes"],
                "intensity": each["intensity"],
            }
            for each in stages
            if each["seconds"]["mean"]
        ],
        "exchanges": [{name: each[name] for name in _OF_EXCHANGE} for each in profile["exchanges"]],
    }


def kind_rows(network: str, ground: str, profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each kind, see `knltrain.profile.kinds`."""
    return [{"network": network, "ground": ground, **row} for row in by_kind(profile)]


def layer_rows(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each layer of a `step_row`, with those fused into it, in the order of the network.

    `compute_seconds` are of all directions. `exchange_seconds` and `exposed_seconds` are of the
    parts of the gradient of which it is the last to be computed; None where there are none.
    """
    stages = [each for each in step["stages"] if each["class"] != "exchange"]
    found: dict[str, dict[str, Any]] = {}
    for each in stages:
        empty = {"compute_seconds": 0.0, "exchange_seconds": None, "exposed_seconds": None}
        row = found.setdefault(each["name"], {"layer": each["name"], **empty})
        row["compute_seconds"] += each["seconds"]
    place = {layer: each["name"] for each in stages for layer in each["layers"]}
    for part in step["exchanges"]:
        last = next((place[layer] for layer in part["layers"] if layer in place), None)
        if last is None or part["exposed_seconds"] is None:
            continue
        for of, measured in (("exchange", "moving"), ("exposed", "exposed")):
            before = found[last][f"{of}_seconds"] or 0.0
            found[last][f"{of}_seconds"] = before + part[f"{measured}_seconds"]
    return list(found.values())


def _seconds(profile: Mapping[str, Any], direction: str) -> float:
    own = (each for each in profile["stages"] if each["direction"].startswith(direction))
    return float(sum(each["seconds"]["mean"] for each in own))
