"""Where all ranks of a run meet by a key-value store, again and again, and exchange words."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, final

from knltrain.communication.rendezvous.control_message import MessageError, checked
from knltrain.communication.rendezvous.key_value_store import KeyValueStore
from knltrain.errors import CollectiveError, ExchangeTimeout

_SHORTEST_NAP_SECONDS = 0.001
_LONGEST_NAP_SECONDS = 0.02
REPORT_SECONDS = 2.0
"""How much longer than rank 0 the others wait, so that they hear from it who is missing."""


@final
class Fence:
    """The meeting place of ``ranks`` ranks, of which this is ``rank``.

    Rank 0 collects what the others bring, and leaves all of it under one key. ``check`` is called
    before every nap and may raise.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        store: KeyValueStore,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.rank, self.ranks = rank, ranks
        self._store, self.check = store, check
        self._meeting = 0

    def gather(self, word: str, limit_seconds: float, what: str) -> list[str]:
        """Return the words of all ranks, by rank, once all have called this as often as this one.

        Raises ExchangeTimeout, with ``what`` they do not come to and the ranks that are missing,
        and what ``check`` and the store raise.
        """
        self._meeting += 1
        started = time.monotonic()
        if self.rank != 0:
            self._store.put(self._key(self.rank), word)
            told = self._await(self._key("all"), started + limit_seconds + REPORT_SECONDS)
        else:
            told = self._collected(word, started + limit_seconds)
            self._store.put(self._key("all"), told)
        found = _read(told) if told is not None else {"missing": self._missing() or [0]}
        if found["missing"]:
            waited = time.monotonic() - started
            raise _late(waited, found["missing"], self.ranks, what)
        if len(found["words"]) != self.ranks:
            raise CollectiveError(f"rank 0 tells {len(found['words'])} words of {self.ranks} ranks")
        return list(found["words"])

    def leave(self, limit_seconds: float) -> bool:
        """Tell rank 0 that this one needs the store no more; rank 0 stays until all have.

        Return whether they have within the limit.
        """
        self._meeting += 1
        if self.rank != 0:
            self._store.put(self._key(self.rank), "")
            return True
        deadline = time.monotonic() + limit_seconds
        others = (self._key(rank) for rank in range(1, self.ranks))
        return all(self._await(key, deadline) is not None for key in others)

    def _collected(self, word: str, deadline: float) -> str:
        words = [word]
        for rank in range(1, self.ranks):
            brought = self._await(self._key(rank), deadline)
            if brought is None:
                return json.dumps({"missing": self._missing()})
            words.append(brought)
        return json.dumps({"missing": [], "words": words})

    def _missing(self) -> list[int]:
        return [rank for rank in range(1, self.ranks) if self._store.get(self._key(rank)) is None]

    def _await(self, key: str, deadline: float) -> str | None:
        nap_seconds = _SHORTEST_NAP_SECONDS
        while (found := self._store.get(key)) is None:
            self.check()
            if time.monotonic() > deadline:
                return None
            time.sleep(nap_seconds)
            nap_seconds = min(2 * nap_seconds, _LONGEST_NAP_SECONDS)
        return found

    def _key(self, part: int | str) -> str:
        return f"fence {self._meeting} {part}"


def _read(told: str) -> dict[str, Any]:
    """What rank 0 has left; CollectiveError where it is something else."""
    try:
        found = checked(json.loads(told), {"missing": (list,)})
        words = found.setdefault("words", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise MessageError("words that are no texts")
    except (ValueError, RecursionError) as error:
        raise CollectiveError(f"rank 0 has left what is no list of words: {error}") from None
    return found


def _late(seconds: float, missing: list[int], ranks: int, what: str) -> ExchangeTimeout:
    named = ", ".join(map(str, missing))
    return ExchangeTimeout(
        f"waited {seconds:.3g} s in vain for rank {named} of {ranks} at {what}: expected all ranks "
        "to come there; if they can be so much later than the others, raise "
        "exchange.timeout_seconds"
    )
