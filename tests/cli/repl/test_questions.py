"""Commands of the command line on the world of a session: they show what they show there."""

import pytest

from cli.repl.session import ReplSession
from tests.cli.conftest import Placet
from tests.cli.repl.conftest import Say, load
from tests.cli.shop import WORLD


def test_explain_and_analyze_print_what_the_commands_print(web: Say, placet: Placet) -> None:
    assert web(":explain").out == placet("explain", "shop/web-1", *WORLD).out
    assert web(":explain n-2").out == placet("explain", "shop/web-1", "n-2", *WORLD).out
    assert web(":explain -o json").out == placet("explain", "shop/web-1", *WORLD, "-o", "json").out
    assert web(":analyze").out == placet("analyze", "shop/web-1", *WORLD).out


def test_another_pod_than_the_chosen_one_can_be_asked_about(web: Say, placet: Placet) -> None:
    assert web(":explain shop/web-2").out == placet("explain", "shop/web-2", *WORLD).out
    assert web(":explain far/db-0 n-1").out == placet("explain", "far/db-0", "n-1", *WORLD).out
    assert web(":analyze shop/web-2").out == placet("analyze", "shop/web-2", *WORLD).out


def test_without_a_chosen_pod_the_first_name_is_a_pod(
    session: ReplSession, say: Say, placet: Placet
) -> None:
    load(session, "shop.policy")
    assert say(":explain web-2 n-1").out == placet("explain", "web-2", "n-1", *WORLD).out
    assert say(":explain").err.startswith("error: no pod is chosen")


def test_check_says_what_check_says(web: Say, placet: Placet) -> None:
    checked = placet("check", "shop.policy", "--cluster", "cluster.json")
    shown = web(":check")
    assert shown.out
    assert checked.out.startswith(shown.out)
    costs = placet("check", "shop.policy", "--cluster", "cluster.json", "--cost").out
    assert costs.startswith(web(":check --cost").out)


def test_check_says_what_a_typed_clause_does(say: Say) -> None:
    say('filter "b" { require node.zone == "b" }')
    shown = say(":check")
    assert "policy session: selects 4 of 4 pods" in shown.out
    assert "  b: rejects 3 of 4 nodes" in shown.out
    say('filter "disk" { require node.labels["dsk"] == "ssd" }')
    assert "warning[P0320]" in say(":check").out


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (":explain a b c", "usage: :explain "),
        (":explain n-9", "error: there is no node `n-9`"),
        (":analyze --decision", "usage: :analyze "),
        (":check 'a", "error: a quotation mark is not closed"),
    ],
)
def test_a_wrong_question_changes_nothing(web: Say, line: str, error: str) -> None:
    said = web(line)
    assert said.err.startswith(error)
    assert (said.out, said.failed) == ("", True)
