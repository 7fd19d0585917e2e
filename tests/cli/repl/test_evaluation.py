"""The answers of a session: expressions, typed clauses, questions, and lines from a pipe."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.repl.conversation import ReplSession
from tests.cli import shop
from tests.cli.conftest import Placet
from tests.cli.repl.conftest import Say, load
from tests.cli.shop import WORLD
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


def test_without_a_node_all_nodes_have_a_row(say: Say) -> None:
    assert say("node.free.cpu").out == (
        "node  value : quantity\nn-1   4\nn-2   1\nn-3   4\nn-4   3\n"
    )
    say(":node n-2")
    assert say("node.free.cpu").out == "1 : quantity\n"
    assert say(":node *").out == "all of 4 nodes\n"


def test_a_count_is_about_the_chosen_pod(say: Say) -> None:
    assert say("count here per node = all pods where true").out == "added count here\n"
    say("count waiting = all pending pods where peer.priority >= pod.priority")
    assert "choose one" in say("waiting").err
    say(":pod shop/web-1")
    assert say("waiting").out == "0 : int\n"
    assert say("here").out.splitlines()[0].split() == ["node", "value", ":", "int"]
    say(":node n-4")
    assert say("here >= 0").out == "true : bool\n"


def test_a_group_is_that_of_the_node(say: Say) -> None:
    assert say("group zone by node.zone").out == "added group zone\n"
    shown = say("zone.nodes").out
    assert [row.split() for row in shown.splitlines()[1:]] == [
        ["n-1", "2"],
        ["n-2", "1"],
        ["n-3", "1"],
        ["n-4", "2"],
    ]
    say(":node n-4")
    assert say("zone.map(n, n.name)").out == '["n-1", "n-4"] : list(string)\n'


def test_a_node_without_a_value_is_a_finding(say: Say, placet: Placet) -> None:
    said = say('node.labels["capacity"]')
    assert said.out.splitlines()[1:3] == ['n-1   "spot"', "n-2   error: there is no key `capacity`"]
    assert said.failed
    evaluated = placet("eval", 'node.labels["capacity"]', "--cluster", "cluster.json")
    assert (evaluated.out, evaluated.code) == (said.out, 1)


def test_annotations_of_other_pods_can_be_read(say: Say, folder: Path) -> None:
    database = pod("db-0", "far", annotations={"team": "data"}, on="n-2")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*shop.cluster(), database])))
    say(":reload")
    say(":node n-2")
    line = 'node.pods.filter(p, "team" in p.annotations).map(p, p.annotations["team"])'
    assert say(line).out == '["data"] : list(string)\n'


# ---- typed definitions and clauses: their effects, replacing and dropping them


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


# ---- commands of the command line on the world of a session: they show what they show there


def test_explain_prints_what_the_command_prints(web: Say, placet: Placet) -> None:
    assert web(":explain").out == placet("explain", "shop/web-1", *WORLD).out
    assert web(":explain n-2").out == placet("explain", "shop/web-1", "n-2", *WORLD).out
    assert web(":explain -o json").out == placet("explain", "shop/web-1", *WORLD, "-o", "json").out


def test_another_pod_than_the_chosen_one_can_be_asked_about(web: Say, placet: Placet) -> None:
    assert web(":explain shop/web-2").out == placet("explain", "shop/web-2", *WORLD).out
    assert web(":explain far/db-0 n-1").out == placet("explain", "far/db-0", "n-1", *WORLD).out


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
        (":explain --decision", "usage: :explain "),
        (":check 'a", "error: a quotation mark is not closed"),
    ],
)
def test_a_wrong_question_changes_nothing(web: Say, line: str, error: str) -> None:
    said = web(line)
    assert said.err.startswith(error)
    assert (said.out, said.failed) == ("", True)


# ---- `placet repl` in a pipe: no prompts, answers as they come, and an exit code for scripts


ROOT = Path(__file__).parents[3]


def piped(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    shop.write(folder)
    return subprocess.run(
        [sys.executable, "-m", "cli", "repl", *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "TERM": "dumb"},
        timeout=60,
    )


@pytest.mark.process
def test_an_expression_prints_its_values_and_nothing_else(tmp_path: Path) -> None:
    done = piped(tmp_path, "node.free.cpu\n", "--cluster", "cluster.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "node  value : quantity\nn-1   4\nn-2   1\nn-3   4\nn-4   3\n"
    assert not (tmp_path / ".local").exists()


def test_an_unfinished_line_continues(placet: Placet) -> None:
    lines = 'filter "f" {\n\n  require node.ready\n}\n1 +\n2\n\n# done\n:policy\n4'
    done = placet("repl", stdin=lines)
    assert done.out == (
        'added filter "f"\n3 : int\n'
        'cluster policy session {\n  filter "f" { require node.ready }\n}\n4 : int\n'
    )
    assert (done.code, done.err) == (0, "")


def test_a_line_that_fails_does_not_stop_the_others(placet: Placet) -> None:
    done = placet("repl", stdin="1 +* 2\n3\n")
    assert (done.code, done.out) == (1, "3 : int\n")
    assert done.err.startswith("error[P0001]: `*` is not allowed here\n --> expression:1:4\n")


def test_a_text_without_an_end_is_an_error_at_the_end_of_input(placet: Placet) -> None:
    done = placet("repl", stdin="(1 + 2\n3\n")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[P0001]: ")


def test_lines_after_quit_are_not_read(placet: Placet) -> None:
    done = placet("repl", stdin="1\n:quit\n2\n")
    assert (done.code, done.out) == (0, "1 : int\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--policies", "nowhere.policy"], "error: `nowhere.policy` does not exist\n"),
        (["--policies", "bad.policy"], "error[P0102]: Node has no field `x`\n"),
        (["--cluster", "nowhere.json"], "error: cannot read `nowhere.json`"),
        (["--cluster", "bad.policy"], "error: `bad.policy` is not a cluster file"),
        (["--kubeconfig", "nowhere"], "error: there is no kubeconfig `nowhere`"),
    ],
    ids=["no policy", "mistakes", "no snapshot", "not a snapshot", "no kubeconfig"],
)
def test_an_unreadable_file_is_an_error_before_the_first_line(
    placet: Placet, folder: Path, arguments: list[str], error: str
) -> None:
    (folder / "bad.policy").write_text('cluster policy a { filter "a" { require node.x } }')
    done = placet("repl", *arguments, stdin="1\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(error)


def test_a_line_that_never_ends_ends_the_session(placet: Placet) -> None:
    done = placet("repl", stdin=f"1\n{'1' * 1_100_000}\n2\n")
    assert done.code == 2
    assert done.out == "1 : int\n"
    assert "a line of standard input has more than 1,048,576 characters" in done.err
