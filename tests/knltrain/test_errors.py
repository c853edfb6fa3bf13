"""Errors tell commands how to end and users what they may have meant."""

from __future__ import annotations

import pytest

from knltrain import errors

BAD_INPUT = (
    errors.ConfigError,
    errors.DataError,
    errors.NetworkError,
    errors.SegmentError,
    errors.CheckpointError,
    errors.RunFolderError,
    errors.KernelCacheError,
    errors.CollectiveError,
)


@pytest.mark.parametrize("kind", BAD_INPUT)
def test_bad_input_ends_a_command_with_2(kind: type[errors.KnltrainError]) -> None:
    assert kind("x").exit_code == 2


@pytest.mark.parametrize(
    "error",
    [
        errors.ExchangeTimeout("x"),
        errors.PeerLost("x"),
        errors.WorkerFailed(1, "x"),
        errors.NonFiniteLoss(3, None),
    ],
)
def test_a_failed_run_ends_a_command_with_1(error: errors.KnltrainError) -> None:
    assert error.exit_code == 1


@pytest.mark.parametrize(("signal_number", "status"), [(2, 130), (15, 143)])
def test_a_signalled_run_ends_a_command_with_128_plus_signal(
    signal_number: int, status: int
) -> None:
    assert errors.RunAborted("stopped", signal_number).exit_code == status


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.KnltrainError)
    }
    assert len(kinds) == 21
    assert {line.split()[0] for line in drawn.splitlines() if line.startswith("    ")} == kinds


def test_non_finite_loss_names_step_and_layer_and_way_out() -> None:
    message = str(errors.NonFiniteLoss(7, "conv2"))
    assert "step 7" in message
    assert "'conv2'" in message
    assert "learning_rate.base" in message


def test_worker_failed_names_rank_and_cause() -> None:
    assert str(errors.WorkerFailed(3, "out of memory")) == "worker 3 failed: out of memory"
    assert str(errors.WorkerFailed(3, "is stopped", "")) == "worker 3 is stopped"


def test_unknown_name_lists_all_known_and_the_closest() -> None:
    assert errors.unknown_name("network", "lenett", ["lenet", "alexnet"]) == (
        "unknown network 'lenett': expected one of 'alexnet', 'lenet'; did you mean 'lenet'?"
    )


def test_unknown_name_suggests_nothing_when_nothing_is_close() -> None:
    assert "did you mean" not in errors.unknown_name("network", "zzz", ["lenet"])


@pytest.mark.parametrize(
    ("given", "meant"),
    [("batch", "train.batch"), ("LENET", "lenet"), ("train.bacth", "train.batch")],
)
def test_unknown_name_finds_other_case_and_the_last_part_of_dotted_names(
    given: str, meant: str
) -> None:
    message = errors.unknown_name("key", given, ["lenet", "train.batch", "train.epochs"])
    assert message.endswith(f"did you mean '{meant}'?")


def test_the_first_that_is_given_again_is_found() -> None:
    assert errors.first_repeated(["a", "b", "c", "b", "a"]) == "b"
    assert errors.first_repeated([0, 0]) == 0
    assert errors.first_repeated(["a", "b"]) is errors.first_repeated([]) is None
