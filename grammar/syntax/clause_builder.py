"""Clause builder: the parser's callbacks for policies, clauses and tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from typing import Literal as OneOf

from grammar.messages import catalogue
from grammar.messages.catalogue import ParseError
from grammar.syntax.expression_builder import (
    Child,
    ExpressionBuilder,
    SyntaxToken,
    is_token,
    nodes,
    parse_int,
    span_of,
    template,
    text_of,
    token_span,
)
from grammar.tree.ast import Expr, Ident, Literal, MapLiteral
from grammar.tree.clause_parts import (
    LONGEST_WAIT,
    MOST_REPAIRS,
    SHORTEST_WAIT,
    Bound,
    Bounds,
    Keep,
    Per,
    Pick,
    PodSet,
    PodState,
    Repair,
    Strength,
    WaitUntil,
    minute_of,
)
from grammar.tree.clauses import (
    Argument,
    Cards,
    ClusterFile,
    Def,
    Expectation,
    File,
    Filter,
    ForPods,
    Gang,
    Item,
    Let,
    Limit,
    Parameter,
    Policy,
    Preempt,
    Score,
    Setting,
    Share,
    Spread,
    Test,
    TestData,
    TestItem,
    TestObject,
    TestTime,
    Use,
)
from grammar.tree.data import (
    EVERY_SECONDS,
    MOST_STALE,
    Column,
    Count,
    Data,
    FromConfigMap,
    FromFile,
    FromMetrics,
    FromObjects,
    FromPrometheus,
    Group,
    TableSource,
    usual_stale,
)
from grammar.tree.printer import print_expression
from grammar.tree.source import Span
from grammar.tree.types import DYN, INT, Type


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a clause: its keyword and its value."""

    name: str
    value: Any
    span: Span


def _tokens(c: list[Child], *types: str) -> list[SyntaxToken]:
    return [t for t in c if is_token(t) and t.type in types]


def _string(c: list[Child]) -> SyntaxToken:
    return _tokens(c, "STRING")[0]


def _has(c: list[Child], *types: str) -> bool:
    return bool(_tokens(c, *types))


def _summed(c: list[Child]) -> tuple[Expr | None, Expr | None]:
    """The amount that is added up, and the condition behind it; None for each that is not there."""
    found = [None, *nodes(c), None] if not _has(c, "SUM") else [*nodes(c), None]
    return found[0], found[1]


def _expr(c: list[Child]) -> Expr:
    (found,) = nodes(c)
    return found


def _number_of(c: list[Child]) -> tuple[Expr | None, Expr]:
    """`[number of] amounts`."""
    *number, amounts = nodes(c)
    return (number[0] if number else None), amounts


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _collect(c: list[Child], where: str, needs: tuple[str, ...], many: str = "") -> dict[str, Any]:
    """The parts of a block by field. Only `many` may repeat; `needs` are required."""
    found: dict[str, Any] = {many: ()} if many else {}
    for part in c:
        if not isinstance(part, _Part):
            continue
        if part.name == many:
            found[many] += (part.value,)
        elif part.name in found:
            raise ParseError(catalogue.twice(part.name, where, part.span))
        else:
            found[part.name] = part.value
    lacking = [n for n in needs if not found.get(n)]
    if lacking:
        raise ParseError(catalogue.lacking(lacking, where, token_span(_string(c))))
    return {_FIELDS.get(name, name): value for name, value in found.items()}


# The fields that have another name than their keyword.
_FIELDS = {
    "require": "requires",
    "of": "pods",
    "min domains": "min_domains",
    "write": "writes",
    "wait until": "wait",
}


# ---- values of parts


def _missing(c: list[Child]) -> object:
    if numbers := _tokens(c, "SIGNED"):
        return _number(str(numbers[0]))
    return _choice(c, "rule for missing values", ("fail", "pass"))


def _range(c: list[Child]) -> object:
    low, *more = nodes(c)
    if more:
        return Bounds(low, *more)
    allowed = ("minmax", "greatest", "rank")
    if not isinstance(low, Ident) or low.name not in allowed:
        word, known = print_expression(low), (*allowed, "a .. b")
        raise ParseError(catalogue.bad_word(word, "range", known, low.span))
    return low.name


def _pod_set(c: list[Child]) -> PodSet:
    amount, where = _summed(c)
    states: tuple[PodState, ...] = ("pending", "ready", "ended")
    return PodSet(
        where,
        _has(c, "ALL"),
        _has(c, "PLACED"),
        _has(c, "REVISION"),
        amount=amount,
        state=next((state for state in states if _has(c, state.upper())), ""),
        span=span_of(c),
    )


def _per(c: list[Child]) -> Per:
    if _has(c, "DOMAIN"):
        return Per("domain", _expr(c))
    if named := _tokens(c, "IDENT"):
        return Per("group", group=str(named[0]), group_span=token_span(named[0]))
    if _has(c, "NODES"):
        amount, where = _summed(c)
        return Per("used nodes" if _has(c, "USED") else "empty nodes", where=where, amount=amount)
    return Per("node" if _has(c, "NODE") else "cluster")


def _bound(c: list[Child]) -> Bound:
    kind: OneOf["at most", "at least", "exactly"] = (
        "at most" if _has(c, "MOST") else "at least" if _has(c, "LEAST") else "exactly"
    )
    amount, percent = _amount(c, "number of pods", 0)
    rounding: OneOf["up", "down"] | None = None
    if _has(c, "ROUNDING"):
        rounding = "up" if _choice(c, "rounding", ("up", "down")) == "up" else "down"
    return Bound(kind, amount, percent, rounding, span_of(c))


def _amount(c: list[Child], what: str, least: int) -> tuple[float | Expr, bool]:
    """The number of a bound, and whether it is a percentage."""
    if not (percents := _tokens(c, "PERCENT")):
        return _whole(_expr(c), what, least), False
    (token,) = percents
    percent = _percentage(token)
    if isinstance(percent, float | int) and least and percent <= 0:
        raise _bad_number(token, what, "a percentage above `0%`")
    return percent, True


def _strength(c: list[Child]) -> Strength:
    if named := _tokens(c, "IDENT"):
        return Strength(_ident(named[0]), span_of(c))
    numbers = _tokens(c, "SIGNED")
    weight = _weight(numbers[0]) if numbers else None
    if weight is not None and weight < 0:
        raise _bad_number(numbers[0], "weight of a preference", "a number above 0")
    return Strength(weight, span_of(c))


def _pick(c: list[Child]) -> Pick | None:
    if _has(c, "FIRST"):
        return None
    return Pick("least" if _has(c, "LEAST") else "most", _expr(c))


def _keep(c: list[Child]) -> Keep:
    (token,) = _tokens(c, "INT")
    if (count := parse_int(str(token))) < 1:
        raise _bad_number(token, "number of candidates to keep", "a whole number from 1")
    return Keep(count, _expr(c))


def _body(c: list[Child]) -> MapLiteral | None:
    """The braces of an object of a test, or of annotations; None without them."""
    return next((each for each in c if isinstance(each, MapLiteral)), None)


def _choice(c: list[Child], part: str, allowed: tuple[str, ...]) -> str:
    (token,) = _tokens(c, "NAME")
    if str(token) not in allowed:
        raise ParseError(catalogue.bad_word(str(token), part, allowed, token_span(token)))
    return str(token)


def _rate(token: SyntaxToken) -> int:
    number = parse_int(str(token))
    if not 0 < number <= MOST_REPAIRS:
        raise _bad_number(token, "number of pods", f"a number from 1 to {MOST_REPAIRS}")
    return number


def _minute(token: SyntaxToken) -> int:
    found = minute_of(text_of(token))
    if found is None:
        raise _bad_number(token, "time of the day", 'a time in UTC, such as `"22:30"`')
    return found


def _ident(token: SyntaxToken) -> Ident:
    return Ident(str(token), False, token_span(token))


def _weight(token: SyntaxToken) -> float:
    number = _number(str(token))
    if number == 0:
        raise _bad_number(token, "weight", "a number other than 0")
    return number


def _whole(expr: Expr, what: str, least: int) -> int | Expr:
    """A number that is written as a number, and is at least `least`; else the expression."""
    if not isinstance(expr, Literal) or not isinstance(expr.value, int) or expr.type != INT:
        return expr
    if expr.value < least:
        allowed = f"a whole number from {least}"
        raise ParseError(catalogue.bad_number(str(expr.value), what, allowed, expr.span))
    # The limits of the language refuse what does not fit in an int.
    return expr.value if expr.value < 2**63 else expr


_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _seconds(
    c: list[Child], what: str = "a binding cannot wait", longest: float = LONGEST_WAIT
) -> float:
    """A length of time such as `1m30s`, of one second or more. `what` is for an error."""
    (token,) = _tokens(c, "LENGTH")
    parts = re.findall(r"([\d.]+)([hms])", str(token))
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not SHORTEST_WAIT <= seconds <= longest:
        span = token_span(token)
        raise ParseError(catalogue.bad_length(str(token), seconds, span, what, longest))
    return seconds


def _percentage(token: SyntaxToken) -> float | Expr:
    """`40%` as a number, `n%` as a name."""
    text = str(token)[:-1]
    if not text[0].isdigit():
        return Ident(text, False, Span(token.start_pos, token.end_pos - 1))
    if (percent := _number(text)) > 100:
        raise _bad_number(token, "percentage of pods", "at most `100%`")
    return percent


def _bad_number(token: SyntaxToken, what: str, allowed: str) -> ParseError:
    return ParseError(catalogue.bad_number(str(token), what, allowed, token_span(token)))


# ---- callbacks


_Callback = Callable[["Builder", list[Child]], _Part]


def _part(name: str, read: Callable[[list[Child]], object]) -> _Callback:
    """The callback for a part of a block, with the keyword and the reader of the value."""
    return lambda _, c: _Part(name, read(c), span_of(c))


def _all(kind: type[object]) -> Callable[[list[Child]], tuple[object, ...]]:
    """What reads the children of one class."""
    return lambda c: tuple(each for each in c if isinstance(each, kind))


def _from(kind: Callable[..., TableSource], *fields: str) -> Callable[[list[Child]], object]:
    """What reads a source: its texts, and the names of parameters in place of some."""

    def read(c: list[Child]) -> tuple[TableSource, tuple[tuple[str, Expr], ...]]:
        tokens = dict(zip(fields, _tokens(c, "STRING", "IDENT"), strict=True))
        given = dict[str, Any](zip(("by",), nodes(c), strict=False))
        given |= {name: text_of(t) if t.type == "STRING" else "" for name, t in tokens.items()}
        names = tuple((name, _ident(t)) for name, t in tokens.items() if t.type == "IDENT")
        where = token_span(tokens[fields[0]]) if fields else span_of(c)
        return kind(**given, span=where), names

    return read


class Builder(ExpressionBuilder):
    """The builder: a method for each grammar rule. `parse_hole` parses expressions of messages."""

    def __init__(self, parse_hole: Callable[[str, int], Expr]) -> None:
        self._parse_hole = parse_hole

    def file(self, c: list[Child]) -> File:
        return File(tuple(b for b in c if isinstance(b, Policy | Test)))

    def rules(self, c: list[Child]) -> tuple[Item, ...]:
        return tuple(i for i in c if isinstance(i, Item))

    def expression(self, c: list[Child]) -> Expr:
        return _expr(c)

    # ---- policies

    def policy(self, c: list[Child]) -> Policy:
        return self._policy(c, cluster=False)

    def cluster_policy(self, c: list[Child]) -> Policy:
        return self._policy(c, cluster=True)

    def _policy(self, c: list[Child], *, cluster: bool) -> Policy:
        token, *more = _tokens(c, "NAME", "STRING")
        name = text_of(token) if token.type == "STRING" else str(token)
        items = tuple(i for i in c if isinstance(i, Item))
        namespace = text_of(more[0]) if more else None
        declared = next((p.value for p in c if isinstance(p, _Part)), ())
        where = span_of(c), token_span(token)
        return Policy(name, items, namespace, cluster, declared, (), *where)

    parameters = _part("parameters", _all(Parameter))

    def parameter(self, c: list[Child]) -> Parameter:
        return replace(self.param(c), default=next(iter(nodes(c)), None))

    def use(self, c: list[Child]) -> Use:
        arguments = tuple(a for a in c if isinstance(a, Argument))
        return Use(text_of(_string(c)), arguments, span_of(c))

    def argument(self, c: list[Child]) -> Argument:
        (name,) = _tokens(c, "IDENT")
        return Argument(str(name), _expr(c), span_of(c))

    def description(self, c: list[Child]) -> Setting:
        return Setting("description", text_of(_string(c)), span_of(c))

    def weight(self, c: list[Child]) -> Setting:
        (token,) = _tokens(c, "SIGNED")
        number = _number(str(token))
        if number != int(number) or not 0 <= number < 2**31:
            raise _bad_number(token, "weight of a policy", "a whole number from 0 to 2147483647")
        return Setting("weight", int(number), span_of(c))

    def mode(self, c: list[Child]) -> Setting:
        return Setting("mode", _choice(c, "mode", ("enforce", "audit")), span_of(c))

    def failure(self, c: list[Child]) -> Setting:
        return Setting("failure", _choice(c, "failure rule", ("fail", "ignore")), span_of(c))

    def portable(self, c: list[Child]) -> Setting:
        return Setting("portable", span=span_of(c))

    def repair(self, c: list[Child]) -> Setting:
        numbers, times = _tokens(c, "INT"), _tokens(c, "STRING")
        rates = [_rate(token) for token in numbers]
        begins, ends = [_minute(token) for token in times] or [0, 0]
        if times and begins == ends:
            raise _bad_number(times[1], "later time", "another time than the first one")
        once = rates[1] if len(rates) > 1 else 1
        local_data = bool(_tokens(c, "LOCAL"))
        value = Repair(rates[0], once, local_data=local_data, begins=begins, ends=ends)
        return Setting("repair", value, span_of(c))

    def for_(self, c: list[Child]) -> ForPods:
        return ForPods(_expr(c), span_of(c))

    def let(self, c: list[Child]) -> Let:
        (name,) = _tokens(c, "IDENT")
        return Let(str(name), _expr(c), span_of(c), token_span(name))

    def def_(self, c: list[Child]) -> Def:
        (name,) = _tokens(c, "IDENT")
        parameters = tuple(p for p in c if isinstance(p, Parameter))
        (result,) = (p for p in c if isinstance(p, _Part))
        where = span_of(c), token_span(name), result.span
        return Def(str(name), parameters, result.value, _expr(c), *where)

    def param(self, c: list[Child]) -> Parameter:
        (name,) = _tokens(c, "IDENT")
        (declared,) = (p for p in c if isinstance(p, _Part))
        return Parameter(
            str(name), declared.value, type_span=declared.span, name_span=token_span(name)
        )

    def type(self, c: list[Child]) -> _Part:
        """A type as it is written; the checker knows which there are."""
        (token,) = _tokens(c, "IDENT")
        args = tuple(p.value for p in c if isinstance(p, _Part))
        return _Part("type", Type(str(token), args), span_of(c))

    # ---- data

    def data(self, c: list[Child]) -> Data:
        parts = _collect(c, "the data block", ("from",))
        (source, names), columns = parts.pop("from"), parts.pop("columns", ())
        parts.setdefault("stale", usual_stale(source, parts.get("every", EVERY_SECONDS)))
        columns = (*source.columns, *columns)
        parts.update({f"{part.name}_span": part.span for part in c if isinstance(part, _Part)})
        return Data(**self._head(c), source=source, names=names, columns=columns, **parts)

    from_metrics = _part("from", _from(FromMetrics))
    from_prometheus = _part("from", _from(FromPrometheus, "url", "query", "key"))
    from_configmap = _part("from", _from(FromConfigMap, "name", "entry", "by"))
    from_file = _part("from", _from(FromFile, "path", "by"))
    from_objects = _part("from", _from(FromObjects, "kind"))
    every = _part("every", lambda c: _seconds(c, "a source cannot pause"))
    stale = _part("stale", lambda c: _seconds(c, "a row cannot be used", MOST_STALE))
    columns = _part("columns", _all(Column))

    def column(self, c: list[Child]) -> Column:
        (name,) = _tokens(c, "IDENT")
        if declared := [p for p in c if isinstance(p, _Part)]:
            (kind,) = declared
            return Column(str(name), kind.value, None, token_span(name), kind.span)
        value = _expr(c)
        return Column(str(name), DYN, value, token_span(name), value.span)

    def group(self, c: list[Child]) -> Group:
        (name,) = _tokens(c, "IDENT")
        return Group(str(name), _expr(c), span_of(c), token_span(name))

    def count(self, c: list[Child]) -> Count:
        (pods,) = (part for part in c if isinstance(part, _Part))
        name = _tokens(c, "IDENT")[0]
        per = _per([each for each in c if each is not name and each is not pods])
        return Count(str(name), pods.value, per, span_of(c), token_span(name))

    counted = _part("pods", _pod_set)

    # ---- clauses

    def filter(self, c: list[Child]) -> Filter:
        return Filter(**self._head(c), **_collect(c, "the filter", ("require",), many="require"))

    def bind(self, c: list[Child]) -> Filter:
        waits = any(isinstance(part, _Part) and part.name == "wait until" for part in c)
        needs = () if waits else ("require",)
        parts = _collect(c, "the bind clause", needs, many="require")
        return Filter(**self._head(c), **parts, at_bind=True)

    def score(self, c: list[Child]) -> Score:
        parts = _collect(c, "the score", ("value",))
        if named := _tokens(c, "IDENT"):
            return Score(weight=_ident(named[0]), **self._head(c), **parts)
        (token,) = _tokens(c, "SIGNED")
        return Score(weight=_weight(token), **self._head(c), **parts)

    def share(self, c: list[Child]) -> Share:
        return Share(**self._head(c), **_collect(c, "the share", ("of", "on", "bound", "strength")))

    def spread(self, c: list[Child]) -> Spread:
        return Spread(**self._head(c), **_collect(c, "the spread", ("over", "skew", "strength")))

    def limit(self, c: list[Child]) -> Limit:
        return Limit(**self._head(c), **_collect(c, "the limit", ("per", "bound", "strength")))

    def cards(self, c: list[Child]) -> Cards:
        parts = _collect(c, "the cards clause", ("on node", "take"))
        (count, on), (number, take) = parts.pop("on node"), parts.pop("take")
        return Cards(**self._head(c), **parts, count=count, on=on, number=number, take=take)

    def gang(self, c: list[Child]) -> Gang:
        parts = _collect(c, "the gang", ())
        by, quorum = parts.pop("pods", None), parts.pop("at least", None)
        if by is not None and quorum is None:
            raise ParseError(catalogue.gang_without_number(token_span(_string(c))))
        at_least, percent = quorum or (None, False)
        if (hold := parts.pop("for at most", None)) is not None:
            parts["seconds"], parts["seconds_span"] = hold
        return Gang(**self._head(c), **parts, by=by, at_least=at_least, percent=percent)

    def preempt(self, c: list[Child]) -> Preempt:
        return Preempt(**self._head(c), **_collect(c, "the preempt clause", (), many="protect"))

    def _head(self, c: list[Child]) -> dict[str, Any]:
        name = _string(c)
        return {"name": text_of(name), "span": span_of(c), "name_span": token_span(name)}

    when = _part("when", _expr)
    require = _part("require", _expr)
    value = _part("value", _expr)
    on = _part("on", _expr)
    over = _part("over", _expr)
    within = _part("within", _expr)
    protect = _part("protect", _expr)
    allow = _part("allow", _expr)
    of = _part("of", _pod_set)
    pods = _part("pods", _pod_set)
    per = _part("per", _per)
    skew = _part("skew", lambda c: _whole(_expr(c), "skew", 1))
    min_domains = _part("min domains", lambda c: _whole(_expr(c), "number of domains", 1))
    nodes = _part("nodes", lambda c: _choice(c, "set of nodes", ("eligible", "selected", "all")))
    bound = _part("bound", _bound)
    strength = _part("strength", _strength)
    mutual = _part("mutual", lambda _: True)
    missing = _part("missing", _missing)
    range = _part("range", _range)
    members = _part("of", lambda c: next(iter(nodes(c)), None))
    quorum = _part("at least", lambda c: _amount(c, "number of members", 1))
    hold = _part("for at most", lambda c: (_seconds(c), token_span(_tokens(c, "LENGTH")[0])))
    wait = _part("wait until", lambda c: WaitUntil(_expr(c), _seconds(c), span_of(c)))
    on_node = _part("on node", _number_of)
    take = _part("take", _number_of)
    index_in = _part("index", lambda c: text_of(_string(c)))
    pick = _part("pick", _pick)
    write = _part("write", _body)
    keep = _part("keep", _keep)

    def message(self, c: list[Child]) -> _Part:
        return _Part("message", template(_string(c), self._parse_hole), span_of(c))

    def detail(self, c: list[Child]) -> _Part:
        return _Part("detail", template(_string(c), self._parse_hole), span_of(c))

    # ---- tests

    def test(self, c: list[Child]) -> Test:
        name = _string(c)
        items = tuple(i for i in c if isinstance(i, TestItem))
        return Test(text_of(name), items, span_of(c), token_span(name))

    def cluster(self, c: list[Child]) -> ClusterFile:
        return ClusterFile(text_of(_string(c)), span_of(c))

    def at(self, c: list[Child]) -> TestTime:
        return TestTime(text_of(_string(c)), span_of(c))

    def test_data(self, c: list[Child]) -> TestData:
        (body,) = (b for b in c if isinstance(b, MapLiteral))
        return TestData(text_of(_string(c)), body, span_of(c))

    def test_object(self, c: list[Child]) -> TestObject:
        name, *on = map(text_of, _tokens(c, "STRING"))
        kind: OneOf["namespace", "node", "pod"] = "pod"
        if not _has(c, "POD"):
            kind = "node" if _has(c, "NODE") else "namespace"
        return TestObject(kind, name, _body(c), on[0] if on else None, span_of(c))

    def expect(self, c: list[Child]) -> Expectation:
        node, *by = map(text_of, _tokens(c, "STRING"))
        where = span_of(c)
        if _has(c, "EVICT"):
            *victims, on = node, *by
            return Expectation("evict", on, victims=tuple(victims), span=where)
        if _has(c, "PASS", "BOUND"):
            return Expectation("pass" if _has(c, "PASS") else "bound", node, span=where)
        if by:
            kind: OneOf["held", "reject"] = "held" if _has(c, "HELD") else "reject"
            clause, message = by[0], by[1] if by[1:] else None
            return Expectation(kind, node, clause=clause, message=message, span=where)
        (op,), (number,) = _tokens(c, "RELOP"), _tokens(c, "SIGNED")
        than = _number(str(number))
        return Expectation("score", node, op=str(op), number=than, span=where)
