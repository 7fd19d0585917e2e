"""Admission: the findings for an object before it is stored, alone and beside stored ones."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.admission import Examiner, changes_spec, check_new, check_object, lines
from policies.validation import Validation, Validator
from tests.support.builders import Object, on_wanted, placement_policy, raw

SCHEMA = load_schema()
GOOD = on_wanted(3)
OTHER = 'policy other in namespace "default" { filter "a" { require node.ready } }'


def key(value: Object) -> str:
    return f"placementpolicies/default/{value['metadata']['name']}"


def known(*texts: str, objects: tuple[Object, ...] = ()) -> Validation:
    """What a server knows that has these files and objects."""
    sources = [Source(f"{number}.policy", text) for number, text in enumerate(texts)]
    checked = [check_object(key(each), raw(each), SCHEMA).file for each in objects]
    return Validator(SCHEMA).validate(sources, checked)


def rules(text: str, name: str = "web") -> Object:
    return placement_policy({"podSelector": {}, "rules": text}, name)


class Findings(NamedTuple):
    """The lines of an admission response."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def found(value: Object, beside: Validation | None = None) -> Findings:
    there = beside or Validation(())
    file = check_new(key(value), raw(value), b"", SCHEMA)
    assert file is not None
    file = Examiner(SCHEMA, lambda: there).examine(file)
    return Findings(lines(file, "error"), lines(file, "warning"))


USES_OTHER = rules('use "other"\nfilter "b" { require node.ready }')


def test_a_policy_that_is_used_may_come_later() -> None:
    assert found(USES_OTHER).errors == ()
    (warning,) = found(USES_OTHER).warnings
    assert warning == (
        "rules:1:1 warning[P0117]: unknown policy `other`"
        " (this policy is not enforced until that policy exists)"
    )


def test_a_mistake_has_its_hint_as_in_a_file() -> None:
    (error,) = found(rules('filter "x" { require node.zone = "a" }')).errors
    assert error == "rules:1:32 error[P0001]: `=` is not allowed here (write `==`)"


def test_no_name_is_given_away() -> None:
    """Whoever applies an object need not know what policies others have."""
    (warning,) = found(rules('use "othe"'), known(OTHER)).warnings
    assert "`other`" not in warning


def test_a_policy_that_is_used_may_be_mended_later() -> None:
    (warning,) = found(USES_OTHER, known(OTHER.replace("ready", "redy"))).warnings
    assert warning.startswith(
        "rules:1:1 warning[P0118]: policy `other` has errors (this policy is not enforced"
    )


@pytest.mark.parametrize("value", [USES_OTHER, rules('use "library/headroom"')])
def test_a_policy_that_is_used_is_known(value: Object) -> None:
    assert found(value, known(OTHER)) == Findings()


def test_an_object_can_be_used_too() -> None:
    other = rules('filter "a" { require node.ready }', "other")
    assert found(USES_OTHER, known(objects=(other,))) == Findings()


def test_what_is_used_must_fit_in() -> None:
    value = rules('use "other"\nfilter "a" { require node.ready }')
    (error,) = found(value, known(OTHER)).errors
    assert error.startswith("rules:1:1 error[P0205]: the clause `a` is defined twice")


def test_policies_cannot_use_each_other() -> None:
    """The first of them was only warned about."""
    there = known(objects=(rules('use "web"', "first"), placement_policy(GOOD)))
    (error,) = found(rules('use "first"'), there).errors
    assert error.startswith(
        "rules:1:1 error[P0110]: the definition is circular: `default/web` → `default/first` → "
    )


def test_a_file_with_the_name_is_warned_about() -> None:
    """It may be about to go: the policy moves from the file to the cluster."""
    value = placement_policy(GOOD, "other")
    (warning,) = found(value, known(OTHER)).warnings
    assert warning == (
        "metadata.name warning[P0205]: a policy file also defines `default/other`"
        " and takes precedence"
        " (this object is not enforced until the file no longer defines it)"
    )
    assert found(value, known(objects=(value,))) == Findings()


WEB = raw(placement_policy(GOOD))


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        (WEB, False),
        (raw(dict(reversed(placement_policy(GOOD, "renamed").items()))), False),
        (raw(placement_policy(GOOD | {"weight": 200})), True),
        (b"", True),
        (b"{", True),
        (b"[]", True),
        (b"{}", True),
    ],
)
def test_whether_the_spec_is_another(old: bytes, changes: bool) -> None:
    assert changes_spec(WEB, old) is changes


def test_what_cannot_be_read_is_another() -> None:
    assert changes_spec(b"{", b"{")


@pytest.mark.parametrize(
    "text",
    [
        'filter "e" { require pod.spec.containers[0].env[0].value == "a" }',
        'limit "l" { all pods where "a" in peer.annotations per node at most 1 strict }',
    ],
)
def test_a_policy_object_reads_what_its_namespace_may(text: str) -> None:
    value = rules(text)
    found = check_object(key(value), raw(value), SCHEMA).file
    (error,) = lines(found, "error")
    assert error.startswith("rules:1:")
    assert "P0120" in error
