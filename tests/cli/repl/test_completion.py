"""The candidates for Tab, by the text up to the cursor."""

import pytest

from cli.repl.conversation import ReplSession
from cli.repl.terminal import complete
from tests.cli.repl.conftest import Say


def offered(session: ReplSession, text: str) -> list[str]:
    """The line as it would be with each candidate."""
    return [f"{text[: found.start]}{found.text}" for found in complete(session, text)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (":e", [":explain"]),
        (":explain n-3", []),
        (":explain n-", [":explain n-1", ":explain n-2", ":explain n-3", ":explain n-4"]),
        (":node n-", [":node n-1", ":node n-2", ":node n-3", ":node n-4"]),
        (":pod shop/", [":pod shop/web-1", ":pod shop/web-2"]),
        (":check ", []),
        (":zzz x", []),
    ],
    ids=lambda text: text if isinstance(text, str) else "",
)
def test_commands_and_what_they_take(session: ReplSession, text: str, first: list[str]) -> None:
    assert offered(session, text) == first


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("nod", ["node"]),
        ("node.re", ["node.region", "node.ready", "node.requested"]),
        ("node.status.nodeInfo.arch", ["node.status.nodeInfo.architecture"]),
        ("node.usa", ["node.usage["]),
        ('node.usage["cpu"] > 0.5 && node.zo', ['node.usage["cpu"] > 0.5 && node.zone']),
        ("node.free.", ["node.free.cpu", "node.free.memory", "node.free.pods"]),
        ("node.zone.start", ["node.zone.startsWith("]),
        ("(node.age).getH", ["(node.age).getHours("]),
        ("node.pods.map(p, p.lab", ["node.pods.map(p, p.labels"]),
        ("node.pods.exists(p, p.containers.exists(c, c.ima", None),
        ("nowhere.", []),
        ("1 + node.", None),
        ("1.", []),
        ("# node.", []),
    ],
    ids=lambda text: text if isinstance(text, str) else "",
)
def test_fields_keys_and_functions(
    session: ReplSession, text: str, first: list[str] | None
) -> None:
    found = offered(session, text)
    if first is None:
        assert found
    else:
        assert found[: len(first) or None] == first


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('node.labels["cap', ['node.labels["capacity"']),
        ("has(node.labels[?'topo", ["has(node.labels[?'topology.kubernetes.io/zone'"]),
        ('pod.labels["', ['pod.labels["tier"']),
        ('node.free["', ['node.free["cpu"', 'node.free["memory"', 'node.free["pods"']),
        ('node.labels["capacity"] == "', ['node.labels["capacity"] == "spot"']),
        ('node.zone in ["a", "', [f'node.zone in ["a", "{zone}"' for zone in "abc"]),
        ('pod.namespace != "', ['pod.namespace != "far"', 'pod.namespace != "shop"']),
        (
            'filter "f" { require node.name == "n-4',
            ['filter "f" { require node.name == "n-4"'],
        ),
        ('limit "l" { pods where peer.labels["', ['limit "l" { pods where peer.labels["tier"']),
        ('node.free["memory"', ['node.free["memory"]']),
        ('node.zone in ["a"', ['node.zone in ["a"]']),
        ('node.zone == "a"', []),
        ('node.free["memory"]', []),
        ('"', []),
        ('1 + "', []),
        ('nowhere["', []),
    ],
    ids=lambda text: text if isinstance(text, str) else "",
)
def test_keys_and_values_are_those_of_the_cluster(
    session: ReplSession, text: str, lines: list[str]
) -> None:
    assert sorted(offered(session, text)) == sorted(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('filter "f" { ', ["detail", "message", "missing", "require"]),
        ('limit "l" { at ', ["least", "most"]),
        (
            'limit "l" { per ',
            ["node", "cluster", "zone", "region", "host", "false", "null", "true"],
        ),
        ("for ", ["pods"]),
        ("for pods ", ["where"]),
        ("mode ", ["enforce", "audit"]),
        ('score "s" weight 1 ', ["when"]),
        ('spread "s" { nodes ', ["eligible", "selected", "all"]),
        ("fil", ["filter"]),
        ("polic", []),
        ("let a = ", None),
        ("let ", []),
        ("weight ", []),
    ],
    ids=lambda text: text if isinstance(text, str) else "",
)
def test_words_are_those_that_the_grammar_accepts(
    session: ReplSession, text: str, words: list[str] | None
) -> None:
    found = [candidate.text for candidate in complete(session, text)]
    if words is None:
        assert {"node", "pod", "now", "true", "has(", "size("} <= set(found)
    else:
        assert found == words


def test_a_range_begins_with_a_word_or_an_expression(session: ReplSession) -> None:
    found = [c.text for c in complete(session, 'score "s" weight 1 { value 1 range ')]
    assert found[:3] == ["minmax", "greatest", "rank"]
    assert {"node", "pod", "size("} <= set(found)


def test_typed_names_are_offered(session: ReplSession, say: Say) -> None:
    say("let spotty = node.ready")
    say("def spotted(r: string): bool = true")
    assert offered(session, "spot") == ["spotty", "spotted("]
    assert offered(session, ":drop ") == [":drop spotted", ":drop spotty"]
    assert 'use "library/spot-ceiling"' in offered(session, 'use "library/sp')


def test_an_empty_line_offers_names_and_clauses(session: ReplSession) -> None:
    found = offered(session, "")
    assert {"node", "filter", "let"} <= set(found)
    assert {"policy", "test"}.isdisjoint(found)


def test_without_a_cluster_the_schema_is_still_there(session: ReplSession) -> None:
    session.cluster = None
    assert offered(session, "node.lab") == ["node.labels"]
    assert offered(session, 'node.labels["') == []
    assert offered(session, ":node ") == []


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("def f(c: Contai", ["Container", "ContainerImage", "ContainerPort"]),
        ("def f(c: li", ["list("]),
        ('use "library/spot-ceiling" (per', ["percent: "]),
        ('use "library/spot-ceiling" (', ["percent: ", "label: ", "spot: "]),
        ('use "library/spot-ceiling" (percent: 60, ', ["label: ", "spot: "]),
        ('use "library/nothing" (', []),
    ],
)
def test_types_and_parameters(session: ReplSession, text: str, first: list[str]) -> None:
    found = [candidate.text for candidate in complete(session, text)]
    assert [text for text in found if text in first] == first
    assert found or not first
