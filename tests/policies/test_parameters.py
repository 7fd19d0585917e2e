"""Parameters: who sets them, in files and on objects, and what is said about a mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.clauses.programs import compile_policy
from engine.program.program import ScoreProgram
from grammar.checker.policy_checker import Checked
from grammar.clauses.share import Share
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.admission import check_object, check_stored, lines
from policies.validation import CheckedFile, Validation, Validator
from tests.support.engines import SCHEMA

GROUP = "placement-policy.scheduling.x-k8s.io"
CEILING = """
policy ceiling (percent: int = 40, label: string = "pool", weight: int = 5) {
  for pods where false
  share "ceiling" {
    of replicas
    on nodes where node.labels[label] == "spot"
    at most percent%
    strict
    message "{percent}% of {label}"
  }
  score "away" weight weight { value node.labels[?label] != optional.of("spot") }
}
policy floor (least: int, of: list(string) = ["a"]) {
  for pods where false
  limit "floor" { pods where peer.labels["app"] in of per node at least least strict }
}
"""
USER = 'policy web in namespace "shop" { %s }'


def manifest(parameters: object, rules: str, kind: str = "PlacementPolicy") -> dict[str, object]:
    metadata = {"name": "web", "namespace": "shop"}
    spec = {"podSelector": {}, "rules": rules, "parameters": parameters}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def of_file(use: str) -> Validation:
    sources = [Source("base.policy", CEILING), Source("web.policy", USER % use)]
    return Validator(SCHEMA).validate(sources)


def of_object(parameters: object, rules: str) -> Validation:
    raw = json.dumps(manifest(parameters, rules)).encode()
    checked = check_object("shop/web", raw, SCHEMA)
    return Validator(SCHEMA).validate([Source("base.policy", CEILING)], [checked.file])


def of_yaml(parameters: object, rules: str) -> Validation:
    text = json.dumps(manifest(parameters, rules))
    sources = [Source("base.policy", CEILING), Source("web.yaml", text)]
    return Validator(SCHEMA).validate(sources)


def web(validation: Validation) -> Checked:
    """The policy without errors."""
    (found,) = (c for c in validation.policies if c.policy.name == "web")
    assert [d for d in found.diagnostics if d.severity == "error"] == []
    return found


def shares(checked: Checked) -> Iterator[tuple[float | None, str]]:
    """The bound and the message of each share of a compiled policy."""
    written = {
        clause.name: clause
        for part in checked.uses
        for clause in part.policy.clauses
        if isinstance(clause, Share)
    }
    for program in compile_policy(checked).counts:
        message = written[program.count.name].message
        assert message is not None
        parts = (p if isinstance(p, str) else str(getattr(p, "value", p)) for p in message.parts)
        yield program.bound.amount, "".join(parts)


def errors(validation: Validation) -> list[tuple[str, str, str]]:
    """Code, message and hint of the errors."""
    return [
        (d.code, d.message, d.hint or "") for d, _ in validation.findings() if d.severity == "error"
    ]


# ---- who sets a parameter


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ('use "ceiling"', (40, "40% of pool")),
        ('use "ceiling" ()', None),
        ('use "ceiling" (percent: 60)', (60, "60% of pool")),
        ('use "ceiling" (percent: 60, label: "zone",)', (60, "60% of zone")),
    ],
)
def test_a_use_sets_parameters(use: str, expected: tuple[float, str] | None) -> None:
    """And a bound is a constant for the compiler."""
    validation = of_file(use)
    if expected is None:
        assert [code for code, _, _ in errors(validation)] == ["P0001"]
    else:
        assert list(shares(web(validation))) == [expected]


@pytest.mark.parametrize("read", [of_object, of_yaml])
@pytest.mark.parametrize(
    ("parameters", "use", "expected"),
    [
        (None, 'use "ceiling"', (40, "40% of pool")),
        ({"percent": 60}, 'use "ceiling"', (60, "60% of pool")),
        ({"percent": 60}, 'use "ceiling" (percent: 20)', (20, "20% of pool")),
        ({"percent": 60, "label": "x"}, 'use "ceiling" (percent: 20)', (20, "20% of x")),
    ],
)
def test_an_object_sets_what_its_uses_leave_open(
    read: object, parameters: object, use: str, expected: tuple[float, str]
) -> None:
    """The value in a `use` comes before that of the object, and both before the default."""
    assert callable(read)
    assert list(shares(web(read(parameters, use)))) == [expected]


def test_each_use_has_its_own_values() -> None:
    text = CEILING + (
        'policy a in namespace "shop" { use "ceiling" (percent: 10) }'
        'policy b in namespace "shop" { use "ceiling" (percent: 20) }'
        'policy c in namespace "shop" { use "ceiling" }'
    )
    validation = Validator(SCHEMA).validate([Source("p.policy", text)])
    found = {c.policy.name: list(shares(c)) for c in validation.policies if c.uses}
    assert {name: its[0][0] for name, its in found.items()} == {"a": 10, "b": 20, "c": 40}


def test_a_policy_passes_its_parameters_on() -> None:
    text = CEILING + (
        "policy middle (part: int = 30) { for pods where false"
        ' use "ceiling" (percent: part, weight: -part) }'
        'policy web in namespace "shop" { use "middle" (part: 70) }'
    )
    checked = web(Validator(SCHEMA).validate([Source("p.policy", text)]))
    assert list(shares(checked)) == [(70, "70% of pool")]
    assert [score.weight for score in compile_policy(checked).of(ScoreProgram)] == [-70]


def test_values_of_an_object_are_not_passed_on() -> None:
    """They are for the policies that its own rules use."""
    sources = [Source("middle.policy", 'policy middle { for pods where false use "ceiling" }')]
    raw = json.dumps(manifest({"percent": 60}, 'use "middle"')).encode()
    checked = check_object("shop/web", raw, SCHEMA)
    sources.append(Source("base.policy", CEILING))
    (error,) = errors(Validator(SCHEMA).validate(sources, [checked.file]))
    assert error[:2] == ("P0126", "no policy that the rules use has a parameter `percent`")


@pytest.mark.parametrize("read", [of_object, of_yaml])
def test_each_type_of_json_sets_a_parameter(read: object) -> None:
    assert callable(read)
    validation = read({"least": 2, "of": ["web", 'a"b\n']}, 'use "floor"')
    (program,) = compile_policy(web(validation)).counts
    assert program.bound.amount == 2


def test_numbers_of_parameters_are_constants_for_the_compiler() -> None:
    text = """policy web in namespace "shop" (n: int = 2, w: double = 3, top: quantity = "2Gi") {
      limit "l" { per node at most n strict }
      spread "s" { over node.zone at least n skew at most n weight w }
      score "x" weight w { value node.free["memory"] range "1Gi" .. top }
    }"""
    program = compile_policy(web(Validator(SCHEMA).validate([Source("p.policy", text)])))
    (spread, limit), (score,) = program.counts, program.of(ScoreProgram)
    assert (limit.bound.amount, limit.count.number) == (2, None)
    assert (spread.bound.amount, spread.min_domains, spread.count.number) == (2, 2, None)
    assert (spread.count.weight, score.weight) == (3.0, 3.0)
    assert score.range == (2.0**30, 2.0**31)


# ---- mistakes

MISTAKES = {
    "similar": (
        "percnt: 60",
        (
            "P0126",
            "policy `ceiling` has no parameter `percnt`",
            "a similar name exists: `percent`",
        ),
    ),
    "unknown": (
        "colour: 60",
        (
            "P0126",
            "policy `ceiling` has no parameter `colour`",
            "it has `percent`, `label` and `weight`",
        ),
    ),
    "type": (
        'percent: "60"',
        ("P0128", "`percent` must be an int, not a string", "write an int, such as `40`"),
    ),
    "double": (
        "percent: 60.5",
        ("P0128", "`percent` must be an int, not a double", "write an int, such as `40`"),
    ),
    "text": (
        "label: 60",
        ("P0128", "`label` must be a string, not an int", 'write a string, such as `"pool"`'),
    ),
    "twice": (
        "percent: 60, percent: 50",
        ("P0201", "`percent` is given twice in the `use`", "keep one of them"),
    ),
    "computed": (
        "percent: 30 + 30",
        (
            "P0212",
            "the value of `percent` is not a constant",
            "write a number, a text, `true` or `false`, a list or map of them, or a parameter",
        ),
    ),
    "number": (
        "percent: 160",
        (
            "P0213",
            "policy `ceiling` does not accept these values: `160%` is not a percentage of pods",
            "write a number from 0 to 100",
        ),
    ),
    "weight": (
        "weight: 0",
        (
            "P0213",
            "policy `ceiling` does not accept these values: `0` is not a weight",
            "write a number other than 0",
        ),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_use_is_one_error(name: str) -> None:
    """At the `use`, in a file and in the rules of an object."""
    arguments, expected = MISTAKES[name]
    use = f'use "ceiling" ({arguments})'
    assert errors(of_file(use)) == [expected]
    assert errors(of_object(None, use)) == [expected]


@pytest.mark.parametrize("read", [of_object, of_yaml])
@pytest.mark.parametrize(
    ("parameters", "use", "expected"),
    [
        (
            {"percnt": 60},
            'use "ceiling"',
            (
                "P0126",
                "no policy that the rules use has a parameter `percnt`",
                "they have `label`, `percent` and `weight`",
            ),
        ),
        (
            {"percent": 60},
            'filter "f" { require node.ready }',
            (
                "P0126",
                "no policy that the rules use has a parameter `percent`",
                "remove it, or `use` a policy that has it",
            ),
        ),
        (
            {"of": ["a"]},
            'use "floor"',
            (
                "P0127",
                "policy `floor` needs a value for `least`",
                "set it in the `use`, as in `(least: 1)`",
            ),
        ),
        (
            {"percent": "60"},
            'use "ceiling"',
            ("P0128", "`percent` must be an int, not a string", "write an int, such as `40`"),
        ),
        (
            {"percent": 160},
            'use "ceiling"',
            (
                "P0213",
                "policy `ceiling` does not accept these values: `160%` is not a percentage of pods",
                "write a number from 0 to 100",
            ),
        ),
        (
            {"percent": {"a": 1}},
            'use "ceiling"',
            (
                "P0503",
                (
                    "spec.parameters[...]: is an object,"
                    " not a bool, a whole number, a number, a string or a list"
                ),
                "",
            ),
        ),
    ],
    ids=["unknown", "no use", "missing", "type", "number", "object"],
)
def test_a_mistake_on_an_object_is_one_error(
    read: object, parameters: object, use: str, expected: tuple[str, str, str]
) -> None:
    assert callable(read)
    assert errors(read(parameters, use)) == [expected]


def test_a_parameter_that_is_given_twice_on_an_object() -> None:
    text = json.dumps(manifest({"percent": 60}, 'use "ceiling"'))
    text = text.replace('"percent": 60', '"percent": 60, "percent": 50')
    sources = [Source("base.policy", CEILING), Source("web.yaml", text)]
    found = errors(Validator(SCHEMA).validate(sources))
    assert found == [("P0503", "spec.parameters.percent: is given twice", "keep one")]
    items = f'{{"kind": "List", "items": [{json.dumps(manifest(None, ""))}, {text}]}}'
    found = errors(
        Validator(SCHEMA).validate([Source("base.policy", CEILING), Source("w.json", items)])
    )
    assert found.count(("P0503", "spec.parameters.percent: is given twice", "keep one")) == 1


def test_a_missing_parameter_is_named_at_the_use() -> None:
    assert errors(of_file('use "floor"')) == [
        (
            "P0127",
            "policy `floor` needs a value for `least`",
            "set it in the `use`, as in `(least: 1)`",
        )
    ]
    assert errors(of_file('use "floor" (least: 1)')) == []


def test_nothing_is_said_of_values_for_a_policy_that_is_unknown() -> None:
    found = errors(of_object({"percent": 60}, 'use "cieling"'))
    assert [code for code, _, _ in found] == ["P0117"]


# ---- objects with errors


def test_the_status_keeps_the_values_of_the_last_good_version() -> None:
    rules = 'use "ceiling"'
    good = {"generation": 1, "rules": rules, "parameters": {"percent": 30}}
    value = manifest({"percent": 60}, "filter") | {"status": {"inForce": good}}
    stored = check_stored("shop/web", json.dumps(value).encode(), SCHEMA)
    (remembered,) = stored.remembered
    base = Source("base.policy", CEILING)
    file = CheckedFile(Source("shop/web", rules), True, (remembered,), (), ())
    checked = web(Validator(load_schema()).validate([base], [file]))
    assert list(shares(checked)) == [(30, "30% of pool")]


def test_the_line_of_an_object_names_its_field() -> None:
    (_, file) = of_object({"percnt": 60}, 'use "ceiling"').files
    assert lines(file, "error") == (
        (
            "spec.parameters error[P0126]: no policy that the rules use has a parameter `percnt`"
            " (they have `label`, `percent` and `weight`)"
        ),
    )


def test_an_unchanged_policy_is_filled_once() -> None:
    """Objects change often, and each change looks at every `use` again."""
    validator = Validator(SCHEMA)
    sources = [
        Source("base.policy", CEILING),
        Source("a.policy", 'policy a in namespace "a" { use "ceiling" (percent: 10) }'),
        Source("b.policy", 'policy b in namespace "b" { use "ceiling" (percent: 10) }'),
        Source("c.policy", 'policy c in namespace "c" { use "library/young-nodes" (after: "1m") }'),
    ]

    def used() -> list[Checked]:
        return [use for c in validator.validate(sources).policies for use in c.uses]

    first = used()
    assert len(first) == 3
    assert first[0] is first[1]
    assert all(one is other for one, other in zip(first, used(), strict=True))
    sources[0] = Source("base.policy", CEILING + "\n")
    assert used()[0] is not first[0]
