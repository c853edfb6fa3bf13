"""The profile as text: a table of stages, one of the rest, and what was checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from affinity.cli.layout import table
from knltrain.profile.kinds import by_kind
from knltrain.profile.measured import EXCHANGED
from knltrain.profile.stragglers import told_of_stragglers

_HEAD: Final = (
    "stage", "direction", "operation", "algorithm", "ms", "%", "spread %",
    "GFLOP/s", "of sgemm %", "GB/s", "of copy %", "FLOP/B", "bound", "of bound %",
)  # fmt: skip
_LEFT: Final = 4
_BOUND: Final = _HEAD.index("bound")
_RIGHT: Final = [number for number in range(_LEFT, len(_HEAD)) if number != _BOUND]

_MOST_WORKERS: Final = 16

_ALONE: Final = (
    "one worker: it waits for no other, so nothing is said of stragglers, load balance and what is "
    "hidden; --workers 2 profiles two"
)


def told(document: Mapping[str, Any], most: int | None = None) -> str:
    """The profile; of the stages, the `most` that take longest in their order, or all."""
    return "\n\n".join(part for part in _parts(document, most) if part)


def _parts(document: Mapping[str, Any], most: int | None) -> Iterator[str]:
    step = document["step_seconds"]["mean"]
    yield _head(document)
    stages = [each for each in document["stages"] if each["seconds"]["mean"] > 0]
    if stages:
        shown = _longest(stages, most)
        rows = [_stage_row(each, step) for each in shown]
        rows += _rest_rows(stages, shown, step)
        yield table(_HEAD, rows, right=_RIGHT)
        yield _by_kind(document)
    rows = [
        (
            each["name"],
            f"{1e3 * each['seconds']:.3f}",
            f"{100 * each['seconds'] / step:.1f}",
            *_rates(each),
        )
        for each in document["parts"]
    ]
    yield table(("besides", "ms", "%", *_HEAD[-7:]), rows, right=(*range(1, 8), 9))
    yield _exchanges(document["exchanges"])
    yield _workers(document)
    yield _checks(document)


def _head(document: Mapping[str, Any]) -> str:
    step, machine = document["step_seconds"], document["machine"][0]
    images = document["batch_per_worker"] * document["batches_per_step"]
    window, over = document["window"], document["overhead"]
    thirds = ", ".join(f"{1e3 * each:.2f}" for each in window["thirds"])
    lines = [
        f"{document['network']['name']}, {images} images a step and worker, "
        f"{document['workers']} x {document['threads_per_worker']} threads, {document['method']}",
        f"step: {1e3 * step['mean']:.3f} ms (median {1e3 * step['median']:.3f}, 5 to 95 %: "
        f"{1e3 * step['p05']:.3f} to {1e3 * step['p95']:.3f}), {window['steps']} steps; "
        f"means of its thirds: {thirds} ms",
        *_fewer_steps(document),
        _at_best(machine),
        f"{over['records_per_step']:.0f} records a step of {1e9 * over['record_seconds']:.0f} ns "
        f"cost {100 * over['share']:.2f} %; summing them up takes "
        f"{1e6 * over['fold_seconds']:.0f} us after a step, and is not in it",
    ]
    return "\n".join(lines)


def _fewer_steps(document: Mapping[str, Any]) -> Iterator[str]:
    """That of the worker with the fewest steps, if more were asked for."""
    if asked := document.get("profile_steps"):  # unknown before version 1.2
        least = min(document["ranks"], key=lambda each: each["steps"])
        if least["steps"] < asked:
            yield (
                f"fewer steps than the {asked} that were asked for: worker {least['rank']} took "
                f"{least['steps']} until the run ended"
            )


def _at_best(machine: Mapping[str, Any]) -> str:
    sgemm, copy = machine["sgemm_flops_per_second"], machine["copy_bytes_per_second"]
    product, link = machine.get("product_flops_per_second"), machine.get("link_bytes_per_second")
    said = [f"{sgemm / 1e9:.1f} GFLOP/s (sgemm)"]
    if product not in (None, sgemm):
        said.append(f"{product / 1e9:.1f} GFLOP/s (products of the run's precision)")
    said.append(f"{copy / 1e9:.1f} GB/s (copy)")
    if link is not None:
        said.append(f"{link / 1e9:.2f} GB/s (link)")
    return "worker 0 at best: " + ", ".join(said)


def _longest(stages: Sequence[Mapping[str, Any]], most: int | None) -> Sequence[Mapping[str, Any]]:
    if most is None or len(stages) <= most:
        return stages
    kept = sorted(stages, key=lambda each: -each["seconds"]["mean"])[:most]
    places = {each["place"] for each in kept}
    return [each for each in stages if each["place"] in places]


def _stage_row(stage: Mapping[str, Any], step: float) -> tuple[str, ...]:
    seconds, by_rank = stage["seconds"]["mean"], stage["by_rank"]
    known = [each for each in by_rank or () if each is not None]
    spread = (max(known) - min(known)) / seconds if len(known) > 1 else None
    return (
        stage["name"],
        stage["direction"].replace("_", "-"),
        stage["class"],
        stage["algorithm"] or "",
        f"{1e3 * seconds:.3f}",
        f"{100 * seconds / step:.1f}",
        "" if spread is None else f"{100 * spread:.0f}",
        *_rates(stage),
    )


def _rates(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The last columns; of a row without rates they are empty."""
    return (
        _number(row.get("flops_per_second"), 1e9),
        _percent(row.get("share_of_sgemm")),
        _number(row.get("bytes_per_second"), 1e9),
        _percent(row.get("share_of_copy")),
        _number(row.get("intensity"), 1),
        *_bound(row),
    )


def _bound(row: Mapping[str, Any]) -> tuple[str, str]:
    return row.get("bound") or "", _percent(row.get("efficiency"))


def _rest_rows(
    stages: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]], step: float
) -> list[tuple[str, ...]]:
    if len(shown) == len(stages):
        return []
    seconds = sum(each["seconds"]["mean"] for each in stages)
    seconds -= sum(each["seconds"]["mean"] for each in shown)
    count = len(stages) - len(shown)
    row = (f"{count} others", "", "", "", f"{1e3 * seconds:.3f}", f"{100 * seconds / step:.1f}")
    return [(*row, *[""] * (len(_HEAD) - len(row)))]


def _by_kind(document: Mapping[str, Any]) -> str:
    rows = [
        (
            row["operation"],
            f"{1e3 * row['seconds']:.3f}",
            f"{100 * row['share']:.1f}",
            _number(row["gflops"], 1),
            _number(row["gbytes_per_second"], 1),
            _number(row["arithmetic_intensity"], 1),
        )
        for row in by_kind(document)
    ]
    return table(("operation", "ms", "%", "GFLOP/s", "GB/s", "FLOP/B"), rows, right=range(1, 6))


def _exchanges(parts: Sequence[Mapping[str, Any]]) -> str:
    if not parts:
        return ""
    rows = [
        (
            _shortened(each["layers"]),
            f"{each['packed_bytes'] / 2**20:.2f}",
            _mebibytes(each["wire_bytes"] or each.get("exchanged_bytes")),
            *(_milliseconds(each[f"{name}_seconds"]) for name in EXCHANGED),
            _number(each["communication_intensity"], 1),
            *_bound(each),
        )
        for each in parts
    ]
    told = (f"{name} ms" for name in EXCHANGED)
    heads = ("exchanged", "MiB", "moved MiB", *told, "FLOP/moved B", "bound", "of bound %")
    return table(heads, rows, right=(*range(1, 7), 8))


def _mebibytes(moved: float | None) -> str:
    return "" if moved is None else f"{moved / 2**20:.2f}"


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3f}"


def _shortened(layers: Sequence[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{layers[-1]} to {layers[0]}"


def _workers(document: Mapping[str, Any]) -> str:
    ranks = document["ranks"]
    if len(ranks) == 1:
        return _ALONE
    shown = ranks
    if len(ranks) > _MOST_WORKERS:
        ordered = sorted(ranks, key=lambda each: each["useful_seconds"])
        half = _MOST_WORKERS // 2
        shown = sorted((*ordered[:half], *ordered[-half:]), key=lambda each: each["rank"])
    rows = [
        (
            str(each["rank"]),
            f"{1e3 * each['step_seconds']['mean']:.3f}",
            f"{1e3 * each['useful_seconds']:.3f}",
            f"{1e3 * each['classes']['waiting']:.3f}",
            f"{1e3 * each['classes']['moving']:.3f}",
            _number(each["noise_cv"], 0.01),
            str(each["late_steps"]),
            _number(each["last_share"], 0.01),
        )
        for each in shown
    ]
    heads = (
        *("worker", "step ms", "computes ms", "waits ms", "moves ms", "noise %", "late steps"),
        "last %",
    )
    left_out = len(ranks) - len(shown)
    said = [f"{left_out} workers between the fastest and the slowest are left out"] * (left_out > 0)
    told = table(heads, rows, right=range(len(heads)))
    return "\n".join([told, *said, told_of_stragglers(ranks), *_exchanging(document)])


def _exchanging(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["communication"]
    pop = {name: 100 * (share or 0.0) for name, share in document["efficiency"].items()}
    share = found["hidden_share"]
    hidden = "nothing is exchanged" if share is None else f"{100 * share:.0f} % hidden"
    yield (
        f"an exchange goes on for {1e3 * found['union_seconds']:.3f} ms of a step: {hidden}, "
        f"{1e3 * found['exposed_seconds']:.3f} ms exposed"
    )
    if (times := found.get("shmcaffe")) is not None:
        named = ("tcomp", "trgw", "tulw", "twwi", "tugw", "titer_model", "titer_measured")
        yield "ShmCaffe's times of an iteration, ms: " + ", ".join(
            f"{name.capitalize().replace('_', ' ')} {1e3 * times[name]:.3f}"
            for name in named
            if times[name] is not None
        )
        if times["twwi"] is None:
            yield "within a node Twwi is in Tulw: one pass pulls the local and writes the increment"
    if pop["parallel"]:
        yield (
            f"load balance {pop['load_balance']:.1f} % x communication efficiency "
            f"{pop['communication']:.1f} % = parallel efficiency {pop['parallel']:.1f} %"
        )


def _checks(document: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{'ok  ' if each['passed'] else 'FAIL'} {each['name']}: {each['value']:.4g} "
        f"(at most {each['limit']:g})"
        for each in document["checks"]
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}"


def _number(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:.1f}"
