from __future__ import annotations

import json

from affinity.cli.as_json import findings_json, machine_json, plan_json
from affinity.cli.checking.finding import Finding
from affinity.placement.plan import Plan
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology


def test_machine_is_told_under_the_names_of_its_classes(knights_landing: Topology) -> None:
    facts = json.loads(machine_json(knights_landing, AllowedResources(cpus=(0, 1), mems=(0, 7))))
    assert facts["cores"][3] == {"id": 3, "package": 0, "numa_node": 0, "cpus": [3, 71, 139, 207]}
    assert facts["numa_nodes"][7]["near"] == [0]
    assert facts["tiles"][0] == [0, 1, 68, 69, 136, 137, 204, 205]
    assert len(facts["l3_groups"]) == 68
    assert facts["allowed"]["mems"] == [0, 7]


def test_plan_is_told_as_it_is(knights_plan: Plan) -> None:
    plan = json.loads(plan_json(knights_plan))
    assert [worker["memory"]["nodes"] for worker in plan["workers"]] == [[7], [4], [5], [6]]
    assert plan["os_cpus"] == [0, 1, 68, 69, 136, 137, 204, 205]


def test_findings_are_told_with_their_way_out() -> None:
    told = json.loads(findings_json([Finding("warn", "demotion", "on", "switch it off")]))
    assert told == [
        {"level": "warn", "subject": "demotion", "text": "on", "way_out": "switch it off"}
    ]
