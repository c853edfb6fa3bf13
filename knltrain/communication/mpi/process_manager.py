"""The process manager of one rank, for MPI libraries of the MPICH family: protocol PMI 1.1.

The library writes a line of `name=value` pairs, beginning with cmd=, and reads a line in answer.
What a rank puts is visible to all ranks after the next barrier (Balaji et al., EuroMPI 2010; the
protocol of MPICH's hydra).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import final

from knltrain.communication.control_message import MessageError, checked, decoded
from knltrain.errors import CollectiveError

MAPPING = "PMI_process_mapping"
"""The key under which a library looks for the ranks that share a node."""

LONGEST_KEY, LONGEST_VALUE = 64, 1024

FAREWELL = "cmd=finalize_ack rc=0"
"""The answer to cmd=finalize, after which a library asks no more."""

_STATUS = re.compile(r"[0-9]{1,3}")

_REFUSED = {
    "publish_name": "publish_result",
    "unpublish_name": "unpublish_result",
    "lookup_name": "lookup_result",
    "spawn": "spawn_result",
}

Meet = Callable[[str], list[str]]
"""An all-gather of one text of each rank; see `Fence.gather`."""


@final
class ProcessManager:
    """Answers one rank's MPI library; ``meet`` exchanges texts with the managers of the others.

    ``job`` is a name that no other job has: MPICH derives names of shared memory from it.
    ``mapping`` says which ranks share a node. No processes join or leave later, so the commands to
    spawn and to publish are refused.
    """

    def __init__(self, job: str, ranks: int, mapping: str, meet: Meet) -> None:
        self._job, self._ranks, self._meet = job, ranks, meet
        self._own: dict[str, str] = {}
        self._known = {MAPPING: mapping}
        self._in_many_lines = False
        self.aborted: int | None = None
        """The exit status with which the library asks its launcher to end the process."""

    def answer(self, line: str) -> str | None:
        """Return the answer to a line, both without newlines; None if there is no answer.

        Raises what ``meet`` raises, and CollectiveError for invalid texts of others.
        """
        if line.startswith("mcmd="):
            self._in_many_lines = True
        if self._in_many_lines:
            if line != "endcmd":
                return None
            self._in_many_lines = False
            return "cmd=spawn_result rc=-1 msg=not_supported"
        return self._answer(_pairs(line))

    def _answer(self, said: dict[str, str]) -> str | None:
        command = said.get("cmd", "")
        if command in ("put", "get"):
            return self._put(said) if command == "put" else self._get(said)
        if command == "barrier_in":
            self._exchange()
            return "cmd=barrier_out rc=0"
        if command == "abort":
            code = said.get("exitcode", "")
            self.aborted = int(code) if _STATUS.fullmatch(code) else 1
            return None
        if command in _REFUSED:
            return f"cmd={_REFUSED[command]} rc=-1 info=error msg=not_supported"
        return self._fixed().get(command, f"cmd={command} rc=-1 msg=unknown_command")

    def _fixed(self) -> dict[str, str]:
        longest = f"keylen_max={LONGEST_KEY} vallen_max={LONGEST_VALUE}"
        return {
            "init": "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
            "get_maxes": f"cmd=maxes rc=0 kvsname_max=256 {longest}",
            "get_appnum": "cmd=appnum rc=0 appnum=0",
            "get_my_kvsname": f"cmd=my_kvsname rc=0 kvsname={self._job}",
            "get_universe_size": f"cmd=universe_size rc=0 size={self._ranks}",
            "finalize": FAREWELL,
        }

    def _put(self, said: dict[str, str]) -> str:
        if "key" not in said or "value" not in said:
            return "cmd=put_result rc=-1 msg=no_key_or_value"
        if said["key"] in self._known or said["key"] in self._own:
            return f"cmd=put_result rc=-1 msg=duplicate_key_{said['key']}"
        self._own[said["key"]] = said["value"]
        return "cmd=put_result rc=0 msg=success"

    def _get(self, said: dict[str, str]) -> str:
        key = said.get("key", "")
        value = self._own.get(key, self._known.get(key))
        if value is None:
            return f"cmd=get_result rc=-1 msg=key_{key}_not_found value=unknown"
        return f"cmd=get_result rc=0 msg=success value={value}"

    def _exchange(self) -> None:
        for rank, word in enumerate(self._meet(json.dumps(self._own))):
            try:
                found = checked(decoded(word.encode("utf-8", "replace")), {})
                self._known.update(checked(found, dict.fromkeys(found, (str,))))
            except MessageError as error:
                raise CollectiveError(
                    f"rank {rank} of MPI has put what PMI does not allow: {error}"
                ) from None
        self._own = {}


def _pairs(line: str) -> dict[str, str]:
    """Read `cmd=put key=K value=V`; a value may hold blanks, and comes last."""
    before, named, value = line.partition(" value=")
    pairs = dict(pair.split("=", 1) for pair in before.split() if "=" in pair)
    return {**pairs, "value": value} if named else pairs
