from __future__ import annotations

import os
import subprocess
import sys
import termios

import pytest

from knltrain.errors import KnltrainError
from knltrain.launch.spoken_line import SpokenLine

READS = "import sys; print([sys.stdin.readline(), sys.stdin.read()])"


def heard(said: SpokenLine, command: list[str]) -> str:
    with subprocess.Popen(command, stdin=said.fd, stdout=subprocess.PIPE, text=True) as process:
        said.speak()
        out, _ = process.communicate(timeout=60)
    return out


def test_process_reads_the_line_and_then_the_end() -> None:
    with SpokenLine("0123abcd") as said:
        assert heard(said, [sys.executable, "-c", READS]) == "['0123abcd\\n', '']\n"


def test_terminal_shows_nothing_of_it() -> None:
    with SpokenLine("0123abcd") as said:
        assert not termios.tcgetattr(said.fd)[3] & (termios.ECHO | termios.ECHONL)
        heard(said, [sys.executable, "-c", READS])
        os.set_blocking(said._speaking_fd, False)
        with pytest.raises(BlockingIOError):
            os.read(said._speaking_fd, 100)


def test_process_that_never_reads_holds_up_nobody() -> None:
    with SpokenLine("0123abcd") as said:
        assert heard(said, [sys.executable, "-c", "print('done')"]) == "done\n"


def test_terminals_that_are_none_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(os, "openpty", none)
    with pytest.raises(KnltrainError, match=r"no terminal .* expected /dev/pts to be mounted"):
        SpokenLine("0123abcd")
