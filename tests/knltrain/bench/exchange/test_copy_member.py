"""The bound."""

from knltrain.bench.exchange.copy_member import CopyMember


def test_copies_in_two_ways():
    held = CopyMember().hold([1000], [])
    held.check()
    for name in ("numpy", "torch"):
        held._target.fill(0)
        held.operations[name]()
        assert held._target.all()
    assert "torch" in CopyMember.version
