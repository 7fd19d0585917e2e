"""`placet serve` and the pods that no policy decides about."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.objects.request_pod import BYPASS
from tests.cli.conftest import Placet
from tests.cli.test_serve import serving
from tests.support.builders import kubectl_list, node, pod

POLICY = """
cluster policy nobody { filter "no" { require node.name == "" } }
policy own in namespace "kube-system" { filter "no" { require node.name == "" } }
"""


@pytest.fixture
def files(folder: Path) -> tuple[str, ...]:
    (folder / "a.policy").write_text(POLICY, encoding="utf-8")
    (folder / "c.json").write_text(json.dumps(kubectl_list([node("n1")])), encoding="utf-8")
    return ("--policies", "a.policy", "--cluster", "c.json")


@pytest.mark.process
@pytest.mark.parametrize(
    ("flags", "namespaces", "bypasses"),
    [
        pytest.param((), {"kube-system"}, True, marks=pytest.mark.thorough, id="by default"),
        pytest.param(("--exempt-namespace", "shop"), {"kube-system", "shop"}, True, id="one more"),
        pytest.param(
            ("--exempt-namespace", "shop", "--exempt-namespace", "none"),
            {"shop"},
            True,
            marks=pytest.mark.thorough,
            id="another",
        ),
        pytest.param(("--exempt-namespace", "none", "--no-bypass"), set(), False, id="nobody"),
    ],
)
def test_who_passes(
    folder: Path,
    files: tuple[str, ...],
    flags: tuple[str, ...],
    namespaces: set[str],
    *,
    bypasses: bool,
) -> None:
    with serving(folder, *files, *flags) as server:

        def passes(asked: Any) -> bool:
            answer = server.ask({"Pod": asked, "Nodes": None, "NodeNames": ["n1"]})
            return bool(answer["NodeNames"] == ["n1"])

        asked = ("kube-system", "shop", "default")
        assert {name for name in asked if passes(pod("p", name))} == namespaces
        assert passes(pod("b", annotations={BYPASS: "on fire\n2 lines"})) is bypasses
    # All of it is written once the server has ended.
    log = server.err.read_text("utf-8")
    told = 'pod bypasses all policies pod="default/b" reason="on fire\\n2 lines"'
    assert (told in log) is bypasses
    silent = "policy kube-system/own concerns no pod: namespace `kube-system` is exempt"
    assert (silent in log) is ("kube-system" in namespaces)


def test_a_name_that_no_namespace_can_have_is_a_clear_error(placet: Placet) -> None:
    done = placet("serve", "--demo", "--exempt-namespace", "Kube-System")
    assert done.code == 2
    assert "argument --exempt-namespace: `Kube-System` is not a valid namespace name" in done.err
