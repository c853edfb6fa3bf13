"""All-gathers of texts and barriers of all ranks of a run, by a key-value store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, final

from knltrain.communication.control_message import MessageError, checked
from knltrain.communication.rendezvous.key_value_store import KeyValueStore
from knltrain.errors import CollectiveError, ExchangeTimeout

_SHORTEST_NAP_SECONDS = 0.001
_LONGEST_NAP_SECONDS = 0.02
REPORT_SECONDS = 2.0
"""How much longer than rank 0 the others wait, to learn from it which ranks are missing."""


@final
class Fence:
    """All-gathers between ``ranks`` ranks, of which this is ``rank``.

    Rank 0 collects the texts of the others, and puts all of them under one key. ``check`` is called
    before every sleep and may raise.
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
        """Return the texts (``word``) of all ranks, by rank, once all have called this as often.

        Raises ExchangeTimeout, with the missing ranks and ``what`` they are missing at, and what
        ``check`` and the store raise.
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
            raise CollectiveError(f"rank 0 sent {len(found['words'])} texts of {self.ranks} ranks")
        return list(found["words"])

    def leave(self, limit_seconds: float) -> bool:
        """Tell rank 0 that this rank needs the store no more; rank 0 waits for all others.

        Return False if others have not told it within the limit.
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
    """Return the result that rank 0 has put; CollectiveError if it is malformed."""
    try:
        found = checked(json.loads(told), {"missing": (list,)})
        words = found.setdefault("words", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise MessageError("values that are no texts")
    except (ValueError, RecursionError) as error:
        raise CollectiveError(f"rank 0 has sent what is no list of texts: {error}") from None
    return found


def _late(seconds: float, missing: list[int], ranks: int, what: str) -> ExchangeTimeout:
    named = ", ".join(map(str, missing))
    return ExchangeTimeout(
        f"waited {seconds:.3g} s in vain for rank {named} of {ranks} at {what}: expected all ranks "
        "to come there; if they can be so much later than the others, raise "
        "exchange.timeout_seconds"
    )
