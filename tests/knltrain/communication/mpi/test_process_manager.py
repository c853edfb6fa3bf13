from __future__ import annotations

import json

import pytest

from knltrain.communication.mpi.process_manager import ProcessManager
from knltrain.errors import CollectiveError, ExchangeTimeout


def manager(others=(), ranks=3):
    """A manager that meets others who bring these puts, at its first meeting."""
    return ProcessManager("job-1", ranks, "(vector,(0,1,3))", lambda own: [own, *others])


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
        ),
        ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=job-1"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=3"),
        ("cmd=barrier_in", "cmd=barrier_out rc=0"),
        ("cmd=finalize", "cmd=finalize_ack rc=0"),
        ("cmd=abort exitcode=1", None),
        ("cmd=publish_name service=a port=b", "cmd=publish_result rc=-1"),
        ("cmd=lookup_name service=a", "cmd=lookup_result rc=-1"),
        ("cmd=dance", "cmd=dance rc=-1"),
        ("", "cmd= rc=-1"),
    ],
)
def test_commands_are_answered(line, answer):
    found = manager().answer(line)
    if answer is not None and answer.endswith("rc=-1"):
        assert found is not None
        assert found.startswith(answer + " ")
    else:
        assert found == answer


def test_the_nodes_of_ranks_are_known_from_the_beginning():
    found = manager().answer("cmd=get kvsname=job-1 key=PMI_process_mapping")
    assert found == "cmd=get_result rc=0 msg=success value=(vector,(0,1,3))"


def test_what_others_put_is_known_after_the_barrier_and_not_before():
    asked = "cmd=get kvsname=job-1 key=bc-1"
    served = manager([json.dumps({"bc-1": "mpi#02 a=b$"})])
    assert "rc=-1" in served.answer(asked)
    served.answer("cmd=barrier_in")
    assert served.answer(asked) == "cmd=get_result rc=0 msg=success value=mpi#02 a=b$"


def test_a_value_may_hold_blanks_and_what_looks_like_pairs():
    served = manager()
    put = "cmd=put kvsname=job-1 key=bc-0 value=a b=c value=d"
    assert served.answer(put) == "cmd=put_result rc=0 msg=success"
    assert served.answer("cmd=get kvsname=job-1 key=bc-0").endswith(" value=a b=c value=d")


def test_each_barrier_brings_what_was_put_since_the_one_before():
    brought = []
    served = ProcessManager("job-1", 2, "", lambda own: brought.append(json.loads(own)) or [own])
    for key in "ab":
        served.answer(f"cmd=put kvsname=job-1 key={key} value={key}1")
        served.answer("cmd=barrier_in")
    assert brought == [{"a": "a1"}, {"b": "b1"}]
    assert served.answer("cmd=get kvsname=job-1 key=a").endswith("value=a1")


def test_a_key_is_put_once():
    served = manager()
    assert "rc=0" in served.answer("cmd=put kvsname=job-1 key=a value=1")
    assert "rc=-1" in served.answer("cmd=put kvsname=job-1 key=a value=2")
    assert "rc=-1" in served.answer("cmd=put kvsname=job-1 key=PMI_process_mapping value=2")
    assert "rc=-1" in served.answer("cmd=put kvsname=job-1 key=b")


def test_to_spawn_is_refused_at_the_end_of_its_lines():
    served = manager()
    for line in ("mcmd=spawn", "nprocs=1", "execname=/bin/true", "cmd=init"):
        assert served.answer(line) is None
    assert served.answer("endcmd") == "cmd=spawn_result rc=-1 msg=not_supported"
    assert served.answer("cmd=get_appnum") == "cmd=appnum rc=0 appnum=0"


def test_what_the_meeting_raises_is_raised():
    def meet(own):
        raise ExchangeTimeout("rank 1 is missing")

    with pytest.raises(ExchangeTimeout, match="rank 1"):
        ProcessManager("job-1", 2, "", meet).answer("cmd=barrier_in")


@pytest.mark.parametrize(("line", "status"), [("cmd=abort exitcode=9", 9), ("cmd=abort", 1)])
def test_a_library_that_aborts_says_with_which_status(line, status):
    served = manager()
    assert served.aborted is None
    assert served.answer(line) is None
    assert served.aborted == status


@pytest.mark.parametrize("code", ["²", "9" * 5000, "", "-1", "99999999999"])
def test_status_that_is_none_is_that_of_a_failure(code):
    found = manager()
    assert found.answer(f"cmd=abort exitcode={code}") is None
    assert found.aborted == 1


@pytest.mark.parametrize(
    "word", ["[" * 20_000, "", "[]", '{"K": 1}', '{"K": "a", "K": "b"}', "\ud800", "{"]
)
def test_what_another_rank_brings_that_is_no_word_of_pmi_is_told(word):
    with pytest.raises(CollectiveError, match="rank 1 of MPI has put what PMI does not allow"):
        manager(others=[word]).answer("cmd=barrier_in")
