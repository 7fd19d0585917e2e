"""The table of kinds of clauses: what is true of each of them, and of their parts."""

import pytest

from grammar.checker.policy_checker import check_policy
from grammar.clauses import CLAUSE_WORDS, CLAUSES_ARE, KINDS, PARTS, SHAPES, SHAPES_OF_SOURCES
from grammar.meaning.schema import load_schema
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import keywords, parse_file
from grammar.tree.source import Source


@pytest.mark.parametrize("word", KINDS)
def test_the_shape_of_a_kind_is_read_checked_and_printed(word: str) -> None:
    shape = KINDS[word].shape
    source = Source("p.policy", f"cluster policy p {{\n  for pods where true\n  {shape}\n}}\n")
    file, wrong = parse_file(source)
    assert wrong == []
    (policy,) = file.policies
    (clause,) = policy.clauses
    assert clause.keyword == word
    assert [
        d for d in check_policy(policy, load_schema()).diagnostics if d.severity == "error"
    ] == []
    assert format_file(file, source) == source.text


ALL_SHAPES = {**SHAPES, **SHAPES_OF_SOURCES}


@pytest.mark.parametrize("word", ALL_SHAPES)
def test_a_shape_is_read_as_it_stands(word: str) -> None:
    shape = ALL_SHAPES[word].replace("…", "watts: double" if word != "objects" else "n = count")
    assert word in shape.split()
    policy = "cluster policy p {{ for pods where true\n{} }}\n{}"
    text = policy.format("", shape) if word == "test" else policy.format(shape, "")
    file, wrong = parse_file(Source("p.policy", text))
    assert wrong == []
    found = check_policy(file.policies[0], load_schema()).diagnostics
    # There is no other policy that this one could `use`.
    assert [d for d in found if d.severity == "error" and word != "use"] == []


@pytest.mark.parametrize(
    ("item", "hint"),
    [
        ('group "rack" { node.zone }', "a name, as in `group rack by node.zone`"),
        ('group "our racks"', "a name, as in `group our_racks by node.zone`"),
        ("group 7", "a name, as in `group x by node.zone`"),
        ('let "for" = 3', "a name, as in `let x = node.zone`"),
        ('let "2nd" = 3', "a name, as in `let x = node.zone`"),
        ("let", "a name, as in `let x = node.zone`"),
        (
            "count web { pods where true }",
            "`=` or `per`, as in `count web per node = pods where true`",
        ),
        (
            "repair every 5m",
            '`at`, as in `repair at most 1 per minute within "22:00" .. "06:00"`',
        ),
        ("repair", '`at`, as in `repair at most 1 per minute within "22:00" .. "06:00"`'),
        ("use base", 'a string, as in `use "base"`'),
        ("let zone node.zone", "`=`, as in `let zone = node.zone`"),
        (
            "def f = node.zone",
            "`(`, as in `def f(zone: string): bool = node.zone == zone`",
        ),
        (
            "data load { from metrics }",
            'a string, as in `data "load" { from metrics every 30s for at most 90s }`',
        ),
        (
            'data "load" { columns { a b } from metrics }',
            '`:` or `=`, as in `data "load" { from metrics every 30s for at most 90s }`',
        ),
        (
            'data "load" { from configmap "shop/racks" by "rack" }',
            (
                '`file`, as in `data "load" { from configmap "a/racks" file "racks.csv" by "rack"'
                " columns { … } }`"
            ),
        ),
        (
            "limit one-per-node { per node at most 1 strict }",
            'a string, as in `limit "one-per-node" { per node at most 1 strict }`',
        ),
        (
            'preempt "p" victim.priority < 5',
            '`{` or `when`, as in `preempt "p" { protect pods where victim.priority > 0 }`',
        ),
        ('filter "x" { require node.labels["a" }', "`]`"),
        ('filter "x" { require (node.ready }', "`)`"),
    ],
)
def test_a_mistake_in_an_item_gets_its_form_with_the_own_name(item: str, hint: str) -> None:
    text = f"cluster policy p {{\n  for pods where true\n  {item}\n}}\n"
    said = [each.hint for each in parse_file(Source("p.policy", text))[1]]
    assert f"expected {hint}" in said


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('test "x" { node "n" { } pod 7 }', 'expected a string, as in `test "x" { node "n" pod'),
        ("policy data in namespace 7 {", "expected a string"),
    ],
)
def test_a_mistake_in_a_block_gets_its_form(text: str, hint: str) -> None:
    (found,) = parse_file(Source("p.policy", text))[1]
    assert found.hint is not None
    assert found.hint.startswith(hint)
    assert "data" not in found.hint


def test_kinds_begin_with_keywords() -> None:
    assert set(CLAUSE_WORDS) <= set(keywords().values())
    *named, last = (f"`{word}`" for word in CLAUSE_WORDS)
    assert f"the clauses are {', '.join(named)} and {last}" == CLAUSES_ARE


def test_a_rule_of_the_grammar_is_read_in_one_way() -> None:
    """The parser does not know in which clause it is when it has read a part."""
    for kind in KINDS.values():
        for part in kind.parts:
            one = PARTS[part.rule]
            assert (part.read, part.called, part.names) == (one.read, one.called, one.names)
