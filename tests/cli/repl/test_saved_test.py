"""`:save-test`: the tests that it writes pass in `placet test`."""

from pathlib import Path

from tests.cli.conftest import Placet
from tests.cli.repl.conftest import Say
from tests.support.builders import kubectl_list, node, pod, raw


def test_a_saved_test_passes_beside_its_policy(say: Say, placet: Placet, folder: Path) -> None:
    say(":load shop.policy")
    say(":pod shop/web-1")
    assert say(":save-test shop_test.policy").out == (
        'test "shop/web-1" with 4 expectations is in shop_test.policy\n'
        "it tests the policies in shop.policy\n"
    )
    assert (
        (folder / "shop_test.policy")
        .read_text()
        .endswith(
            """\
  expect score "n-1" == 4
  expect reject "n-2" by "headroom"
  expect reject "n-3" by "zone"
  expect reject "n-4" by "one per node"
}
"""
        )
    )
    assert placet("test", "shop_test.policy").code == 0


def test_a_pod_that_runs_is_written_out_and_a_second_test_has_another_name(
    say: Say, placet: Placet, folder: Path
) -> None:
    say(":load shop.policy")
    (folder / "tests").mkdir()
    say(":pod shop/web-2")
    for _ in range(2):
        say(":save-test shop_test.policy")
    text = (folder / "shop_test.policy").read_text()
    assert 'test "shop/web-2" {' in text
    assert 'test "shop/web-2 2" {' in text
    assert '  pod "shop/web-2" {"metadata": {' in text
    done = placet("test", "shop_test.policy")
    assert (done.code, "2 passed" in done.out) == (0, True), done.out + done.err


def test_of_many_nodes_one_stands_for_those_with_the_same_answer(
    say: Say, placet: Placet, folder: Path
) -> None:
    nodes = [node(f"m-{i:02}", "a", memory="1Gi" if i % 3 else "8Gi") for i in range(24)]
    waiting = pod("web-1", "shop", cpu="1", memory="1Gi", labels={"tier": "web"})
    (folder / "many.json").write_bytes(raw(kubectl_list([*nodes, waiting])))
    say(":cluster many.json")
    say(":load shop.policy")
    say(":pod web-1")
    assert "with 2 expectations" in say(":save-test shop_test.policy").out
    assert placet("test", "shop_test.policy").code == 0


def test_typed_policies_are_mentioned(say: Say) -> None:
    say('cluster policy a { filter "f" { require node.ready } }')
    say(":pod shop/web-1")
    assert say(":save-test a_test.policy").out.endswith(
        "typed clauses and policies affect it too: `:policy FILE` saves them\n"
    )


def test_other_files_are_left_alone(say: Say, folder: Path) -> None:
    say(":pod shop/web-1")
    assert say(":save-test cluster.json").err.startswith(
        "error: `cluster.json` is not a policy file"
    )
    nowhere = say(":save-test nowhere/a_test.policy").err
    assert nowhere.startswith("error: cannot write `nowhere/a_test.policy`: no such file")
    (folder / "bad.policy").write_text("policy {")
    assert say(":save-test bad.policy").err.startswith("error: `bad.policy` has errors")
    assert (folder / "bad.policy").read_text() == "policy {"
