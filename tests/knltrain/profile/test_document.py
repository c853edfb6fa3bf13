from __future__ import annotations

import json

import numpy as np
import pytest
from profiles.material import EXCHANGED_PART, FACTS, REGIONS, all_of, document, measure

from knltrain.profile.document import profile_document


def test_stages_have_times_rates_and_bounds() -> None:
    found = document(measure())
    conv = found["stages"][1]
    seconds = conv["seconds"]
    assert seconds["mean"] == pytest.approx(4e-3 * 6.5 / 6)
    assert (seconds["median"], seconds["max"]) == pytest.approx((4e-3, 6e-3))
    assert conv["flops_per_second"] == pytest.approx(9_100_000 / seconds["mean"])
    assert conv["share_of_sgemm"] == pytest.approx(conv["flops_per_second"] / 1e10)
    assert conv["intensity"] == 91
    assert (conv["bound"], conv["bound_seconds"]) == ("compute", 4e-4)
    assert conv["efficiency"] == pytest.approx(4e-4 / seconds["mean"])
    assert found["stages"][3]["bound"] is None


def test_what_was_not_measured_is_no_zero() -> None:
    found = document(measure())
    assert found["communication"]["hidden_share"] is None
    assert found["efficiency"]["parallel"] is None
    assert found["ranks"][0]["last_share"] is None
    assert found["stages"][0]["executed_flops"] is None
    json.dumps(found, allow_nan=False)


def test_stages_and_parts_add_up_to_the_step() -> None:
    found = document(measure())
    whole = sum(each["seconds"]["mean"] for each in found["stages"])
    whole += sum(each["seconds"] for each in found["parts"])
    assert whole == pytest.approx(found["step_seconds"]["mean"])
    assert all(check["passed"] for check in found["checks"])


def test_the_rest_is_what_is_left_of_a_clock_of_its_own() -> None:
    """Whatever the clocks of the run say."""
    own = measure()
    found = document(own._replace(step_seconds=own.step_seconds + 4e-3))
    (rest,) = (each["seconds"] for each in found["parts"] if each["name"] == "rest")
    assert rest == pytest.approx(4.1e-3)
    failed = {each["name"] for each in found["checks"] if not each["passed"]}
    assert failed == {"rest of a step", "clocks of the run against a clock of its own"}


def test_the_update_is_shared_out_by_layer() -> None:
    found = document(measure())
    conv, bn = found["updates"]
    (whole,) = (each for each in found["parts"] if each["name"] == "update")
    assert (conv["layer"], conv["flops"], conv["compulsory_bytes"]) == ("conv", 3_000, 15_000)
    assert conv["seconds"] == pytest.approx(3 * bn["seconds"])
    assert conv["seconds"] + bn["seconds"] == pytest.approx(whole["seconds"]) == 1e-3
    for name in ("intensity", "flops_per_second", "bytes_per_second", "bound", "efficiency"):
        assert conv[name] == pytest.approx(whole[name]) == pytest.approx(bn[name])


def test_an_update_that_is_the_exchange_s_has_no_rates() -> None:
    found = profile_document(FACTS, REGIONS, [], all_of(measure()), 0, {})
    (whole,) = (each for each in found["parts"] if each["name"] == "update")
    assert found["updates"] == []
    assert "flops_per_second" not in whole


def test_bounds_are_those_of_products_in_the_run_s_precision() -> None:
    own = measure()
    rounded = own._replace(figures=own.figures._replace(product_flops_per_second=2e10))
    conv = document(rounded)["stages"][1]
    assert conv["bound_seconds"] == pytest.approx(2e-4)
    assert conv["share_of_sgemm"] == document(own)["stages"][1]["share_of_sgemm"]
    assert document(rounded)["machine"][0]["product_flops_per_second"] == 2e10


def test_exchanges_are_bound_by_memory_on_a_node_and_by_the_link_between_nodes() -> None:
    """Of 8,000 bytes over the segment, and 9,000 that are sent in 1 ms."""
    own = measure()
    (part,) = document(own)["exchanges"]
    assert (part["bound"], part["bound_seconds"]) == ("memory", 8e-6)
    assert part["efficiency"] == pytest.approx(8e-3)
    linked = own._replace(figures=own.figures._replace(link_bytes_per_second=1e7))
    found = document(linked, linked)
    (part,) = found["exchanges"]
    assert (part["bound"], part["bound_seconds"]) == ("network", 9e-4)
    assert part["efficiency"] == pytest.approx(0.9)
    assert [each["link_bytes_per_second"] for each in found["machine"]] == [1e7, 1e7]


def test_all_records_are_in_the_overhead() -> None:
    own = measure()
    over = document(own)["overhead"]
    assert (over["records_per_step"], over["marks_per_step"], over["watches_per_step"]) == (
        10,
        4,
        6,
    )
    assert over["share"] == pytest.approx(10e-7 / float(np.median(own.step_seconds)))
    dear = document(own._replace(figures=own.figures._replace(watch_seconds=1e-4)))
    assert {each["name"] for each in dear["checks"] if not each["passed"]} == {
        "cost of the records"
    }


def test_parts_that_are_exchanged_by_themselves_have_their_times_and_intensity() -> None:
    (part,) = document(measure(), measure(3.0))["exchanges"]
    seconds = [part[f"{name}_seconds"] for name in ("moving", "issued", "exposed")]
    assert seconds == pytest.approx([2e-3, 6e-3, 1e-3])
    assert part["communication_intensity"] == 2_000


def test_exchanges_that_nobody_timed_are_no_zero() -> None:
    found = all_of(measure(), measure())._replace(exchanges=None)
    told = profile_document(FACTS, REGIONS, [EXCHANGED_PART], found, 0, {})
    assert told["exchanges"][0]["issued_seconds"] is None
    assert told["exchanges"][0]["wire_bytes"] == 9_000


def test_who_is_late_is_waited_for_where_a_clock_tells_that_apart() -> None:
    """It does not where the waiting is for an exchange that goes on meanwhile, or on a link."""
    own = measure(waiting=2e-3)
    apart = own._replace(figures=own.figures._replace(waits_apart=False))
    assert document(own)["communication"]["exposed_wait_seconds"] == 2e-3
    assert document(own, apart)["communication"]["exposed_wait_seconds"] is None
    facts = {**FACTS, "nodes": 2}
    across = profile_document(facts, REGIONS, [], all_of(own), 0, {})
    assert across["communication"]["exposed_wait_seconds"] is None


def test_workers_are_compared() -> None:
    found = document(measure(2.0), measure(1.0, waiting=9.2e-3))
    stage = found["stages"][1]
    assert stage["by_rank"][0] == pytest.approx(2 * stage["by_rank"][1])
    assert stage["seconds"]["mean"] == pytest.approx(sum(stage["by_rank"]) / 2)
    assert [each["last_share"] for each in found["ranks"]] == [1.0, 0.0]
    efficiency = found["efficiency"]
    useful = [each["useful_seconds"] for each in found["ranks"]]
    wall = max(each["step_seconds"]["mean"] for each in found["ranks"])
    assert efficiency["load_balance"] == pytest.approx(sum(useful) / 2 / max(useful))
    assert efficiency["parallel"] == pytest.approx(sum(useful) / 2 / wall)
    assert found["communication"]["hidden_share"] == pytest.approx(0.25)
    assert found["stragglers"] == [0]


def test_thirds_of_a_window_are_of_the_same_workers_as_its_step() -> None:
    found = document(measure(1.0), measure(3.0))
    thirds = found["window"]["thirds"]
    assert len(thirds) == 3
    assert np.mean(thirds) == pytest.approx(found["step_seconds"]["mean"])
    assert thirds[0] > found["ranks"][0]["step_seconds"]["mean"]


def test_a_third_without_steps_is_left_out() -> None:
    found = document(measure(1.0, steps=2), measure(3.0, steps=1))
    first, second = found["window"]["thirds"]
    means = [each["step_seconds"]["mean"] for each in found["ranks"]]
    assert first == pytest.approx(sum(means) / 2)
    assert second == pytest.approx(means[0])


def test_a_failed_check_is_a_line_of_the_profile() -> None:
    slow = measure(rest=5e-3)
    figures = slow.figures._replace(dropped=3.0, mark_seconds=1e-3)
    found = document(slow._replace(figures=figures))
    failed = {each["name"] for each in found["checks"] if not each["passed"]}
    assert failed == {"rest of a step", "cost of the records", "records dropped"}


def test_a_worker_without_images_is_no_error() -> None:
    found = profile_document(FACTS, REGIONS, [], all_of(measure()), 0, {})
    assert "operations against the network's" not in {each["name"] for each in found["checks"]}


def test_visits_to_the_center_are_told_by_shmcaffe_s_names() -> None:
    """A visit every second step: the model is of two steps. One push was not over yet."""
    assert document(measure())["communication"]["shmcaffe"] is None
    own = measure()
    visits = np.array([0.5, 0.5, 0.4, 0.4, 1e-3, 2e-3, 6.4e-3, 3.2e-3])
    found = document(own._replace(visits=visits))
    times = found["communication"]["shmcaffe"]
    tcomp = 2 * found["ranks"][0]["useful_seconds"]
    assert times["tcomp"] == pytest.approx(tcomp)
    assert [times[name] for name in ("trgw", "tulw", "twwi", "tugw")] == pytest.approx(
        [2e-3, 4e-3, 16e-3, 8e-3]
    )
    assert times["titer_model"] == pytest.approx(max(tcomp, 24e-3) + 6e-3)
    assert times["titer_measured"] == pytest.approx(2 * found["step_seconds"]["mean"])


def test_times_of_visits_are_those_of_the_workers_that_visit() -> None:
    """As of the roots of groups: the others have no part in the means."""
    root, other = measure(), measure(2.0)
    root = root._replace(visits=np.array([1.0, 1.0, 0.0, 1.0, 1e-3, 2e-3, 0.0, 4e-3]))
    alone, both = document(root), document(root, other)
    times = both["communication"]["shmcaffe"]
    assert times == alone["communication"]["shmcaffe"]
    assert (times["ranks"], times["visits_per_step"]) == ([0], 1)


def test_within_a_node_no_increment_is_written_apart() -> None:
    visits = np.array([1.0, 1.0, 0.0, 1.0, 1e-3, 2e-3, 0.0, 4e-3])
    times = document(measure()._replace(visits=visits))["communication"]["shmcaffe"]
    assert times["twwi"] is None
    assert times["titer_model"] == pytest.approx(times["tcomp"] + 3e-3)
