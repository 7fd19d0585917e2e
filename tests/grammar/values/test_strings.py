"""Functions of texts beyond those of the CEL conformance suite."""

from grammar.values.strings import number


def test_chance_is_the_same_everywhere() -> None:
    # The sum of a published test of the algorithm is not needed: other machines must agree.
    assert number("web-1", "node-1") == number("web-1", "node-1")
    assert number("ab", "c") != number("a", "bc")
    found = [number("pod", str(each)) for each in range(1000)]
    assert len(set(found)) == 1000
    assert 0.4 < sum(each > 2**31 for each in found) / 1000 < 0.6
