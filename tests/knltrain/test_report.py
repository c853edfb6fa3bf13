from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from knltrain.clocks import BESIDES, COSTS
from knltrain.errors import RunFolderError
from knltrain.metrics import Clocks, MetricsLog
from knltrain.report import draw_confusion, draw_curves, seconds_of_a_step, summary

ROOT = Path(__file__).parents[2]
RESULT = {
    "method": "sync_easgd",
    "workers": 2,
    "test_accuracy": 0.97251,
    "test_loss": 0.09123,
    "test_images": 1234,
    "images_per_second": 12345.6,
    "exchange_share": 0.0312,
}


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "first-run"
    folder.mkdir()
    return folder


@pytest.fixture
def write_metrics(run_folder):
    def write_metrics(ranks=1, steps=30, tests=(10, 20, 30)):
        for rank in range(ranks):
            log = MetricsLog(run_folder, rank, steps_per_epoch=10)
            clocks = Clocks()
            for step in range(1, steps + 1):
                clocks.training.seconds += 1.0
                loss = 2.3 / step + 0.1 * rank
                mean = 2.3 / step + 0.05 * (ranks - 1)
                log.step_done(
                    step,
                    loss,
                    0.1,
                    clocks,
                    run_loss=partial(float, mean),
                    images=8 * step,
                    last=False,
                )
                if step in tests and rank == 0:
                    log.evaluated(step, 1 - 1 / step, 0.3, 100, clocks)
            log.close()

    return write_metrics


@pytest.fixture
def drawn(run_folder, saved):
    """Draws, and hands over the figure in place of the pixels."""

    def drawn():
        draw_curves(run_folder)
        return saved[-1]

    return drawn


def points(axes):
    return [list(zip(*line.get_data(), strict=True)) for line in axes.get_lines()]


def test_picture_is_a_png_in_the_run_folder(run_folder, write_metrics):
    write_metrics()
    path = draw_curves(run_folder)
    assert path == run_folder / "curves.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


def test_first_picture_on_a_slow_machine_says_nothing(run_folder, write_metrics, tmp_path):
    """Matplotlib warns when it has looked for fonts for five seconds: here, at once."""
    write_metrics()
    draws = (
        "import threading, pathlib, sys\n"
        "threading.Timer = lambda seconds, warn: threading.Thread(target=warn)\n"
        "threading.Thread.cancel = lambda thread: None\n"
        "from knltrain.report import draw_curves\n"
        "draw_curves(pathlib.Path(sys.argv[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", draws, str(run_folder)],
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path / "fonts"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_curves_go_through_the_recorded_points(drawn, write_metrics):
    write_metrics()
    loss, accuracy = drawn().axes
    assert points(loss) == [[(step, 2.3 / step) for step in range(1, 31)]]
    assert points(accuracy) == [[(step, 100 * (1 - 1 / step)) for step in (10, 20, 30)]]


def test_every_worker_has_its_curve(drawn, write_metrics):
    write_metrics(ranks=3, steps=2)
    loss, _ = drawn().axes
    *workers, run = points(loss)
    assert [line[-1] for line in workers] == [(2, 1.15 + 0.1 * rank) for rank in range(3)]
    assert run == [(1, 2.3 + 0.1), (2, 1.15 + 0.1)]
    labels = [label.get_text() for label in loss.get_legend().get_texts()]
    assert labels == ["each of 3 workers", "all workers"]


def test_runs_that_have_not_told_of_all_workers_can_be_drawn(drawn, write_metrics, run_folder):
    write_metrics(ranks=2, steps=2)
    path = run_folder / "metrics-0.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [json.dumps({k: v for k, v in each.items() if k != "run_loss"}) for each in records]
    path.write_text("".join(f"{line}\n" for line in lines))
    assert len(points(drawn().axes[0])) == 2


def test_axes_say_what_they_show_and_in_which_unit(drawn, write_metrics):
    write_metrics()
    figure = drawn()
    loss, accuracy = figure.axes
    assert loss.get_ylabel() == "training loss\n(cross-entropy, nats)"
    assert accuracy.get_ylabel() == "test accuracy (%)"
    assert accuracy.get_xlabel() == "step"
    (epochs,) = loss.child_axes
    assert epochs.get_xlabel() == "epoch"
    assert epochs.get_xlim()[1] == pytest.approx(loss.get_xlim()[1] / 10)
    assert figure.get_suptitle() == "first-run"


def test_last_accuracy_stands_beside_its_point(drawn, write_metrics):
    write_metrics()
    _, accuracy = drawn().axes
    assert [text.get_text() for text in accuracy.texts] == ["96.67 %"]


def test_run_that_was_not_evaluated_can_be_drawn(drawn, write_metrics):
    write_metrics(tests=())
    _, accuracy = drawn().axes
    assert points(accuracy) == [[]]


def test_one_step_can_be_drawn(drawn, write_metrics):
    write_metrics(steps=1)
    loss, _ = drawn().axes
    assert points(loss) == [[(1, 2.3)]]


def test_folder_without_metrics_is_refused(run_folder):
    with pytest.raises(RunFolderError, match="first-run: no training records"):
        draw_curves(run_folder)


def test_summary_tells_the_figures(run_folder):
    (run_folder / "result.json").write_text(json.dumps(RESULT))
    assert summary(run_folder).splitlines() == [
        "test accuracy of the center  97.25 % of 1,234 images (loss 0.0912)",
        "speed                        12,346 images/s with 2 workers",
        "time in exchange             3.1 %",
        f"run folder                   {run_folder}",
    ]


def test_summary_names_the_picture_once_it_is_there(run_folder, write_metrics):
    (run_folder / "result.json").write_text(json.dumps(RESULT))
    write_metrics()
    path = draw_curves(run_folder)
    assert summary(run_folder).splitlines()[-1].split() == ["curves", str(path)]


@pytest.mark.parametrize("method", ["sync_sgd", "none"])
def test_methods_without_a_center_are_not_said_to_have_one(run_folder, method):
    (run_folder / "result.json").write_text(json.dumps(RESULT | {"method": method, "workers": 1}))
    text = summary(run_folder)
    assert text.startswith("test accuracy of the model  97.25 %")
    assert "with 1 worker\n" in text


def test_summary_of_an_unfinished_run_says_what_to_do(run_folder):
    with pytest.raises(RunFolderError, match=r"result.json: no such file: .*resume it"):
        summary(run_folder)


def test_summary_names_a_damaged_result(run_folder):
    (run_folder / "result.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"result.json: cannot be read"):
        summary(run_folder)


def test_a_step_is_computing_exposed_exchange_and_the_rest(run_folder):
    costs = dict.fromkeys((*COSTS, *BESIDES), 1.0)
    found = RESULT | {"worker_steps": [8, 12], "cost_seconds": costs}
    (run_folder / "result.json").write_text(json.dumps(found))
    expected = {"computing": 0.3, "exchange, exposed": 0.3, "other": 0.1}
    assert seconds_of_a_step(run_folder) == pytest.approx(expected)


@pytest.mark.parametrize(
    "damage",
    [
        {"cost_seconds": None}, {"cost_seconds": {}}, {"worker_steps": []}, {"worker_steps": 3},
        {"worker_steps": [0]},
    ],
)  # fmt: skip
def test_costs_that_no_run_writes_are_refused(run_folder, damage):
    costs = dict.fromkeys((*COSTS, *BESIDES), 1.0)
    found = RESULT | {"worker_steps": [8, 12], "cost_seconds": costs} | damage
    (run_folder / "result.json").write_text(json.dumps(found))
    with pytest.raises(RunFolderError, match="cost_seconds or worker_steps is not what a run"):
        seconds_of_a_step(run_folder)


def test_picture_that_cannot_be_written_is_told_and_leaves_nothing(
    run_folder, write_metrics, monkeypatch
):
    from matplotlib.figure import Figure

    write_metrics()

    def full(_figure, path, **_options):
        path.write_bytes(b"half of a pict")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    before = set(run_folder.iterdir())
    with pytest.raises(RunFolderError, match=r"curves.png: cannot be written \(No space left"):
        draw_curves(run_folder)
    assert set(run_folder.iterdir()) == before


def test_summary_tells_top_5_and_the_least_accurate_class(run_folder):
    figures = {"test_top5_accuracy": 0.9987, "test_class_accuracy": [0.9, None, 0.5, 1.0]}
    (run_folder / "result.json").write_text(json.dumps({**RESULT, **figures}))
    lines = summary(run_folder).splitlines()
    assert lines[1].split() == ["top-5", "accuracy", "99.87", "%"]
    assert lines[2].split() == ["least", "accurate", "class", "2,", "50.00", "%"]
    names = {"class_names": ["ant", "bee", "cow", "dog"]}
    (run_folder / "result.json").write_text(json.dumps({**RESULT, **figures, **names}))
    assert summary(run_folder).splitlines()[2].split() == [
        *lines[2].split()[:3],
        "cow,",
        "50.00",
        "%",
    ]
    unknown = dict.fromkeys((*figures, "class_names"))
    (run_folder / "result.json").write_text(json.dumps({**RESULT, **unknown}))
    assert "class" not in summary(run_folder)


@pytest.mark.parametrize(
    "figures", [{"test_top5_accuracy": "x"}, {"test_class_accuracy": 3}, {"class_names": "cat"}]
)
def test_figures_by_class_that_no_run_writes_are_refused(run_folder, figures):
    (run_folder / "result.json").write_text(json.dumps({**RESULT, **figures}))
    with pytest.raises(RunFolderError, match="expected what a run writes"):
        summary(run_folder)


def test_confusion_is_drawn_where_a_run_has_one(run_folder):
    (run_folder / "result.json").write_text(json.dumps(RESULT))
    assert draw_confusion(run_folder) is None
    assert "confusion.png" not in summary(run_folder)
    (run_folder / "confusion.csv").write_text("3,1\n0,2\n")
    assert draw_confusion(run_folder) == run_folder / "confusion.png"
    last = summary(run_folder).splitlines()[-1]
    assert last.split() == ["confusion", f"{run_folder}/confusion.png"]


def test_a_folder_may_have_any_name(run_folder, write_metrics):
    write_metrics()
    renamed = run_folder.rename(run_folder.with_name("no $formula^$"))
    assert draw_curves(renamed).exists()


def test_summary_tells_of_waiting_for_data_where_that_is_much(run_folder):
    for share, told in ((0.02, False), (0.125, True)):
        (run_folder / "result.json").write_text(json.dumps({**RESULT, "data_share": share}))
        assert ("waiting for data             12.5 %;" in summary(run_folder)) == told
