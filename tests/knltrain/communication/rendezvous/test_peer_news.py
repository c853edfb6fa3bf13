from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from knltrain.communication.control_message import MessageError, decoded, encoded
from knltrain.communication.rendezvous.peer_news import is_note, last_words, news_in, silent_for
from knltrain.communication.shared_memory import process_identity


def test_last_words_are_news_whatever_the_reason() -> None:
    said = decoded(encoded(last_words(1, False, "no '\udcff'" + "\N{FIRE}" * 2**21)))
    assert news_in(said, 2)["why"].startswith("no '\\udcff'\N{FIRE}")
    assert news_in(last_words(0, True, None), 1)["left"]


@pytest.mark.parametrize("said", [None, [], {"rank": 2, "where": "", "left": True}], ids=str)
def test_what_is_no_news_is_refused(said: object) -> None:
    with pytest.raises(MessageError):
        news_in(said, 2)


def test_notes_are_told_from_the_rest() -> None:
    assert is_note({"note": {}})
    assert not any(map(is_note, ({"note": 1}, {}, [], last_words(0, True, None))))


def test_how_a_silent_process_stands_still_is_told_where_it_can_be_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as child:
        identity = process_identity.identity_of(child.pid)
        assert identity is not None
        assert f"its process {child.pid} has given no sign of life for 4 s: " in silent_for(
            4, identity
        )
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        told = silent_for(4, identity)
        child.kill()
    assert told.startswith(f"its process {child.pid} is stopped (state T), and has given no sign")
