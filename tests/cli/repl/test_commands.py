"""Every command: what it shows, and what it says where it cannot."""

import re
from pathlib import Path

import pytest

from cli.repl.commands import COMMANDS
from cli.repl.session import Session
from tests.cli.conftest import Placet
from tests.cli.repl.conftest import Say
from tests.support.builders import kubectl_list, node, pod, raw


@pytest.fixture
def web(say: Say) -> Say:
    """The shop's policies, and its pod that waits."""
    say(":load shop.policy")
    say(":pod shop/web-1")
    return say


def test_help_has_a_line_for_every_command_and_more_for_one(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = say(":help").out.splitlines()
    starts = [line.split()[0] for line in lines if line.startswith(":")]
    assert starts == list(COMMANDS)
    assert say(":help rank").out == (
        ":rank [N]\n  lists the nodes that pass, the best first\n"
        "  `exactly` is what the score, a whole number, is rounded from.\n"
    )


def test_files_are_loaded_one_after_the_other(say: Say, folder: Path) -> None:
    (folder / "more.policy").write_text('cluster policy more { filter "a" { require node.ready } }')
    assert say(":load shop.policy").out == "5 policies in 1 file\n"
    assert say(":load more.policy").out == "6 policies in 2 files\n"
    (folder / "more.policy").write_text("")
    said = say(":reload")
    assert said.out == "5 policies in 2 files\n4 nodes and 4 pods at 2026-11-21T10:00:00Z\n"
    assert said.err.startswith("warning[P0301]: ")
    assert not said.failed


def test_a_file_with_mistakes_is_not_taken(web: Say, session: Session, folder: Path) -> None:
    (folder / "bad.policy").write_text('cluster policy b { filter "a" { require node.x } }')
    said = web(":load bad.policy")
    assert said.err.startswith("error[P0102]: Node has no field `x`\n --> bad.policy:1:46")
    assert session.files == (Path("shop.policy"),)


def test_reload_keeps_what_is_chosen_as_long_as_it_is_there(
    web: Say, session: Session, folder: Path
) -> None:
    web(":node n-2")
    web(":reload")
    assert (session.node, session.some_pod().key) == ("n-2", "shop/web-1")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([node("n-9", "a")])))
    assert web(":reload").out.endswith("there is no pod `shop/web-1` any more\n")
    assert (session.node, session.pod) == ("n-9", None)


def test_a_pod_may_come_from_a_manifest(web: Say, folder: Path) -> None:
    (folder / "pod.json").write_bytes(raw(pod("new", "shop", labels={"tier": "db"})))
    assert web(":pod pod.json").out == "pod shop/new\n"
    assert web('pod.labels["tier"]').out == '"db" : string\n'
    web(":reload")
    assert web("pod.name").out == '"new" : string\n'


def test_a_placed_pod_is_asked_about_as_if_it_were_not(web: Say) -> None:
    assert web(":pod web-2").out == "pod shop/web-2 on n-4, asked about as if it were not\n"
    assert "n-4   4\n" in web("node.free.cpu").out


def test_why_and_analyze_are_explain_and_analyze(web: Say, placet: Placet) -> None:
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


def test_type_needs_nothing_and_evaluates_nothing(say: Say) -> None:
    assert say(":type pod.requests").out == "pod.requests : map(string, quantity)\n"
    assert say(":type peer.labels").out == "peer.labels : map(string, string)\n"


def test_trace_shows_every_part_through_lets(say: Say) -> None:
    say('let spot = node.labels["capacity"] == "spot"')
    say(":node n-1")
    assert (
        say(':trace spot && node.zone == "b"').out
        == """\
  spot && node.zone == "b"               = false
    spot                                 = true
      node.labels["capacity"] == "spot"  = true
        node.labels["capacity"]          = "spot"
    node.zone == "b"                     = false
      node.zone                          = "a"
"""
    )


def test_settings_show_parts_and_time(say: Say) -> None:
    assert say(":set trace on").out == "rows 20, trace on, time off\n"
    say(":node n-1")
    assert say('node.zone == "a"').out == (
        '  node.zone == "a"  = true\n    node.zone       = "a"\ntrue : bool\n'
    )
    say(":set trace off")
    say(":set time on")
    assert re.fullmatch(r"3 : int\n\d+\.\d ms\n", say("1 + 2").out)


def test_cost_is_of_an_expression_or_of_the_policies(say: Say) -> None:
    assert say(":cost node.pods.exists(p, p.name == pod.name)").out.startswith(
        "cost of expression in steps for one node, of 1,000,000\n"
    )
    say('filter "f" { require node.ready }')
    assert say(":cost").out.startswith("cost of session in steps for one node")


def test_missing_finds_what_is_read_and_absent(web: Say) -> None:
    web('let spot = node.labels[?"capacity"].orValue("") == "spot"')
    assert web(
        ':missing spot && has(node.labels["gpu"]) || pod.labels["team"] == node.zone'
    ).out == (
        "reads                     absent  which\n"
        'node.labels[?"capacity"]  3 of 4  n-2, n-3, n-4\n'
        'node.labels["gpu"]        4 of 4  n-1, n-2, n-3, n-4\n'
        'pod.labels["team"]        1 of 1  the pod\n'
    )
    assert web(":missing node.zone").out == "all that it reads is there\n"
    assert web(":missing 1 + 2").out == "it reads no field that could be absent\n"


def test_bench_says_how_long_a_node_takes(say: Say) -> None:
    assert re.fullmatch(
        r"\d+\.\d\d µs per node \(4 nodes, \d+ times?\)\n", say(":bench node.ready").out
    )
    lines = say(':bench node.labels["capacity"]').out.splitlines()
    assert lines[1] == "without 3 nodes where it has no value"
    assert say(':bench node.labels["nowhere"]').failed


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
        ('node.free["cpu"] = "1"', "error: this is no field that can be changed"),
        ("node.ready = false", "error: this is no field that can be changed"),
        ("node = 1", "error: this is no field that can be changed"),
        ("now = 1", "error: this is no field that can be changed"),
        ("node.zone", "error: there is no change\n  = help: as in `:what-if node"),
        ("pod.spec.containers[3].image = 'a'", "error: there is no `pod.spec.containers[3].image`"),
        ("node.spec.unschedulable = 'yes'", "error: that makes no object: bad Node at"),
        ("node.zone = nowhere", "error[P0101]: unknown name `nowhere`"),
    ],
    ids=["computed", "follows", "all", "no object", "none", "no item", "type", "value"],
)
def test_what_cannot_be_changed_says_why(web: Say, change: str, error: str) -> None:
    web(":node n-1")
    said = web(f":what-if {change}")
    assert said.err.startswith(error)
    assert said.failed


def test_what_was_typed_can_be_seen_written_and_taken_back(say: Say, folder: Path) -> None:
    say("let   a = 1")
    say('filter "f" { require a==1\n\n\n require node.ready }')
    laid_out = """\
cluster policy session {
  let a = 1
  filter "f" { require a == 1 require node.ready }
}
"""
    assert say(":policy").out == laid_out
    assert say(":policy typed.policy").out == "1 policy in typed.policy\n"
    assert (folder / "typed.policy").read_text() == laid_out
    assert say(":policy typed.policy").err.startswith("error: `typed.policy` is there already")
    assert say(':drop "f"').out == "dropped f\n"
    assert say(":policy").out == "cluster policy session {\n  let a = 1\n}\n"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            ":lod x",
            "error: there is no command `:lod`\n  = help: a similar command exists: `:load`",
        ),
        (":load a\0", "error: there is a NUL character in it\n"),
        (":zzz", "error: there is no command `:zzz`\n  = help: `:help` lists the commands"),
        (":load", "error: no file is named"),
        (":load nowhere.policy", "error: `nowhere.policy` does not exist"),
        (":load 'a", "error: a quote is open"),
        (":cluster shop.policy", "error: `shop.policy` is no snapshot"),
        (":pod", "error: no pod is chosen\n  = help: choose one with `:pod NAMESPACE/NAME`"),
        (":pod web-1", "error: several pods are called `web-1`"),
        (":pod nobody.yaml", "error: cannot read `nobody.yaml`"),
        (":node n-9", "error: there is no node `n-9` in `cluster.json`"),
        (":why", "error: no pod is chosen"),
        (":trace node.ready", "error: no node is chosen\n  = help: choose one with `:node NAME`"),
        (":type", "error: there is no expression"),
        (":cost", "error: there are no policies"),
        (":rank many", "error: `many` is no number of nodes"),
        (":set rows none", "error: `rows none` is no setting"),
        (":drop x", "error: nothing called `x` has been typed"),
        (":policy", "error: nothing has been typed for a policy"),
        (":save-test", "error: no file is named"),
    ],
    ids=lambda text: text if text.startswith(":") else "",
)
def test_what_cannot_be_done_is_one_sentence_and_a_hint(say: Say, line: str, error: str) -> None:
    said = say(line)
    assert (said.out, said.failed) == ("", True)
    assert said.err.startswith(error)
    assert said.err.count("\n") <= 2


def test_without_a_cluster_lines_say_how_to_get_one(session: Session, say: Say) -> None:
    session.cluster = None
    assert "= help: read one with `:cluster SNAPSHOT`" in say("node.ready").err
    assert say(":node n-1").err == (
        "error: there is no cluster\n  = help: read one with `:cluster SNAPSHOT`\n"
    )
    assert say("1 + 1").out == "2 : int\n"
