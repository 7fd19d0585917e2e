"""Clause builder: the parser's callbacks for policies, clauses and tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from typing import Literal as OneOf

from grammar.clauses import KINDS, PARTS
from grammar.clauses.parts import read_per, read_pods
from grammar.clauses.reading import (
    Child,
    ReadPart,
    SyntaxToken,
    bad_number,
    body_of,
    choice,
    collect,
    expr_of,
    has,
    head_of,
    ident,
    nodes,
    number_of,
    parse_int,
    seconds_of,
    span_of,
    string_of,
    text_of,
    token_span,
    tokens,
)
from grammar.syntax.expression_builder import ExpressionBuilder, template
from grammar.tree.ast import Expr, Literal, MapLiteral
from grammar.tree.clause_parts import MOST_REPAIRS, Per, Repair, minute_of
from grammar.tree.policy import (
    EVERY_SECONDS,
    EXPECTED,
    MOST_STALE,
    Argument,
    ClusterFile,
    Column,
    Count,
    Data,
    Def,
    Expectation,
    File,
    ForPods,
    FromConfigMap,
    FromFile,
    FromMetrics,
    FromObjects,
    FromPrometheus,
    Group,
    Item,
    Let,
    Parameter,
    Policy,
    Setting,
    TableSource,
    Test,
    TestData,
    TestItem,
    TestObject,
    TestTime,
    Use,
    usual_stale,
)
from grammar.tree.types import DYN, INT, Type

# ---- values of parts


def _missing(c: list[Child]) -> object:
    if numbers := tokens(c, "SIGNED"):
        return number_of(str(numbers[0]))
    return choice(c, "rule for missing values", ("fail", "pass"))


def _rate(token: SyntaxToken) -> int:
    number = parse_int(str(token))
    if not 0 < number <= MOST_REPAIRS:
        raise bad_number(token, "number of pods", f"a number from 1 to {MOST_REPAIRS}")
    return number


def _minute(token: SyntaxToken) -> int:
    found = minute_of(text_of(token))
    if found is None:
        raise bad_number(token, "time of the day", 'a time in UTC, such as `"22:30"`')
    return found


# ---- callbacks


_Callback = Callable[["Builder", list[Child]], ReadPart]


def _part(name: str, read: Callable[[list[Child]], object], *field: str) -> _Callback:
    """The callback for a part of a block, with its words and the reader of the value."""
    return lambda _, c: ReadPart(name, read(c), span_of(c), field)


def _text(name: str) -> _Callback:
    """The callback for a text with expressions in braces."""
    return lambda self, c: ReadPart(name, template(string_of(c), self._parse_hole), span_of(c))


def _named(kind: type[Let | Group]) -> Callable[[Builder, list[Child]], Let | Group]:
    """The callback for an expression with a name."""

    def read(_: Builder, c: list[Child]) -> Let | Group:
        (name,) = tokens(c, "IDENT")
        return kind(str(name), expr_of(c), span=span_of(c), name_span=token_span(name))

    return read


def _all(kind: type[object]) -> Callable[[list[Child]], tuple[object, ...]]:
    """What reads the children of one class."""
    return lambda c: tuple(each for each in c if isinstance(each, kind))


def _from(kind: Callable[..., TableSource], *fields: str) -> Callable[[list[Child]], object]:
    """What reads a source: its texts, and the names of parameters in place of some."""

    def read(c: list[Child]) -> tuple[TableSource, tuple[tuple[str, Expr], ...]]:
        found = dict(zip(fields, tokens(c, "STRING", "IDENT"), strict=True))
        given = dict[str, Any](zip(("by",), nodes(c), strict=False))
        given |= {name: text_of(t) if t.type == "STRING" else "" for name, t in found.items()}
        names = tuple((name, ident(t)) for name, t in found.items() if t.type == "IDENT")
        where = token_span(found[fields[0]]) if fields else span_of(c)
        return kind(**given, span=where), names

    return read


class Builder(ExpressionBuilder):
    """The builder: a method for each grammar rule. `parse_hole` parses expressions of messages.

    Those of kinds of clauses, and of their parts, come from these.
    """

    def __init__(self, parse_hole: Callable[[str, int], Expr]) -> None:
        self._parse_hole = parse_hole
        vars(self).update({rule: part.build for rule, part in PARTS.items()})
        vars(self).update({word: kind.build for word, kind in KINDS.items()})

    def file(self, c: list[Child]) -> File:
        return File(tuple(b for b in c if isinstance(b, Policy | Test)))

    def rules(self, c: list[Child]) -> tuple[Item, ...]:
        return tuple(i for i in c if isinstance(i, Item))

    def expression(self, c: list[Child]) -> Expr:
        return expr_of(c)

    # ---- policies

    def policy(self, c: list[Child]) -> Policy:
        token, *more = tokens(c, "NAME", "STRING")
        name = text_of(token) if token.type == "STRING" else str(token)
        items = tuple(i for i in c if isinstance(i, Item))
        namespace = text_of(more[0]) if more else None
        declared = next((p.value for p in c if isinstance(p, ReadPart)), ())
        head = name, items, namespace, has(c, "CLUSTER"), declared
        return Policy(*head, span=span_of(c), name_span=token_span(token))

    parameters = _part("parameters", _all(Parameter))

    def parameter(self, c: list[Child]) -> Parameter:
        return replace(self.param(c), default=next(iter(nodes(c)), None))

    def use(self, c: list[Child]) -> Use:
        arguments = tuple(a for a in c if isinstance(a, Argument))
        return Use(text_of(string_of(c)), arguments, span=span_of(c))

    def argument(self, c: list[Child]) -> Argument:
        (name,) = tokens(c, "IDENT")
        return Argument(str(name), expr_of(c), span=span_of(c))

    def description(self, c: list[Child]) -> Setting:
        return Setting("description", text_of(string_of(c)), span=span_of(c))

    def weight(self, c: list[Child]) -> Setting:
        (token,) = tokens(c, "SIGNED")
        number = number_of(str(token))
        if number != int(number) or not 0 <= number < 2**31:
            raise bad_number(token, "weight of a policy", "a whole number from 0 to 2147483647")
        return Setting("weight", int(number), span=span_of(c))

    def mode(self, c: list[Child]) -> Setting:
        return Setting("mode", choice(c, "mode", ("enforce", "audit")), span=span_of(c))

    def missing_rule(self, c: list[Child]) -> Setting:
        return Setting("missing", str(_missing(c)), span=span_of(c))

    def portable(self, c: list[Child]) -> Setting:
        return Setting("portable", span=span_of(c))

    def repair(self, c: list[Child]) -> Setting:
        numbers, times = tokens(c, "INT"), tokens(c, "STRING")
        rate, at_once, *_ = *map(_rate, numbers), 1
        begins, ends = [_minute(token) for token in times] or [0, 0]
        if times and begins == ends:
            raise bad_number(times[1], "later time", "another time than the first one")
        value = Repair(rate, at_once, has(c, "LOCAL"), begins, ends)
        return Setting("repair", value, span=span_of(c))

    def for_(self, c: list[Child]) -> ForPods:
        return ForPods(expr_of(c), span=span_of(c))

    let = _named(Let)

    def def_(self, c: list[Child]) -> Def:
        (name,) = tokens(c, "IDENT")
        parameters = tuple(p for p in c if isinstance(p, Parameter))
        (result,) = (p for p in c if isinstance(p, ReadPart))
        where = {"span": span_of(c), "name_span": token_span(name), "result_span": result.span}
        return Def(str(name), parameters, result.value, expr_of(c), **where)

    def param(self, c: list[Child]) -> Parameter:
        (name,) = tokens(c, "IDENT")
        (declared,) = (p for p in c if isinstance(p, ReadPart))
        return Parameter(
            str(name), declared.value, type_span=declared.span, name_span=token_span(name)
        )

    def type(self, c: list[Child]) -> ReadPart:
        """A type as it is written; the checker knows which there are."""
        (token,) = tokens(c, "IDENT")
        args = tuple(p.value for p in c if isinstance(p, ReadPart))
        return ReadPart("type", Type(str(token), args), span_of(c))

    # ---- data

    def data(self, c: list[Child]) -> Data:
        parts = collect(c, "the data block", {"from": "`from metrics`"})
        (source, names), columns = parts.pop("from"), parts.pop("columns", ())
        parts.setdefault("stale", usual_stale(source, parts.get("every", EVERY_SECONDS)))
        columns = (*source.columns, *columns)
        parts.update(
            {f"{(*p.fields, p.name)[0]}_span": p.span for p in c if isinstance(p, ReadPart)}
        )
        return Data(**head_of(c), source=source, names=names, columns=columns, **parts)

    from_metrics = _part("from", _from(FromMetrics))
    from_prometheus = _part("from", _from(FromPrometheus, "url", "query", "key"))
    from_configmap = _part("from", _from(FromConfigMap, "name", "entry", "by"))
    from_file = _part("from", _from(FromFile, "path", "by"))
    from_objects = _part("from", _from(FromObjects, "kind"))
    every = _part("every", lambda c: seconds_of(c, "a source cannot pause"))
    stale = _part(
        "for at most", lambda c: seconds_of(c, "a row cannot be used", MOST_STALE), "stale"
    )
    columns = _part("columns", _all(Column))

    def column(self, c: list[Child]) -> Column:
        (name,) = tokens(c, "IDENT")
        if declared := [p for p in c if isinstance(p, ReadPart)]:
            (kind,) = declared
            return Column(
                str(name), kind.value, None, "", span=token_span(name), type_span=kind.span
            )
        if has(c, "COUNT"):
            one = Literal(1, INT, span=span_of(c))
            return Column(str(name), DYN, one, "count", span=token_span(name), type_span=span_of(c))
        value = expr_of(c)
        over: OneOf["sum", "most", ""] = (
            "sum" if has(c, "SUM") else "most" if has(c, "MOST") else ""
        )
        return Column(str(name), DYN, value, over, span=token_span(name), type_span=value.span)

    group = _named(Group)

    def count(self, c: list[Child]) -> Count:
        (pods,) = (part for part in c if isinstance(part, ReadPart))
        name = tokens(c, "IDENT")[0]
        per = read_per(c) if has(c, "PER") else Per("cluster")
        return Count(str(name), pods.value, per, span=span_of(c), name_span=token_span(name))

    counted = _part("pods", read_pods)

    # ---- clauses

    when = _part("when", expr_of)
    missing = _part("missing", _missing)

    message = _text("message")
    detail = _text("detail")

    # ---- tests

    def test(self, c: list[Child]) -> Test:
        name = string_of(c)
        items = tuple(i for i in c if isinstance(i, TestItem))
        return Test(text_of(name), items, span=span_of(c), name_span=token_span(name))

    def cluster(self, c: list[Child]) -> ClusterFile:
        return ClusterFile(text_of(string_of(c)), span=span_of(c))

    def at(self, c: list[Child]) -> TestTime:
        return TestTime(text_of(string_of(c)), span=span_of(c))

    def test_data(self, c: list[Child]) -> TestData:
        (body,) = (b for b in c if isinstance(b, MapLiteral))
        return TestData(text_of(string_of(c)), body, span=span_of(c))

    def test_object(self, c: list[Child]) -> TestObject:
        name, *on = map(text_of, tokens(c, "STRING"))
        kind: OneOf["namespace", "node", "pod"] = "pod"
        if not has(c, "POD"):
            kind = "node" if has(c, "NODE") else "namespace"
        return TestObject(kind, name, body_of(c), on[0] if on else None, span=span_of(c))

    def expect(self, c: list[Child]) -> Expectation:
        node, *more = map(text_of, tokens(c, "STRING"))
        where, kind = span_of(c), next(k for k in EXPECTED if has(c, k.upper()))
        if kind == "evict":
            *victims, on = node, *more
            return Expectation(kind, on, victims=tuple(victims), span=where)
        op, than = [*map(str, tokens(c, "RELOP", "SIGNED")), None, None][:2]
        clause, message = [*more, None, None][:2]
        number = None if than is None else number_of(than)
        return Expectation(kind, node, clause, op, number, message=message, span=where)
