"""Files to checked policies: every mistake of every file, and the names that are taken twice."""

import pytest

from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.validation import Validation, Validator

FILTER = 'filter "ready" { require node.ready }'
GOOD = f"cluster policy a {{ {FILTER} }}\n"


def validate(schema: Schema, *texts: str) -> Validation:
    sources = [Source(f"{number}.policy", text) for number, text in enumerate(texts)]
    return Validator(schema).validate(sources)


def codes(validation: Validation) -> list[tuple[str, str]]:
    return [(source.name, d.code) for d, source in validation.findings()]


def test_good_files_have_no_findings(schema: Schema) -> None:
    validation = validate(schema, GOOD, "# nothing\n")
    assert codes(validation) == []
    assert [checked.policy.name for checked in validation.policies] == ["a"]
    assert all(file.whole for file in validation.files)


def test_every_mistake_of_every_file_is_found(schema: Schema) -> None:
    """Types in one file, syntax in the next, both in the order of the text."""
    types = 'cluster policy a { filter "x" { require node.redy } filter "y" { require 1 } }'
    syntax = 'cluster policy b { filter "x" { require ) } }\n'
    syntax += 'cluster policy c { filter "y" { require no } }'
    found = codes(validate(schema, types, syntax))
    assert [name for name, _ in found] == ["0.policy", "0.policy", "1.policy", "1.policy"]
    assert found[2:] == [("1.policy", "P0001"), ("1.policy", "P0101")]


def test_file_with_a_mistake_of_syntax_is_not_whole(schema: Schema) -> None:
    """Its other policies are checked, but nobody knows what is lost."""
    validation = validate(schema, GOOD + "policy b {\n", GOOD.replace(" a ", " c "))
    assert [file.whole for file in validation.files] == [False, True]


def test_definition_that_could_not_be_read_is_not_missed(schema: Schema) -> None:
    """One error for one cause: not another one for each use of the name."""
    text = """
policy a {
  for pods where pod.namespace = "shop"
  let spot = node.labels["spot"] = "yes"
  filter "x" { require spot && unknown }
}
"""
    found = codes(validate(schema, text))
    assert found == [("0.policy", "P0001"), ("0.policy", "P0001"), ("0.policy", "P0101")]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("policy a in namespace 'x' {}", "policy a in namespace 'x' {}", True),
        ("policy a in namespace 'x' {}", "policy a in namespace 'y' {}", False),
        ("cluster policy a {}", "cluster policy a {}", True),
        ("policy a in namespace 'x' {}", "cluster policy a {}", False),
        ("policy a { for pods where true }", "policy a { for pods where true }", True),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_names_are_taken_once(
    schema: Schema, first: str, second: str, same: bool, apart: bool
) -> None:
    """By kind, namespace and name; in one file as in two. The second one is at fault."""
    texts = (first, second) if apart else (f"{first}\n{second}",)
    validation = validate(schema, *texts)
    duplicates = [(d, s) for d, s in validation.findings() if d.code == "P0205"]
    assert len(duplicates) == same
    assert [checked.broken for checked in validation.policies] == [False, same]
    if same:
        diagnostic, source = duplicates[0]
        assert source.name == ("1.policy" if apart else "0.policy")
        assert diagnostic.notes[0].startswith("the first one is at 0.policy:1:")


def test_unchanged_files_are_not_checked_again(schema: Schema) -> None:
    """What they say together is."""
    validator = Validator(schema)
    one, other = Source("1.policy", GOOD), Source("2.policy", GOOD)
    before = validator.validate([one])
    after = validator.validate([one, other])
    assert after.files[0].policies[0] is before.files[0].policies[0]
    assert [checked.broken for checked in after.policies] == [False, True]
    assert not validator.validate([other]).policies[0].broken


def test_policies_without_errors_are_looked_at_further(schema: Schema) -> None:
    """For what is allowed and hardly meant; not where a part of the text is missing."""
    odd = 'cluster policy a { let b = 1 filter "x" { require node.ready } }\n'
    validation = validate(schema, odd)
    assert len(codes(validation)) == 1
    assert not validation.policies[0].broken
    assert [code for _, code in codes(validate(schema, odd + "policy {"))] == ["P0001"]


# ---- test files and policies for use


def test_what_a_test_file_has_is_its_own(schema: Schema) -> None:
    """Its policies are checked; they decide nothing, lend nothing, and take no names."""
    texts = {
        "a.policy": GOOD,
        "b_test.policy": GOOD + "cluster policy b { filter 'x' { require node.redy } }",
        "c_test.policy": GOOD,
        "d.policy": 'cluster policy d { use "b" }',
    }
    validation = Validator(schema).validate([Source(n, t) for n, t in texts.items()])
    assert codes(validation) == [("b_test.policy", "P0102"), ("d.policy", "P0117")]
    assert [checked.policy.name for checked in validation.policies] == ["a", "d"]


def test_test_file_may_use_what_others_have(schema: Schema) -> None:
    texts = {"a.policy": GOOD, "a_test.policy": 'policy t in namespace "n" { use "a" }'}
    validation = Validator(schema).validate([Source(n, t) for n, t in texts.items()])
    assert codes(validation) == []


@pytest.mark.parametrize(
    ("condition", "code"), [("false", []), ("true", []), ("1 > 2", ["P0302"]), ("!true", ["P0302"])]
)
def test_policy_that_is_for_use_says_so(schema: Schema, condition: str, code: list[str]) -> None:
    """In so many words: what only comes to the same may be a mistake."""
    found = codes(validate(schema, f"policy a {{ for pods where {condition} {FILTER} }}"))
    assert [c for _, c in found] == code
