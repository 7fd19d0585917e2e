"""Lines and their answers: values, clauses, policies, and mistakes with carets in place."""

from pathlib import Path

import pytest

from cli.repl.conversation import take
from cli.repl.session import Session
from tests.cli import shop
from tests.cli.repl.conftest import Say
from tests.support.builders import kubectl_list, pod, raw


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 + 2", "3 : int\n"),
        ('"500m" < quantity("1")', "true : bool\n"),
        ("[1, 2].map(x, x * 2)", "[2, 4] : list(int)\n"),
        ("now", "2026-11-21T10:00:00Z : timestamp\n"),
        ("1 +\n2", "3 : int\n"),
        ("# nothing", ""),
        ("", ""),
    ],
    ids=["sum", "quantity", "list", "time of the snapshot", "two lines", "comment", "nothing"],
)
def test_an_expression_shows_its_value_and_type(say: Say, text: str, shown: str) -> None:
    assert (said := say(text)).out == shown
    assert not said.failed


def test_without_a_node_every_node_has_its_value(say: Say) -> None:
    assert say("node.free.cpu").out == (
        "node  value : quantity\nn-1   4\nn-2   1\nn-3   4\nn-4   3\n"
    )
    say(":node n-2")
    assert say("node.free.cpu").out == "1 : quantity\n"
    assert say(":node *").out == "every one of 4 nodes\n"


def test_nodes_without_a_value_say_why_and_a_value_somewhere_is_one(say: Say) -> None:
    said = say('node.labels["capacity"]')
    assert said.out.splitlines()[1:3] == ['n-1   "spot"', "n-2   error: there is no key `capacity`"]
    assert not said.failed
    assert say('node.labels["nowhere"]').failed


def test_many_nodes_are_grouped_by_their_values(say: Say) -> None:
    say(":set rows 2")
    assert say("node.zone").out == (
        "nodes  value : string                         which\n"
        '    2  "a"                                    n-1, n-4\n'
        '    1  "b"                                    n-2\n'
        "    1  1 other value, `:set rows` shows more\n"
    )


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


def test_a_clause_decides_beside_the_policies_that_are_loaded(say: Say) -> None:
    say(":load shop.policy")
    say(":pod shop/web-1")
    assert say('filter "mine" { require node.zone == "b" message "not b" }').out == (
        'added filter "mine"\n'
    )
    lines = say(":why").out.splitlines()
    assert (
        "session       as a guardrail  every cluster policy that selects the pod applies" in lines
    )
    assert "n-1   fails           session: mine: not b" in lines
    assert say('filter "mine" { require node.zone == "a" }').out == 'replaced filter "mine"\n'
    assert "n-1   passes       4" in say(":why").out.splitlines()


def test_a_whole_policy_is_added_and_replaced(say: Say) -> None:
    text = 'policy own {{ for pods where true score "any" weight 1 {{ value {} range 0 .. 1 }} }}'
    assert say(text.format(0.5)).out == "added policy own\n"
    say(":pod shop/web-1")
    assert "n-1       5     5.00" in say(":rank").out.splitlines()
    assert say(text.format(0.2)).out == "replaced policy own\n"
    assert "n-1       2     2.00" in say(":rank").out.splitlines()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "1 + node.nme",
            """\
error[P0102]: Node has no field `nme`
 --> expression:1:10
  |
1 | 1 + node.nme
  |          ^^^ unknown field
  = help: a similar name exists: `name`
""",
        ),
        (
            'let a = 1\nfilter "f" {\n  require node.redy\n}',
            """\
error[P0102]: Node has no field `redy`
 --> session:3:16
  |
3 |   require node.redy
  |                ^^^^ unknown field
  = help: a similar name exists: `ready`
""",
        ),
        (
            'filter "f" { requir node.ready }',
            """\
error[P0001]: `requir` is not allowed here
 --> session:1:14
  |
1 | filter "f" { requir node.ready }
  |              ^^^^^^ unexpected
  = help: did you mean `require`?
""",
        ),
        (
            "policy p { weight x }",
            """\
error[P0001]: `x` is not allowed here
 --> session:1:19
  |
1 | policy p { weight x }
  |                   ^ unexpected
  = help: expected a number
""",
        ),
        (
            "pod.name",
            """\
error[P0111]: `pod` is not available in this expression
 --> expression:1:1
  |
1 | pod.name
  | ^^^^^^^^
  = help: choose one with `:pod NAMESPACE/NAME`
""",
        ),
        (
            '[1].map(x, {"a": x}["b"])',
            """\
error: there is no key `b`
 --> expression:1:12
  |
1 | [1].map(x, {"a": x}["b"])
  |            ^^^^^^^^^^^^^
""",
        ),
    ],
    ids=["expression", "clause", "word", "policy", "no pod", "evaluation"],
)
def test_mistakes_are_shown_in_place(say: Say, text: str, shown: str) -> None:
    said = say(text)
    assert (said.out, said.err, said.failed) == ("", shown, True)


def test_a_mistake_leaves_everything_as_it_was(say: Say, session: Session) -> None:
    say("let a = 1")
    say('filter "f" { require a == 1 }')
    before = session.notebook
    assert say('let a = "one"').failed
    assert say('filter "g" { require nowhere }').failed
    assert say(":drop a").failed
    assert session.notebook == before


def test_a_test_is_for_files(say: Say) -> None:
    said = say('test "t" { node "n" pod "p" expect pass "n" }')
    assert said.err.startswith("error: tests are run from files\n  = help: `:save-test FILE`")


def test_annotations_of_other_pods_are_kept_once_a_line_reads_them(say: Say, folder: Path) -> None:
    database = pod("db-0", "far", annotations={"team": "data"}, on="n-2")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*shop.cluster(), database])))
    say(":reload")
    say(":node n-2")
    line = 'node.pods.filter(p, "team" in p.annotations).map(p, p.annotations["team"])'
    assert say(line).out == '["data"] : list(string)\n'


def test_the_last_line_says_so(session: Session) -> None:
    assert not take(session, "1").leave
    assert take(session, ":quit").leave
