"""The policies that ship: without findings, in canonical form, tested, and explained on a page."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from pathlib import Path

import pytest

from cli.main import main
from engine.decision.preemption import Victims
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_file
from grammar.tree.printer import format_file, print_parameter
from grammar.tree.source import Source
from policies.loader import is_test_file, library_sources, load
from policies.validation import Validator, check_source
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of

LIBRARY = Path(str(files("policies") / "library"))
SOURCES = load([LIBRARY, Path(str(files("cli") / "demo"))]).sources
SHIPPED = [source for source in SOURCES if not is_test_file(source.name)]
PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def name_of(source: Source) -> str:
    return Path(source.name).stem


@pytest.mark.parametrize("source", SHIPPED, ids=name_of)
def test_shipped_policy_is_exemplary(source: Source) -> None:
    checked = check_source(source, load_schema())
    assert [each.code for each in checked.diagnostics] == []
    assert [p.policy.name for p in checked.policies] == [name_of(source)]
    assert all(p.policy.setting("description", "") for p in checked.policies)


def test_policies_of_the_readme_have_no_findings() -> None:
    fences = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", README)
    texts = {"": "readme.policy", "yaml": "readme.yaml"}
    sources = [
        Source(texts[kind], text)
        for kind, text in fences
        if kind in texts and re.match(r"policy |.*\nkind: PlacementPolicy", text)
    ]
    assert len(sources) == 2
    assert [check_source(source, load_schema()).diagnostics for source in sources] == [(), ()]


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_shipped_file_is_laid_out_as_fmt_would(source: Source) -> None:
    assert format_file(parse_file(source)[0], source) == source.text


@pytest.mark.parametrize("source", [s for s in SHIPPED if "gpu" in Path(s.name).parts], ids=name_of)
def test_a_policy_about_cards_has_at_most_twelve_lines(source: Source) -> None:
    """As fmt lays it out, which the test above compares; comments aside."""
    lines = [line for line in source.text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 12


def test_every_branch_of_the_library_is_tested(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["test", "-v", "--threshold", "100", str(LIBRARY)])
    done = capsys.readouterr()
    assert (code, done.err) == (0, ""), done.out
    tested = set(re.findall(r"(?m)^\S+/(\S+)_test\.policy: ", done.out))
    assert tested == {name_of(source) for source in library_sources()}


@pytest.mark.parametrize("source", library_sources(), ids=name_of)
def test_library_policy_governs_nothing_unasked(source: Source) -> None:
    """It is a guardrail, or there for `use` alone; both can be used."""
    (checked,) = check_source(source, load_schema()).policies
    assert checked.policy.cluster or checked.policy.only_used
    user = f'policy u in namespace "u" {{ use "library/{checked.policy.name}" }}'
    if checked.environment.cards:
        # Cards are shared by the pods of all namespaces.
        found = Validator(load_schema()).validate([Source("u.policy", user)]).findings()
        assert "P0133" in {each.code for each, _ in found}
        user = user.replace('in namespace "u" {', '{ for pods where pod.namespace == "u"')
    assert list(Validator(load_schema()).validate([Source("u.policy", user)]).findings()) == []


def test_page_says_what_the_files_say() -> None:
    """Each by its name, with its description, its kind and its parameters."""
    found = re.findall(r"(?m)^\| `(\S+)` \| (.*?) \| (.*?) \| (.*?) ?\|$", PAGE)
    wanted = []
    for source in library_sources():
        (checked,) = check_source(source, load_schema()).policies
        policy = checked.policy
        (written,) = parse_file(source)[0].policies
        declared = ", ".join(f"`{print_parameter(p)}`" for p in written.parameters)
        description = policy.setting("description", "")
        wanted.append(
            (policy.name, description, "cluster" if policy.cluster else "`use`", declared)
        )
    assert sorted(found) == sorted(wanted)


def test_every_policy_says_when_to_choose_it() -> None:
    texts = {source.name: source.text for source in library_sources()}
    assert [name for name, text in texts.items() if not text.startswith("# ")] == []


def test_databases_are_not_evicted() -> None:
    """By either label; whoever else would be evicted still is."""
    source = next(s for s in library_sources() if name_of(s) == "protect-databases")
    labels = {
        "db": {"tier": "db"},
        "labelled": {"app.kubernetes.io/component": "database"},
        "web": {"tier": "web"},
        "bare": {},
    }
    victims = [pod(name, labels=found, on=f"n-{name}") for name, found in labels.items()]
    nodes = [node(victim["spec"]["nodeName"]) for victim in victims]
    engine = engine_of(source.text, nodes, victims)
    proposed = {f"n-{v['metadata']['name']}": Victims([v["metadata"]["uid"]], 0) for v in victims}
    kept = engine.preempt(raw(pod("urgent", priority=1000)), proposed, math.inf)
    assert set(kept) == {"n-web", "n-bare"}
