"""What ranks tell each other of themselves: that one has left, or why it is gone."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from knltrain.communication.rendezvous.control_message import MessageError, checked
from knltrain.communication.shared_memory import process_identity

LONGEST_WHY: Final = 2**14
"""Characters of a reason that others are told: a message has room for these, whatever they are."""

_NEWS: Final = {"rank": (int,), "where": (str,), "left": (bool,)}


def news_in(said: Any, ranks: int) -> dict[str, Any]:
    """What was said, if that is news of one of so many ranks; else MessageError."""
    rank = checked(said, _NEWS)["rank"]
    if not 0 <= rank < ranks or type(said.get("why")) not in (str, type(None)):
        raise MessageError(f"news of rank {rank}: expected one of {ranks}")
    return dict(said)


def is_note(said: Any) -> bool:
    """Whether that is a note, of which the watch itself knows nothing."""
    return isinstance(said, dict) and isinstance(said.get("note"), dict)


def last_words(rank: int, in_peace: bool, why: str | None) -> dict[str, Any]:
    """News of this process, which any other end takes, whatever text ``why`` is."""
    if why is not None:
        why = why[:LONGEST_WHY].encode("utf-8", "backslashreplace").decode("utf-8")
    return {"rank": rank, "where": whereabouts(), "left": in_peace, "why": why}


def whereabouts() -> str:
    """This process, for those elsewhere."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def silent_for(limit_seconds: float, identity: int) -> str:
    """Why a process is given up; how it stands still is known if it is on this computer."""
    how = process_identity.standstill(identity)
    known = "" if how is None else f"is {how}, and "
    return (
        f"its process {process_identity.process_id(identity)} {known}has given no sign of life for "
        f"{limit_seconds:g} s: expected it to run, or all of the run to be stopped; if a computer "
        "may stand still for so long, raise exchange.timeout_seconds"
    )
