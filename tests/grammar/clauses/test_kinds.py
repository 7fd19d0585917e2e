"""The table of kinds of clauses: what is true of each of them, and of their parts."""

import pytest

from grammar.checker.policy_checker import check_policy
from grammar.clauses import CLAUSE_WORDS, CLAUSES_ARE, KINDS, PARTS
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
