from __future__ import annotations

from knltrain.assembly.rules import RULES
from knltrain.config.methods import METHODS


def test_every_rule_that_a_method_names_can_be_made_and_no_other():
    named = {facts.rule for facts in METHODS.values() if facts.levels is None}
    assert named == set(RULES)
