"""The page of measured figures is what its script writes from the files of benchmarks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/results"
PAGES = [ROOT / "docs/results.md", ROOT / "docs/results_history.md", ROOT / "README.md"]
NUMBER = re.compile(r"\d[\d,.]*")


def results(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)


def rows(text: str) -> list[list[str]]:
    """The cells of all tables."""
    lines = [line for line in text.splitlines() if re.match(r"\|(?!---)", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_page_is_that_of_the_figures(tmp_path: Path) -> None:
    done = results("write", "--page", tmp_path / "page.md")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "page.md").read_text() == PAGES[0].read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_cell_of_a_table_has_one_number(page: Path) -> None:
    cells = [cell for row in rows(page.read_text()) for cell in row[1:]]
    figures = [cell for cell in cells if re.fullmatch(r"[-+]?[\d,.]+( ?%)?", cell)]
    assert len(figures) > 5
    without_words = [cell for cell in cells if cell and not re.search("[A-Za-z]", cell)]
    assert [cell for cell in without_words if len(NUMBER.findall(cell)) > 1] == []


def test_every_figure_of_the_readme_is_on_the_page() -> None:
    section = PAGES[2].read_text().split("\n## Results\n")[1].split("\n## ")[0]
    measured = set(NUMBER.findall(PAGES[0].read_text()))
    found = [row[1] for row in rows(section)[1:]]
    assert len(found) > 5
    assert [each for each in found if each not in measured] == []


@pytest.mark.parametrize(
    ("measured", "like", "title", "row"),
    [
        (
            "autocast-resnet-50", "2026-11-28-zen4/optimize-resnet-50",
            "`optimize(model)` under autocast to bfloat16", "resnet-50",
        ),
        (
            "every-step", "2026-11-27-zen4/methods", "LeNet with an exchange after every step",
            "`seasgd`",
        ),
    ],
)  # fmt: skip
def test_what_is_measured_like_something_else_has_a_section_of_its_own(
    measured: str, like: str, title: str, row: str, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    about = {"date": "2026-01-02", "name": "a machine", "what": "It has cores."}
    (folder / "machine.json").write_text(json.dumps(about))
    report = ROOT / f"docs/figures/{like}.json"
    (folder / f"{measured}.json").write_bytes(report.read_bytes())
    done = results("write", "--figures", tmp_path, "--page", tmp_path / "page.md")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.md").read_text()
    assert title in re.findall(r"^### (.*)", page, re.M)
    assert row in {cells[0] for cells in rows(page)}


def test_newest_folder_comes_first(tmp_path: Path) -> None:
    for day in ("2026-01-02", "2026-03-04"):
        folder = tmp_path / day
        folder.mkdir()
        about = {"date": day, "name": "a machine", "what": "It has cores."}
        (folder / "machine.json").write_text(json.dumps(about))
        report = {
            "library": "a library", "bytes": 1_000_000, "bytes_per_second": {"read": 2e9},
            "share_of_copy": {"read": 0.5},
        }  # fmt: skip
        (folder / "one-sided.json").write_text(json.dumps(report))
    done = results("write", "--figures", tmp_path, "--page", tmp_path / "page.md")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.md").read_text()
    assert re.findall(r"^## (.*)", page, re.M) == [
        "4 March 2026, a machine",
        "2 January 2026, a machine",
    ]
    assert ["read", "2.00", "0.50"] in rows(page)


def test_transforms_are_told_beside_our_own_convolutions(tmp_path: Path) -> None:
    about = {"date": "2026-01-02", "name": "a machine", "what": "It has cores."}
    (tmp_path / "day").mkdir()
    (tmp_path / "day/machine.json").write_text(json.dumps(about))
    taken = {
        ("numba", "3x3"): 2.0,
        ("fft", "3x3"): 10.0,
        ("numba", "1x1"): 1.0,
        ("fft", "1x1"): 20.0,
    }
    report = {
        "network": "alexnet",
        "rows": [
            {
                "implementation": name, "direction": "backward_data", "shape": shape,
                "milliseconds": ms,
            }
            for (name, shape), ms in taken.items()
        ],
        "comparisons": [{"direction": "backward_data", "layers": 2, "ratio": 10.0}],
    }  # fmt: skip
    (tmp_path / "day/fft-alexnet.json").write_text(json.dumps(report))
    done = results("write", "--figures", tmp_path, "--page", tmp_path / "page.md")
    assert (done.returncode, done.stderr) == (0, "")
    told = ["alexnet", "backward-data", "2", "10.00", "5.00", "20.00"]
    assert told in rows((tmp_path / "page.md").read_text())


def layer(name: str, seconds: float) -> dict[str, object]:
    return {
        "name": name, "layers": [name], "class": "dense", "direction": "forward",
        "seconds": seconds,
    }  # fmt: skip


def step(ground: str, *stages: object, exchanges: tuple[object, ...] = ()) -> dict[str, object]:
    parts = ("step", "forward", "backward", "update", "exposed")
    return {
        "network": "alexnet", "ground": ground, "images_per_second": 10.0,
        **{f"{part}_seconds": 0.5 for part in parts}, "hidden_share": None,
        "arithmetic_intensity": 3.0, "communication_intensity": None,
        "stages": stages, "exchanges": exchanges,
    }  # fmt: skip


def test_layers_of_one_network_are_told_on_each_ground(tmp_path: Path) -> None:
    about = {"date": "2026-01-02", "name": "a machine", "what": "It has cores."}
    (tmp_path / "day").mkdir()
    (tmp_path / "day/machine.json").write_text(json.dumps(about))
    sent = {"layers": ["fc"], "moving_seconds": 0.25, "exposed_seconds": 0.125}
    report = {
        "batch_per_worker": 8, "method": "layerwise_sgd", "link_gbits": 10.0, "kinds": [],
        "rows": [
            step("1 worker", layer("conv", 0.002), layer("fc", 0.003)),
            step("2 workers", layer("conv", 0.004), layer("fc", 0.005), exchanges=(sent,)),
        ],
    }  # fmt: skip
    (tmp_path / "day/cnn.json").write_text(json.dumps(report))
    done = results("write", "--figures", tmp_path, "--page", tmp_path / "page.md")
    assert (done.returncode, done.stderr) == (0, "")
    cells = rows((tmp_path / "page.md").read_text())
    assert ["conv", "2.00", "4.00", "", ""] in cells
    assert ["fc", "3.00", "5.00", "250.00", "125.00"] in cells


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("write", "--figures", "nowhere"), "no */machine.json in nowhere"),
        (("measure", "folder", "step-vgg"), "unknown benchmark step-vgg: expected step-lenet"),
        ((), "required: command"),
    ],
)
def test_what_cannot_be_done_is_told(words: tuple[str, ...], told: str) -> None:
    done = results(*words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
