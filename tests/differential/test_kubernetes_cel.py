"""Placet and Kubernetes' own CEL agree on random expressions, where docs/kubernetes-cel.md says so.

`make differential-cel EXPRESSIONS=10000 SEED=1` evaluates more; SEED and EXPRESSIONS=1 evaluate one
again.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.meaning.environment import FUNCTIONS, Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.ast import Expr
from grammar.tree.source import Source
from grammar.tree.types import DURATION, Overload
from grammar.values.errors import EvaluationError
from grammar.values.kinds import TypeValue, kind
from grammar.values.maps import key_values
from grammar.values.optional import Optional
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp
from tests.differential.expressions import VARIABLES, Generator
from tests.e2e.process import built_expressions
from tests.support.books import examples

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes-cel.md"
_ROW = re.compile(r"^\| ([^|`]+) \| `((?:[^`|]|\\\|)+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
_SHORT_FORM = re.compile(r"^`(.+)`$")


@dataclass(frozen=True, slots=True)
class Row:
    """A difference: an expression, and its value in both languages; `error` if there is none."""

    name: str
    text: str
    there: str
    here: str


def rows(page: str) -> Iterator[Row]:
    section = page.partition("## Differences")[2].partition("\n## ")[0]
    for name, text, there, here in _ROW.findall(section):
        yield Row(name, text.replace("\\|", "|"), _plain(there), _plain(here))


def _plain(cell: str) -> str:
    match = _SHORT_FORM.match(cell)
    return match[1] if match is not None else cell


@dataclass(frozen=True, slots=True)
class Case:
    """An expression with what became of it."""

    text: str
    there: There
    here: object


def _why(part: str) -> Callable[[Case], bool]:
    """It has no value there, for a reason with this part, and one here."""
    return lambda case: part in f"{case.there.error}{case.there.refused}"


def _calls(*names: str) -> Callable[[Case], bool]:
    return lambda case: any(f"{name}(" in case.text for name in names)


def _lost(case: Case) -> bool:
    if "unsupported conversion to ref.Val" in f"{case.there.error}{case.there.value}":
        return True
    types = str(case.there.value).replace("'string'", "'type'")
    return "'type'" in str(case.here) and types == str(There(_listed(case.here)).value)


def _listed(form: object) -> object:
    """A plain form with lists in place of tuples, as JSON has them."""
    if isinstance(form, tuple | list):
        return [_listed(each) for each in form]
    return form


def _position(case: Case) -> bool:
    return case.here == NO_VALUE and case.there.has_value and _calls("ndexOf")(case)


def _year(case: Case) -> bool:
    return case.here == NO_VALUE and bool(re.search(r'"(?:0001|9999)-', case.text))


def _types(case: Case) -> bool:
    return re.search(r"expected type '(?:\w+\()*type\(", case.there.refused) is not None


_REFUSED = re.compile(r"expected type '.*(?:dyn|int|optional)|no matching overload")


def _unknown(case: Case) -> bool:
    """`[].sum()` is an int there; here its type is not known, and agrees with every one."""
    if not any(part in case.text for part in ("[]", "dyn(", "anything")):
        return False
    return bool(_REFUSED.search(case.there.refused)) or _calls(".sum")(case)


def _mixed(case: Case) -> bool:
    unknown = "anything" in case.text or "dyn(" in case.text
    lacking = case.here == NO_VALUE or not case.there.has_value
    return unknown and lacking and _calls("min", "max", "isSorted", "sortBy", "sort")(case)


def _amounts(case: Case) -> bool:
    """Behind `flatten`, whose items have no known type, it shows only when it runs."""
    refused = re.search(r"must be comparable|no such overload: \w+\(list\)", case.there.error)
    return refused is not None and case.here != NO_VALUE


def _least(case: Case) -> bool:
    return "-9223372036854775808" in case.text and _calls("add", "sub")(case)


# A conversion of a constant text.
_CONVERSION = re.compile(r"""\b(?:int|double|bool)\((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\)""")


def _constant(case: Case) -> bool:
    """Kubernetes evaluates constants as it compiles, where they are never read, too."""
    if re.search(r"invalid \w+ argument", case.there.refused):
        return True
    # A conversion that has no value here either, so that this hides no lenient one.
    converted = _CONVERSION.findall(case.text) if "type conversion" in case.there.error else []
    return any(Here({}).evaluate(call) == NO_VALUE for call in converted)


def _notation(case: Case) -> bool:
    return re.search(r'double\("[^"]*[_x]', case.text) is not None


def _seconds(case: Case) -> bool:
    """Kubernetes writes durations as doubles: a long one has fewer digits."""
    return re.search(r"\d{7,}\.\d+s", str(case.here)) is not None


def _offset(case: Case) -> bool:
    return re.search(r'T[\d:]+[+-]\d\d:\d\d"', case.text) is not None and _calls("string")(case)


RULES: Mapping[str, Callable[[Case], bool]] = {
    "formats of numbers": _calls("format"),
    "milliseconds": _calls("getMilliseconds"),
    "whole amounts": _calls("isInteger", "asInteger"),
    "approximate amounts": _calls("asApproximateFloat"),
    "an optional address": _lost,
    "types in a list": _types,
    "items that are not known": _unknown,
    "a position beyond the text": _position,
    "no number": _why("NaN values cannot be ordered"),
    "a leading v": lambda case: re.search(r'emver\("v', case.text) is not None,
    "empty matches": lambda case: re.search(r'findAll\("\w\*"', case.text) is not None,
    "in of an empty list": lambda case: " in [])" in case.text,
    "order of amounts": _amounts,
    "order of different types": _mixed,
    "optMap and types": _why("reference to undefined type"),
    "the least int": _least,
    "Go's numbers": _notation,
    "a long duration as text": _seconds,
    "cost": _why("cost limit exceeded"),
    "a constant that is never read": _constant,
    "a time with an offset": _offset,
    "before the year 1": _year,
}


@dataclass(frozen=True, slots=True)
class There:
    """What becomes of an expression: a value, as a type's name and its content, or why it has none.

    `refused`: it does not compile.
    """

    value: Any = None
    error: str = ""
    refused: str = ""

    @property
    def has_value(self) -> bool:
        return self.value is not None


class KubernetesCel:
    """The running process. `functions` are the names that it knows."""

    def __init__(self, process: subprocess.Popen[str], variables: Mapping[str, str]) -> None:
        self._process = process
        self.functions = frozenset(self._asked(dict(variables)))

    def evaluate(self, text: str) -> There:
        return There(**self._asked(text))

    def _asked(self, question: object) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(question)}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the program ended with {process.wait()}; see above"
        return json.loads(line)


@contextmanager
def running(program: Path, variables: Mapping[str, str]) -> Iterator[KubernetesCel]:
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield KubernetesCel(process, variables)
        finally:
            process.kill()


# What stands for a value where there is none.
NO_VALUE = ("no value",)


class Here:
    """Placet, with variables. An expression is checked, and then evaluated in both ways."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._environment = Environment(variables={}, uniform_literals=True)
        self._values: dict[str, object] = {}
        types = {}
        for name, text in variables.items():
            checked = self._checked(text)
            assert checked is not None
            self._values[name] = evaluate(checked, {}, self._environment)
            types[name] = checked.type
        self._environment = Environment(variables=types, uniform_literals=True)

    def evaluate(self, text: str) -> object:
        """The plain form of the value, or NO_VALUE. Both evaluations agree."""
        checked = self._checked(text)
        if checked is None:
            return NO_VALUE
        compiler = Compiler(self._environment, read=lambda n: lambda _: self._values[n])
        run = compiler.compile(checked)
        plain, compiled = (
            _outcome(way)
            for way in (
                partial(evaluate, checked, self._values, self._environment),
                partial(run, Frame(None, Timestamp.ZERO, slots=compiler.slots)),
            )
        )
        assert same(plain, compiled), f"{text}: {plain} is not {compiled}"
        return plain

    def _checked(self, text: str) -> Expr | None:
        """The typed tree; None if it is refused."""
        expr, _ = parse_expression(Source("expression", text))
        if expr is None:
            return None
        checker = Checker(self._environment)
        checked = checker.check(expr)
        return None if checker.found else checked


def _outcome(way: partial[object]) -> object:
    try:
        return plain_form(way())
    except EvaluationError:
        return NO_VALUE


def plain_form(value: object) -> object:
    """A value as the name of its type and its content, as `There` has it."""
    name = kind(value)
    match value:
        case None | bool():
            return name, value
        case int() | float() | str():
            return name, value
        case Quantity() | Duration() | Timestamp():
            return name, value.nanos
        case Optional():
            return name, plain_form(value.value) if value.present else None
        case Mapping():
            return name, [[plain_form(k), plain_form(v)] for k, v in key_values(value)]
        case list() | tuple():
            return name, [plain_form(each) for each in value]
        case TypeValue():
            return name, value.name
        case _:
            return name, str(value)


def read(there: There) -> object:
    """The plain form of what Kubernetes gives."""
    return _read(there.value) if there.has_value else NO_VALUE


def _read(value: Any) -> object:
    name, content = value
    match name:
        case "int" | "duration":
            return name, int(content)
        case "double":
            return name, float(content)
        case "timestamp":
            return name, Timestamp.parse(content).nanos
        case "quantity":
            return name, Quantity.parse(content).nanos
        case "format":
            return name, content.lower()
        case "optional":
            return name, None if content is None else _read(content)
        case "list":
            return name, [_read(each) for each in content]
        case "map":
            return name, [[_read(key), _read(each)] for key, each in content]
        case _:
            return name, content


def same(one: object, other: object) -> bool:
    """Whether two plain forms are those of one value; maps have no order, and NaN is itself."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        if one[0] != other[0] or len(one) != len(other):
            return False
        if one[0] == "map":
            return _same_entries(one[1], other[1])
        return all(map(same, one[1:], other[1:]))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return one == other


def _same_entries(one: list[Any], other: list[Any]) -> bool:
    def found(entry: Any) -> bool:
        return any(same(entry[0], k) and same(entry[1], v) for k, v in other)

    return len(one) == len(other) and all(map(found, one))


def parts(form: object) -> Iterator[object]:
    """A plain form and all forms inside it."""
    yield form
    if isinstance(form, tuple | list):
        for each in form:
            yield from parts(each)


FEW = 300
# Enough to see what they have in common.
MOST_DIFFERENCES = 10
# Calls of one overload until one of them has constants that Kubernetes accepts.
ATTEMPTS = 30
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = tuple(rows(TEXT))


@pytest.fixture(scope="module")
def here() -> Here:
    return Here(VARIABLES)


@pytest.fixture(scope="module")
def there(pytestconfig: pytest.Config) -> Iterator[KubernetesCel]:
    with running(built_expressions(pytestconfig), VARIABLES) as process:
        yield process


def test_both_evaluations_agree(here: Here) -> None:
    """`evaluate` compares the plain evaluator with the compiler. Most expressions have a value."""
    found = [here.evaluate(Generator(seed).expression()) for seed in range(examples(200))]
    assert found.count(NO_VALUE) < len(found) // 2


def test_each_difference_is_a_row() -> None:
    assert {row.name for row in ROWS} == set(RULES)
    section = TEXT.partition("## Differences")[2].partition("\n- ")[0]
    assert len(ROWS) == section.count("\n| ") - 2


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_the_value_here(here: Here, row: Row) -> None:
    assert same(here.evaluate(row.text), _value(here, row.here))


def test_a_constant_that_is_never_read_hides_no_lenient_conversion() -> None:
    said = There(error="type conversion error from 'string' to 'int'")
    rule = RULES["a constant that is never read"]
    assert rule(Case('true || int("a") == 1', said, ("bool", True)))
    assert not rule(Case('int("1") == 1', said, ("bool", True)))
    assert not rule(Case("int(text) == 1", said, ("bool", True)))


@pytest.mark.e2e
def test_the_values_there(here: Here, there: KubernetesCel) -> None:
    differing = {}
    for row in ROWS:
        found = there.evaluate(row.text)
        if not same(read(found), _value(here, row.there)):
            differing[row.text] = found
    assert differing == {}


@pytest.mark.e2e
def test_functions_that_are_not_here_are_named(there: KubernetesCel) -> None:
    section = TEXT.partition("that are not here:")[2].partition("\n\n")[0]
    names = {name for name in there.functions if name[0].isalpha() and "@" not in name}
    assert names - FUNCTIONS.keys() == set(re.findall("`(.+?)`", section))


@pytest.mark.e2e
def test_expressions_have_the_same_values(
    here: Here, there: KubernetesCel, capsys: pytest.CaptureFixture[str]
) -> None:
    first, count = int(os.environ.get("SEED") or 1), int(os.environ.get("EXPRESSIONS") or FEW)
    common = {id(o) for o in _common(there)}
    became: Counter[str] = Counter()
    found: list[str] = []
    for seed in range(first, first + count):
        text = Generator(seed, lambda overload: id(overload) in common).expression()
        case = Case(text, there.evaluate(text), here.evaluate(text))
        kind = "value" if case.there.has_value else "error" if case.there.error else "refused"
        became[kind] += 1
        if same(read(case.there), case.here):
            continue
        known = next((name for name, rule in RULES.items() if rule(case)), None)
        if known is not None:
            became[f"difference: {known}"] += 1
            continue
        found.append(f"SEED={seed}: {text}\n  there: {case.there}\n  here: {case.here}")
        if len(found) >= MOST_DIFFERENCES:
            break
    with capsys.disabled():
        report = "\n".join(f"{what}: {many}" for what, many in sorted(became.items()))
        sys.stdout.write(f"\n{len(common)} overloads in common\n{report}\n")
    assert not found, "\n".join(found)
    assert became["value"] > count // 2


def _common(there: KubernetesCel) -> Iterator[Overload]:
    """The overloads that both have; the one whose every value differs has its row."""
    generator = Generator(0)
    for overload in (o for overloads in FUNCTIONS.values() for o in overloads):
        if overload.name == "getMilliseconds" and overload.params == (DURATION,):
            continue
        if any(parameter.is_record for parameter in overload.params):
            # Of nodes: only here.
            continue
        calls = (there.evaluate(generator.call(overload)) for _ in range(ATTEMPTS))
        if any(not each.refused for each in calls):
            yield overload


def _value(here: Here, text: str) -> object:
    return NO_VALUE if text == "error" else here.evaluate(text)
