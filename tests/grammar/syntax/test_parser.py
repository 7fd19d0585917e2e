"""Text to tree, and what is said of texts that are not one."""

from __future__ import annotations

import time

import pytest

from grammar.clauses.filter import Filter
from grammar.clauses.limit import Limit
from grammar.clauses.score import Score
from grammar.clauses.share import Share
from grammar.clauses.spread import Spread
from grammar.syntax.parser import (
    MAX_DEPTH,
    MAX_TOKENS,
    accepts,
    parse_expression,
    parse_file,
    parse_rules,
)
from grammar.tree.ast import Binary, Call, Chain, Comprehension, Has, Ident, Literal, Unary
from grammar.tree.clause_parts import Bound
from grammar.tree.source import Source
from grammar.tree.types import INT
from policies.hints import with_hints


def expression(text: str) -> object:
    expr, found = parse_expression(Source("test", text))
    assert not found, found
    return expr


def mistakes(text: str) -> list[tuple[str, str, str | None]]:
    source = Source("test", text)
    _, found = with_hints(lambda: parse_file(source))
    return [(d.code, source.slice(d.span), d.hint) for d in found]


def test_chains_are_flat_and_minus_is_not() -> None:
    """A long chain is one node, not a deep tree."""
    assert expression("a + b - c + d") == Chain(
        "+",
        (Binary("-", Chain("+", (Ident("a"), Ident("b"))), Ident("c")), Ident("d")),
    )
    chain = expression(" && ".join(["a"] * 5_000))
    assert isinstance(chain, Chain)
    assert len(chain.operands) == 5_000


def test_the_least_int_can_be_written_and_its_negation_cannot_be_folded() -> None:
    """A minus is part of the number after it (CEL langdef, Syntax)."""
    assert expression("-9223372036854775808") == Literal(-(2**63), INT)
    assert expression("-(-9223372036854775808)") == Unary("-", Literal(-(2**63), INT))


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "12u", 'b"x"', "as", "a.exists(1, true)", "has(1)"]
)
def test_what_is_no_expression_gets_one_diagnostic(text: str) -> None:
    """Each of these is refused with a code of its own, never with a traceback."""
    expr, found = parse_expression(Source("test", text))
    assert expr is None
    assert len(found) == 1


def test_macros_are_told_by_name_and_number_of_arguments() -> None:
    """`exists` with one argument is an ordinary, unknown method."""
    assert isinstance(expression("a.exists(x, x)"), Comprehension)
    assert isinstance(expression("a.exists(x)"), Call)
    assert isinstance(expression('has(a["b/c"])'), Has)


def test_clause_words_are_names_inside_expressions() -> None:
    """Soft keywords."""
    file, found = parse_file(
        Source(
            "t",
            'cluster policy p { filter "a" {'
            " require weight > 3 && missing == message require node.range } }",
        ),
    )
    assert not found
    assert len(file.policies[0].clauses) == 1


def test_every_clause_parses() -> None:
    """The example of the language reference's clause table, one of each."""
    items, found = parse_rules(
        Source(
            "t",
            """
            description "d" weight 200 mode audit missing pass use "library/x"
            for pods where true
            let a = 1
            def f(x: int, y: list(string)): map(string, int) = {}
            filter "f" when true { require true require false message "m {pod.name} {{}}" detail "d"
            missing pass } score "s" weight -10 when true { value 1 range "0Gi" .. "64Gi" missing 3
            } share "h" { of replicas on nodes where true exactly 3 strict } share "i" { of placed
            pods where true on nodes where true at least 12.5% rounding down weight 3 }
            spread "p" { all pods where true over node.zone at least 3 skew at most 2 strict }
            limit "l" { pods where true per zone at most 1 strict missing fail }
            preempt "e" { protect pods where true require true pick 1 least size(victims) }
            bind "b" { require true }
            """,
        ),
    )
    assert not found
    kinds = [type(i) for i in items[-8:]]
    assert kinds[:6] == [Filter, Score, Share, Share, Spread, Limit]
    share = items[-5]
    assert isinstance(share, Share)
    assert share.bound == Bound("at least", 12.5, percent=True, rounding="down")


def test_one_run_reports_every_item() -> None:
    """After a mistake the rest of the policy is still read."""
    found = mistakes(
        """policy a {
  filter "x" { require node.name = "b" }
  filter "y" { requir true }
  let a = 1 and 2
  share "q" { of replicas at moost 40% }
  let u = 12u
  filter "z" { message "x" message "y" }
  filter "w" { message "{" require true }
}
polcy b { }
""",
    )
    assert [(code, text) for code, text, _ in found] == [
        ("P0001", "="),
        ("P0001", "requir"),
        ("P0001", "and"),
        ("P0001", "moost"),
        ("P0005", "12u"),
        ("P0201", 'message "y"'),
        ("P0012", "{"),
        ("P0001", "polcy"),
    ]
    assert found[0][2] == "write `==`"
    assert found[1][2] == "did you mean `require`?"
    assert found[3][2] == "did you mean `most`?"


def test_the_good_policies_of_a_file_with_a_mistake_are_still_there() -> None:
    """Only the item that is wrong is left out."""
    file, found = parse_file(
        Source("t", "cluster policy a { let x = }\ncluster policy b { let y = 1 }")
    )
    assert len(found) == 1
    assert [p.name for p in file.policies] == ["a", "b"]


def test_no_policy_begins_in_a_long_string() -> None:
    """What a string says is no item of the text, so a mistake before it costs one item only."""
    text = 'policy a { let x = 1 + + 2\nlet y = """\npolicy c {\n""" }\npolicy b { let z = 1 }'
    file, found = parse_file(Source("t", text))
    assert [each.span.start for each in found] == [text.index("+ 2")]
    assert [p.name for p in file.policies] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "(" * 5_000 + ")" * 5_000,
        "x " * (MAX_TOKENS + 1),
        "a" * 70_000,
        '"' * 60_000,
        "'''" * 20_000,
        "\\" * 60_000,
        '"' + '\\"' * 30_000,
        "'\\" * 30_000,
        '"""' + "'\\" * 30_000,
    ],
)
def test_hostile_texts_are_refused_by_a_scan(text: str) -> None:
    """Refused within a second of processor time."""
    before = time.process_time()
    expr, found = parse_expression(Source("t", text))
    assert expr is None
    assert found
    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    "text", ["!" * 5_000 + "a", "-" * 5_000 + "a", "a" + ".b" * 5_000, "a?b:" * 3_000 + "c"]
)
def test_depth_without_brackets_is_bounded_too(text: str) -> None:
    """Chains that nest without brackets cannot overflow a stack."""
    expr, found = parse_expression(Source("t", text))
    assert expr is None
    assert [d.code for d in found] == ["P0011"]


def test_depth_up_to_the_limit_is_fine() -> None:
    """The limit itself is allowed."""
    assert expression("(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1)) == Ident("a")


def test_accepts_tells_what_may_come_next() -> None:
    """What completion and the REPL's `needs more` rest on."""
    assert accepts('cluster policy p { filter "f" {') >= {"REQUIRE", "MESSAGE", "DETAIL", "MISSING"}
    assert "$END" not in accepts("node.free[", start="expression")
    assert "$END" in accepts("node.free", start="expression")


def test_spans_point_into_the_text() -> None:
    """Holes of a message have the offsets they stand at."""
    text = 'cluster policy p { filter "f" { require true message "on {pod.name}" } }'
    file, _ = parse_file(Source("t", text))
    clause = file.policies[0].clauses[0]
    assert isinstance(clause, Filter)
    assert clause.message is not None
    hole = clause.message.parts[1]
    assert not isinstance(hole, str)
    assert text[hole.span.start : hole.span.end] == "pod.name"


def test_scores_of_no_weight_and_shares_over_everything_are_mistakes() -> None:
    """Numbers that mean nothing are refused where they stand."""
    found = mistakes(
        'cluster policy p { score "s" weight 0 { value 1 }\n'
        ' share "x" { of replicas on nodes where true at most 140% strict } }'
    )
    assert [code for code, _, _ in found] == ["P0204", "P0204"]


def test_limit_and_spread_need_their_parts() -> None:
    """A part that is lacking is named."""
    found = mistakes('cluster policy p {\n limit "l" { strict }\n spread "s" { skew at most 1 } }')
    assert [code for code, _, _ in found] == ["P0202", "P0202"]


def test_types_of_clauses() -> None:
    """The classes the parser makes are the ones the checker matches on."""
    items, _ = parse_rules(
        Source("t", 'score "s" weight 2.5 { value 1 } limit "l" { per node at most 1 strict }')
    )
    score, limit = items
    assert isinstance(score, Score)
    assert score.weight == 2.5
    assert isinstance(limit, Limit)
    assert limit.per.place == "node"
