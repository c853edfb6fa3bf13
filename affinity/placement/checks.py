"""Checks a request by itself, before any machine is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

from affinity import terms
from affinity.errors import PlacementError
from affinity.placement.beside_gpus import check_gpus
from affinity.placement.plan import MemoryPolicy, Request, Strategy, Unit, WantedKind
from affinity.placement.wording import counted


def check_request(request: Request) -> None:
    """Raise PlacementError for unknown values, numbers too small, contradictions."""
    _check_words(request)
    _check_numbers(request)
    _check_needs(request)
    if request.cpus:
        _check_by_hand(request)
    check_gpus(request)
    if request.policy in ("none", "cache") and request.kind != "best":
        raise PlacementError(
            f"memory of {terms.kind(request.kind)} asked for with "
            f"{terms.policy(request.policy)}, which ties it to nothing: use "
            f"{terms.policy('spill')} or 'strict'"
        )
    reserve = request.reserve
    if reserve.communication_on_siblings and not reserve.communication_cores:
        raise PlacementError(
            "communication on siblings asked for, but no number of communication cores: "
            "ask for 1 or more, each gets the second hardware thread of a computing core"
        )


def _check_words(request: Request) -> None:
    if isinstance(request.workers, str):
        _check_word("unit for one worker each", request.workers, get_args(Unit))
    _check_word("strategy", request.strategy, get_args(Strategy))
    _check_word("memory policy", request.policy, get_args(MemoryPolicy))
    for kind in (request.kind, *(need.kind for need in request.needs)):
        _check_word("kind of memory", kind, get_args(WantedKind))


def _check_word(what: str, given: str, known: Iterable[str]) -> None:
    words = tuple(known)
    if given not in words:
        close = get_close_matches(given, words, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        expected = ", ".join(map(repr, words))
        raise PlacementError(f"unknown {what} {given!r}: expected one of {expected}{hint}")


def _check_numbers(request: Request) -> None:
    if isinstance(request.workers, int) and request.workers < 1:
        raise PlacementError(f"{request.workers} workers asked for: use --workers 1 or more")
    reserve = request.reserve
    for what, number, least in (
        ("cores per worker", request.cores_per_worker, 1),
        ("threads per core", request.threads_per_core, 1),
        ("cores kept for the system", reserve.os_cores, 0),
        ("communication cores", reserve.communication_cores, 0),
        ("data cores", reserve.data_cores, 0),
    ):
        if number is not None and number < least:
            raise PlacementError(f"{number} {what} asked for: use {least} or more")


def _check_needs(request: Request) -> None:
    for need in request.needs:
        if need.bytes is not None and need.bytes < 0:
            raise PlacementError(f"need {need.name!r} of {need.bytes} bytes: use 0 or more")
    names = Counter(need.name for need in request.needs)
    if repeated := [name for name, times in names.items() if times > 1]:
        raise PlacementError(f"need {repeated[0]!r} is given more than once: add them up")
    if request.policy == "split" and not request.needs:
        raise PlacementError(
            f"{terms.policy('split')} puts each need where it asks to be, but no needs are "
            f"given: name them (weights: hbm, data: dram), or use {terms.policy('spill')}"
        )


def _check_by_hand(request: Request) -> None:
    ranks = len(request.cpus)
    if request.workers not in (1, ranks):
        raise PlacementError(
            f"workers {request.workers!r} asked for, but cpus given by hand for {ranks}: "
            f"leave one of the two out"
        )
    if request.cores_per_worker is not None:
        raise PlacementError(
            f"{counted(request.cores_per_worker, 'core')} per worker asked for, but cpus given by "
            "hand: "
            "leave one of the two out"
        )
