"""The commands about the session itself, and the errors of all commands."""

from pathlib import Path

import pytest

from cli.repl.conversation import COMMANDS, ReplSession
from tests.cli.repl.conftest import Say, load
from tests.support.builders import kubectl_list, node, pod, raw


def test_help_has_a_line_for_every_command_and_more_for_one(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = say(":help").out.splitlines()
    starts = [line.split()[0] for line in lines if line.startswith(":")]
    assert starts == list(COMMANDS)
    shown = say(":explain -h")
    assert shown.out.startswith("usage: :explain ")
    assert not shown.failed


def test_reload_reads_the_files_and_the_cluster_again(
    session: ReplSession, say: Say, folder: Path
) -> None:
    (folder / "more.policy").write_text('cluster policy more { filter "a" { require node.ready } }')
    load(session, "shop.policy", "more.policy")
    (folder / "more.policy").write_text("")
    said = say(":reload")
    assert said.out == "5 policies in 2 files\n4 nodes and 4 pods at 2026-11-21T10:00:00Z\n"
    assert said.err.startswith("warning[P0301]: ")
    assert not said.failed


def test_a_file_with_mistakes_is_not_taken(web: Say, session: ReplSession, folder: Path) -> None:
    before = session.policies
    (folder / "shop.policy").write_text('cluster policy b { filter "a" { require node.x } }')
    said = web(":reload")
    assert said.err.startswith("error[P0102]: Node has no field `x`\n --> shop.policy:1:46")
    assert session.policies is before


def test_reload_keeps_a_pod_and_a_node_that_still_exist(
    web: Say, session: ReplSession, folder: Path
) -> None:
    web(":node n-2")
    web(":reload")
    assert (session.node, session.required_pod().key) == ("n-2", "shop/web-1")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([node("n-9", "a")])))
    assert web(":reload").out.endswith("pod `shop/web-1` no longer exists\n")
    assert (session.node, session.pod) == ("n-9", None)


def test_a_pod_may_come_from_a_manifest(web: Say, folder: Path) -> None:
    (folder / "pod.json").write_bytes(raw(pod("new", "shop", labels={"tier": "db"})))
    assert web(":pod pod.json").out == "pod shop/new\n"
    assert web('pod.labels["tier"]').out == '"db" : string\n'
    web(":reload")
    assert web("pod.name").out == '"new" : string\n'


def test_a_placed_pod_is_evaluated_as_if_it_had_no_node(web: Say) -> None:
    assert web(":pod web-2").out == "pod shop/web-2 on n-4, evaluated as if it had no node\n"
    assert "n-4   4\n" in web("node.free.cpu").out


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            ":drp x",
            "error: there is no command `:drp`\n  = help: a similar command exists: `:drop`",
        ),
        (":pod a\0", "error: the text contains a NUL character\n"),
        (":zzz", "error: there is no command `:zzz`\n  = help: `:help` lists the commands"),
        (":pod", "error: no pod is chosen\n  = help: choose one with `:pod NAMESPACE/NAME`"),
        (":pod web-1", "error: several pods are called `web-1`"),
        (":pod nobody.yaml", "error: cannot read `nobody.yaml`"),
        (":node n-9", "error: there is no node `n-9` in `cluster.json`"),
        (":explain", "error: no pod is chosen"),
        (":explain a b c", "usage: :explain "),
        (":drop x", "error: nothing called `x` has been typed"),
        (":policy", "error: nothing has been typed for a policy"),
    ],
    ids=lambda text: text if text.startswith(":") else "",
)
def test_an_impossible_command_gets_one_sentence_and_a_hint(
    say: Say, line: str, error: str
) -> None:
    said = say(line)
    assert (said.out, said.failed) == ("", True)
    assert said.err.startswith(error)
    assert said.err.count("\n") <= 2


def test_without_a_cluster_the_hint_says_how_to_load_one(session: ReplSession, say: Say) -> None:
    session.cluster = None
    assert "= help: begin with `placet repl --cluster SNAPSHOT`" in say("node.ready").err
    assert say(":node n-1").err == (
        "error: no cluster is loaded\n  = help: begin with `placet repl --cluster SNAPSHOT`, or"
        " with `--kubeconfig FILE`\n"
    )
    assert say("1 + 1").out == "2 : int\n"
