"""The replies about decisions: why, rank, analyze, and what if."""

import pytest

from tests.cli.conftest import Placet
from tests.cli.repl.conftest import Say


def test_why_and_analyze_print_the_same_as_explain_and_analyze(web: Say, placet: Placet) -> None:
    world = ("--cluster", "cluster.json", "--policies", "shop.policy")
    assert web(":why").out == placet("explain", "shop/web-1", *world).out
    assert web(":why n-2").out == placet("explain", "shop/web-1", "n-2", *world).out
    assert web(":analyze").out == placet("analyze", "shop/web-1", *world).out


def test_rank_shows_the_best_first(say: Say) -> None:
    say('score "full" weight 1 { value node.usage["cpu"] range 0 .. 1 }')
    say(":pod shop/web-1")
    say(":rank")
    assert say(":rank 2").out == (
        "node  score  exactly\nn-2      10    10.00\nn-4       5     5.00\nand 2 more\n"
    )


def test_rank_without_scores_says_so(say: Say) -> None:
    say(":pod shop/web-1")
    assert say(":rank").out == "4 of 4 nodes pass, and no score applies\n"


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (
            'node.labels["capacity"] = absent',
            (
                "node  now              then\nn-1   passes, score 4  passes, score 2\n"
                "and 3 nodes as before\n"
            ),
        ),
        (
            'node.zone = "c"',
            (
                "node  now              then\nn-1   passes, score 4  fails: shop/shop: zone\n"
                "and 3 nodes as before\n"
            ),
        ),
        (
            'node.allocatable["memory"] = "1Gi"',
            (
                "node  now              then\n"
                "n-1   passes, score 4  fails: shop/shop: headroom: needs 1Gi to spare\n"
                "and 3 nodes as before\n"
            ),
        ),
        (
            'pod.spec.containers[0].resources.requests["cpu"] = "2"',
            (
                "node  now              then\nn-1   passes, score 4  passes, score 6\n"
                "and 3 nodes as before\n"
            ),
        ),
        ("pod.priority = 5", "nothing changes: 4 nodes as before\n"),
    ],
    ids=["no label", "short form", "allocatable", "request", "no difference"],
)
def test_what_if_changes_one_field_for_one_answer(web: Say, change: str, shown: str) -> None:
    web(":node n-1")
    before = web(":why").out
    assert web(f":what-if {change}").out == shown
    assert web(":why").out == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ('node.free["cpu"] = "1"', "error: this cannot be changed"),
        ("node.ready = false", "error: this cannot be changed"),
        ("node = 1", "error: this cannot be changed"),
        ("now = 1", "error: this cannot be changed"),
        ("node.zone", "error: no change is given\n  = help: as in `:what-if node"),
        ("pod.spec.containers[3].image = 'a'", "error: there is no `pod.spec.containers[3].image`"),
        ("node.spec.unschedulable = 'yes'", "error: the changed object is not valid: bad Node at"),
        ("node.zone = nowhere", "error[P0101]: unknown name `nowhere`"),
    ],
    ids=["computed", "follows", "all", "no object", "none", "no item", "type", "value"],
)
def test_a_field_that_cannot_be_changed_has_a_reason(web: Say, change: str, error: str) -> None:
    web(":node n-1")
    said = web(f":what-if {change}")
    assert said.err.startswith(error)
    assert said.failed
