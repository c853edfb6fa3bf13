from __future__ import annotations

from affinity import OptionNames, options_named, terms

KEYS = OptionNames('memory = "{}"', 'memory_kind = "{}"', "hbm_nodes", 'hbm_nodes = "{}"')


def told() -> list[str]:
    return [terms.policy("strict"), terms.kind("hbm"), terms.hbm(), terms.hbm(0)]


def test_messages_name_options_unless_a_program_has_other_names() -> None:
    options = ["policy 'strict'", "kind 'hbm'", "--hbm", "--hbm 0"]
    assert told() == options
    with options_named(KEYS):
        assert told() == [
            'memory = "strict"',
            'memory_kind = "hbm"',
            "hbm_nodes",
            'hbm_nodes = "0"',
        ]
    assert told() == options
