"""Typed definitions and clauses: their effects, replacing and dropping them."""

from cli.repl.session import ReplSession
from tests.cli.repl.conftest import Say, load


def test_lets_and_defs_stay_and_can_be_changed(say: Say) -> None:
    say(":node n-1")
    assert say('let spot = node.labels["capacity"] == "spot"').out == "spot : bool\n"
    assert say("def used(r: string): double = node.usage[r]").out == "used(r: string) : double\n"
    assert say("spot").out == "true : bool\n"
    assert say('used("cpu")').err.startswith("error[P0111]: `pod` is not available")
    say(":pod shop/web-1")
    assert say('used("cpu")').out == "0.25 : double\n"
    say("let spot = 3")
    assert say("spot + 1").out == "4 : int\n"


def test_a_typed_clause_decides_in_addition_to_loaded_policies(
    session: ReplSession, say: Say
) -> None:
    load(session, "shop.policy")
    say(":pod shop/web-1")
    assert say('filter "mine" { require node.zone == "b" message "not b" }').out == (
        'added filter "mine"\n'
    )
    lines = say(":explain").out.splitlines()
    assert (
        "session       as a guardrail  every cluster policy that selects the pod applies" in lines
    )
    assert "n-1   fails           session: mine: not b" in lines
    assert say('filter "mine" { require node.zone == "a" }').out == 'replaced filter "mine"\n'
    assert "n-1   passes       4" in say(":explain").out.splitlines()


def test_a_typed_score_is_replaced(say: Say) -> None:
    text = 'score "any" weight 1 {{ value {} range 0 .. 1 }}'
    assert say(text.format(0.5)).out == 'added score "any"\n'
    say(":pod shop/web-1")
    assert "n-1   passes       5" in say(":explain").out.splitlines()
    assert say(text.format(0.2)).out == 'replaced score "any"\n'
    assert "n-1   passes       2" in say(":explain").out.splitlines()


def test_an_error_changes_nothing(say: Say, session: ReplSession) -> None:
    say("let a = 1")
    say('filter "f" { require a == 1 }')
    before = session.typed
    assert say('let a = "one"').failed
    assert say('filter "g" { require nowhere }').failed
    assert say(":drop a").failed
    assert session.typed == before


def test_typed_clauses_can_be_shown_and_dropped(say: Say) -> None:
    say("let   a = 1")
    say('filter "f" { require a==1\n\n\n require node.ready }')
    laid_out = """\
cluster policy session {
  let a = 1
  filter "f" { require a == 1 require node.ready }
}
"""
    assert say(":policy").out == laid_out
    assert say(":policy typed.policy").err == "error: `:policy` takes no arguments\n"
    assert say(':drop "f"').out == "dropped f\n"
    assert say(":policy").out == "cluster policy session {\n  let a = 1\n}\n"
