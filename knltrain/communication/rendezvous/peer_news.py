"""Messages about a rank: that it has left, or why it is gone."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from knltrain.communication.control_message import MessageError, checked
from knltrain.communication.shared_memory import process_identity

LONGEST_WHY: Final = 2**14
"""The most characters of a reason: so many, whatever they are, fit in a message."""

_NEWS: Final = {"rank": (int,), "where": (str,), "left": (bool,)}


def news_in(said: Any, ranks: int) -> dict[str, Any]:
    """Return the message if it is news of one of ``ranks``; else MessageError."""
    rank = checked(said, _NEWS)["rank"]
    if not 0 <= rank < ranks or type(said.get("why")) not in (str, type(None)):
        raise MessageError(f"news of rank {rank}: expected one of {ranks}")
    return dict(said)


def is_note(said: Any) -> bool:
    """Tell whether a message is a note, which the failure detector only passes on."""
    return isinstance(said, dict) and isinstance(said.get("note"), dict)


def last_words(rank: int, in_peace: bool, why: str | None) -> dict[str, Any]:
    """Return the news that this process leaves or fails; valid whatever text ``why`` is."""
    if why is not None:
        why = why[:LONGEST_WHY].encode("utf-8", "backslashreplace").decode("utf-8")
    return {"rank": rank, "where": whereabouts(), "left": in_peace, "why": why}


def whereabouts() -> str:
    """Return the name of this process in messages to other computers."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def silent_for(limit_seconds: float, identity: int) -> str:
    """Return why a silent process is given up; says how it is stopped if it is on this computer."""
    how = process_identity.standstill(identity)
    known = "" if how is None else f"is {how}, and "
    return (
        f"its process {process_identity.process_id(identity)} {known}has given no sign of life for "
        f"{limit_seconds:g} s: expected it to run, or all of the run to be stopped; if a computer "
        "may stand still for so long, raise exchange.timeout_seconds"
    )
