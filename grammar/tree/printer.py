"""Printer: syntax trees to canonical text, such that parse(print(tree)) == tree; `placet fmt`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from grammar.tree import ast
from grammar.tree.clause_parts import Bound, Bounds, Per, PodSet
from grammar.tree.clauses import (
    Cards,
    Clause,
    ClusterFile,
    CountingClause,
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
    Column,
    Count,
    Data,
    FromConfigMap,
    FromFile,
    FromMetrics,
    FromObjects,
    FromPrometheus,
    Group,
    usual_stale,
)
from grammar.tree.source import ESCAPED, Source, Span

# Precedence, lowest first. An operand gets parentheses if its precedence is lower than its place
# needs.
_CONDITIONAL, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_CHAIN = {"||": _OR, "&&": _AND, "+": _SUM}
_BINARY = {"-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def print_expression(expr: ast.Expr) -> str:
    """The expression on one line."""
    return _print(expr, _CONDITIONAL)


def operands(expr: ast.Expr) -> tuple[str, list[str]] | None:
    """The operator and the printed operands of a chain of `&&` or `||`; else None."""
    if not isinstance(expr, ast.Chain) or expr.op == "+":
        return None
    return expr.op, [_print(o, _CHAIN[expr.op] + 1) for o in expr.operands]


def print_string(text: str) -> str:
    """A string literal: raw where that saves escaping backslashes."""
    if "\\" in text and '"' not in text and text.isprintable():
        return f'r"{text}"'
    return '"' + "".join(ESCAPED.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def print_length(seconds: float) -> str:
    """A length of time in the largest unit of which it is a whole number: `90s`, `2m`."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{print_number(int(seconds) if seconds.is_integer() else seconds)}s"


def print_number(number: float) -> str:
    """A number of a clause, which the language takes without an exponent: `0.00001`."""
    if isinstance(number, int):
        return str(number)
    text = f"{Decimal(repr(number)):f}"
    return text if "." in text else f"{text}.0"


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _print(expr: ast.Expr, place: int) -> str:
    strength, text = _render(expr)
    return f"({text})" if strength < place else text


def _render(expr: ast.Expr) -> tuple[int, str]:
    """The precedence of the printed text, and the text."""
    match expr:
        case ast.Literal(value):
            text = _literal(value)
            return (_UNARY if text.startswith("-") else _MEMBER), text
        case ast.Ident(name, absolute):
            return _MEMBER, f".{name}" if absolute else name
        case ast.Select(operand, name, optional):
            return _MEMBER, f"{_print(operand, _MEMBER)}.{'?' if optional else ''}{_field(name)}"
        case ast.Index(operand, index, optional):
            key = f"{'?' if optional else ''}{print_expression(index)}"
            return _MEMBER, f"{_print(operand, _MEMBER)}[{key}]"
        case ast.Call(function, target, args, absolute):
            head = f"{_print(target, _MEMBER)}." if target is not None else "." if absolute else ""
            return _MEMBER, f"{head}{function}({_comma(args)})"
        case ast.Unary(op, operand):
            # A minus before a number would become part of it.
            bare = isinstance(operand, ast.Literal) or (
                isinstance(operand, ast.Unary) and operand.op != op
            )
            text = f"({print_expression(operand)})" if bare else _print(operand, _UNARY)
            return _UNARY, f"{op}{text}"
        case ast.Binary(op, left, right):
            strength = _BINARY.get(op, _RELATION)
            return strength, f"{_print(left, strength)} {op} {_print(right, strength + 1)}"
        case ast.Chain(op, chained):
            strength = _CHAIN[op]
            head = _print(chained[0], strength + (isinstance(chained[0], ast.Chain)))
            return strength, f" {op} ".join((head, *(_print(o, strength + 1) for o in chained[1:])))
        case ast.Conditional(condition, then, otherwise):
            parts = _print(condition, _OR), _print(then, _OR), print_expression(otherwise)
            return _CONDITIONAL, "{} ? {} : {}".format(*parts)
        case ast.ListLiteral(elements, marked):
            items = (
                f"{'?' if i in marked else ''}{print_expression(e)}" for i, e in enumerate(elements)
            )
            return _MEMBER, f"[{', '.join(items)}]"
        case ast.MapLiteral(entries):
            pairs = (
                f"{'?' if e.optional else ''}{print_expression(e.key)}: {print_expression(e.value)}"
                for e in entries
            )
            return _MEMBER, f"{{{', '.join(pairs)}}}"
        case ast.Comprehension("cel.bind", target, variables, body):
            return _MEMBER, f"cel.bind({variables[0]}, {print_expression(target)}, {_comma(body)})"
        case ast.Comprehension(macro, target, variables, body):
            arguments = f"{', '.join(variables)}, {_comma(body)}"
            return _MEMBER, f"{_print(target, _MEMBER)}.{macro}({arguments})"
        case ast.Has(operand):
            return _MEMBER, f"has({print_expression(operand)})"
        case ast.LetReference(name):
            return _MEMBER, name
        case ast.DefCall(name, args):
            return _MEMBER, f"{name}({_comma(args)})"
        case _:
            assert_never(expr)


def _comma(args: tuple[ast.Expr, ...]) -> str:
    return ", ".join(map(print_expression, args))


def _field(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else f"`{name}`"


def _literal(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _double(value)
        case str():
            return print_string(value)
        case _:
            return str(value)


def _double(value: float) -> str:
    """A double with a point or an exponent, so that it is parsed as a double."""
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"


# ---- files: the canonical layout; comments stay at the line that they belong to

WIDTH = 100
_INDENT = "  "
_COMMENT = re.compile(
    r"[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n]*\"|'[^'\n]*')"
    r"|\"\"\"(?:\\[\s\S]|(?!\"\"\")[^\\])*\"\"\"|'''(?:\\[\s\S]|(?!''')[^\\])*'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?P<comment>(?:#|//)[^\n]*)",
)
_COMMENT_OR_BRACKET = re.compile(r"(?:#|//)[^\n]*|(?P<bracket>[){])")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: a printed line and its span in the text; for a closing brace, only the end."""

    depth: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment; `trailing` after other text on its line, `apart` after an empty line."""

    offset: int
    text: str
    trailing: bool
    apart: bool


def format_file(file: File, source: Source) -> str:
    """The text in canonical form. Formatting it again changes nothing."""
    comments = list(_comments(source.text))
    rows: list[_Row] = []
    for number, block in enumerate(file.blocks):
        if number:
            rows.append(_Row(0, "", Span(block.span.start, block.span.start)))
        rows.extend(_block(block, comments, source))
    return _join(rows, comments)


def _comments(text: str) -> Iterator[_Comment]:
    for match in _COMMENT.finditer(text):
        if match["comment"] is None:
            continue
        before = text[: match.start()]
        line = before[before.rfind("\n") + 1 :]
        apart = re.search(r"\n[ \t\r]*\n[ \t\r]*\Z", before) is not None
        body = match["comment"].rstrip()
        body = body[1:] if body[0] == "#" else body[2:]
        yield _Comment(match.start(), f"#{body}", bool(line.strip()), apart)


def _block(block: Policy | Test, comments: list[_Comment], source: Source) -> Iterator[_Row]:
    match block:
        case Policy():
            name = block.name if _NAME.match(block.name) else print_string(block.name)
            head = f"cluster policy {name}" if block.cluster else f"policy {name}"
            if block.namespace is not None:
                head += f" in namespace {print_string(block.namespace)}"
            if block.parameters:
                rows, head = _parameters(head, block, comments, source)
                yield from rows
        case Test():
            head = f"test {print_string(block.name)}"
        case _:
            assert_never(block)
    start = block.span.start
    if isinstance(block, Policy) and block.parameters:
        start = _closing(block, source)
    if not block.items and not any(start < c.offset < block.span.end for c in comments):
        yield _Row(0, f"{head} {{ }}", Span(start, block.span.end))
        return
    yield _Row(0, f"{head} {{", Span(start, start))
    previous: Item | TestItem | None = None
    for item in block.items:
        gap = source.text.rfind("\n\n", previous.span.end, item.span.start) if previous else -1
        if gap >= 0:
            yield _Row(1, "", Span(gap, gap))
        wide = not any(item.span.start < c.offset < item.span.end for c in comments)
        if isinstance(item, Item):
            yield from _item(item, source, wide=wide)
        else:
            yield _Row(1, _test_item(item), item.span)
        previous = item
    yield _Row(0, "}", Span(block.span.end - 1, block.span.end))


def _parameters(
    head: str, policy: Policy, comments: list[_Comment], source: Source
) -> tuple[list[_Row], str]:
    """The rows of a head with parameters: all but the last, and the last without its brace.

    All of them stand on one line, or each on its own.
    """
    parameters = policy.parameters
    line = f"{head} ({', '.join(map(print_parameter, parameters))})"
    start, end = policy.span.start, _closing(policy, source)
    if len(f"{line} {{") <= WIDTH and not any(start < c.offset < end for c in comments):
        return [], line
    rows = [_Row(0, f"{head} (", Span(start, start))]
    for number, parameter in enumerate(parameters, 1):
        comma = "," if number < len(parameters) else ""
        span = Span(parameter.name_span.start, _end(parameter))
        rows.append(_Row(1, f"{print_parameter(parameter)}{comma}", span))
    return rows, ")"


def _closing(policy: Policy, source: Source) -> int:
    """The place of the bracket behind the parameters: the last one before the brace."""
    found = start = _end(policy.parameters[-1])
    for match in _COMMENT_OR_BRACKET.finditer(source.text, start):
        if match["bracket"] == "{":
            break
        found = match.start() if match["bracket"] else found
    return found


def _end(parameter: Parameter) -> int:
    default = parameter.default
    return parameter.type_span.end if default is None else default.span.end


def _item(item: Item, source: Source, *, wide: bool) -> Iterator[_Row]:
    match item:
        case Setting(name, value):
            shown = print_string(str(value)) if name == "description" else value
            yield _Row(1, f"{name} {shown}".rstrip(), item.span)
        case Use(name, arguments):
            values = ", ".join(f"{a.name}: {print_expression(a.value)}" for a in arguments)
            yield _Row(1, f"use {print_string(name)}{f' ({values})' if values else ''}", item.span)
        case ForPods(where):
            yield from _wrapped(1, "for pods where ", where, item.span)
        case Let(name, value):
            yield from _wrapped(1, f"let {name} = ", value, item.span)
        case Def():
            parameters = ", ".join(map(print_parameter, item.parameters))
            head = f"def {item.name}({parameters}): {item.result} = "
            yield from _wrapped(1, head, item.body, item.span)
        case Group(name, by):
            yield from _wrapped(1, f"group {name} by ", by, item.span)
        case Count(name, pods, per):
            *others, (head, of_pods, _) = _pod_set(pods)
            assert of_pods is not None, "a count has a condition"
            whole = "".join(f"{text}{print_expression(e)} " for text, e, _ in others if e)
            of = "" if per.scope == "cluster" else f" {next(_per(per))[0]}"
            yield from _wrapped(1, f"count {name}{of} = {whole}{head}", of_pods, item.span)
        case Data():
            yield from _data(item, wide=wide)
        case _:
            yield from _clause(item, source, wide=wide)


def print_data(data: Data) -> str:
    """A data block on one line."""
    lines = [f"data {print_string(data.name)} {{", *_source(data), *_ages(data)]
    if own := _own_columns(data):
        lines.append(f"columns {{ {', '.join(map(_column, own))} }}")
    return " ".join((*lines, "}"))


def _data(data: Data, *, wide: bool) -> Iterator[_Row]:
    line = print_data(data)
    if wide and len(_INDENT) + len(line) <= WIDTH:
        yield _Row(1, line, data.span)
        return
    start = data.span.start
    yield _Row(1, f"data {print_string(data.name)} {{", Span(start, start))
    source = list(_source(data))
    if len(joined := " ".join(source)) + 2 * len(_INDENT) <= WIDTH:
        source = [joined]
    for number, text in enumerate(source):
        yield _Row(2 + (number > 0), text, data.from_span)
    spans = (data.every_span, data.stale_span)
    for text in _ages(data):
        yield _Row(2, text, spans[text.startswith("stale")])
    yield from _columns(data, wide=wide)
    yield _Row(1, "}", Span(data.span.end - 1, data.span.end))


def _source(data: Data) -> Iterator[str]:
    """Where the rows come from, in the one or two lines that it may take."""
    names, source = dict(data.names), data.source

    def text(field: str, given: str) -> str:
        return print_expression(names[field]) if field in names else print_string(given)

    match source:
        case FromMetrics():
            yield "from metrics"
        case FromPrometheus(url, query, key):
            yield f"from prometheus {text('url', url)}"
            yield f"query {text('query', query)} key {text('key', key)}"
        case FromConfigMap(name, entry, by):
            yield f"from configmap {text('name', name)}"
            yield f"key {text('entry', entry)} by {text('by', by)}"
        case FromFile(path, by):
            yield f"from file {text('path', path)}"
            yield f"by {text('by', by)}"
        case FromObjects(kind, by):
            yield f"from objects {text('kind', kind)}"
            yield f"by {print_expression(by)}"
        case _:
            assert_never(source)


def _ages(data: Data) -> Iterator[str]:
    if data.every != EVERY_SECONDS:
        yield f"every {print_length(data.every)}"
    if data.stale != usual_stale(data.source, data.every):
        yield f"stale after {print_length(data.stale)}"


def _own_columns(data: Data) -> tuple[Column, ...]:
    return data.columns[len(data.source.columns) :]


def _columns(data: Data, *, wide: bool) -> Iterator[_Row]:
    """All of them on one line, or each on its own."""
    own, at = _own_columns(data), data.columns_span
    if not own:
        return
    line = f"columns {{ {', '.join(map(_column, own))} }}"
    if wide and 2 * len(_INDENT) + len(line) <= WIDTH:
        yield _Row(2, line, at)
        return
    yield _Row(2, "columns {", Span(at.start, at.start))
    for number, column in enumerate(own, 1):
        comma = "," if number < len(own) else ""
        span = Span(column.span.start, column.type_span.end)
        yield _Row(3, f"{_column(column)}{comma}", span)
    yield _Row(2, "}", Span(at.end - 1, at.end))


def _column(column: Column) -> str:
    if column.value is None:
        return f"{column.name}: {column.type}"
    return f"{column.name} = {print_expression(column.value)}"


def print_parameter(parameter: Parameter) -> str:
    """A parameter as it is declared."""
    text = f"{parameter.name}: {parameter.type}"
    default = parameter.default
    return text if default is None else f"{text} = {print_expression(default)}"


def _weight(weight: float | ast.Expr) -> str:
    shown = print_expression(weight) if isinstance(weight, ast.Expr) else print_number(weight)
    return f"weight {shown}"


def _wrapped(depth: int, head: str, expr: ast.Expr, span: Span) -> Iterator[_Row]:
    """`head expr` on one line, or a long chain of `&&` or `||` with one operand a line."""
    line = head + print_expression(expr)
    chain = operands(expr)
    if chain is None or len(_INDENT) * depth + len(line) <= WIDTH:
        yield _Row(depth, line, span)
        return
    op, printed = chain
    yield _Row(depth, head + printed[0], Span(span.start, span.start))
    for operand in printed[1:-1]:
        yield _Row(depth + 2, f"{op} {operand}", Span(span.end - 1, span.end - 1))
    yield _Row(depth + 2, f"{op} {printed[-1]}", span)


def _clause(clause: Clause, source: Source, *, wide: bool) -> Iterator[_Row]:
    head = f"{clause.keyword} {print_string(clause.name)}"
    if isinstance(clause, Score):
        head += f" {_weight(clause.weight)}"
    if clause.when is not None:
        head += f" when {print_expression(clause.when)}"
    parts = list(_parts(clause, source))
    texts = (h + print_expression(e) if e else h for h, e, _ in parts)
    line = f"{head} {{ {' '.join(texts)} }}"
    single = not isinstance(clause, Filter | Preempt) or len(parts) <= 2
    if wide and single and len(_INDENT) + len(line) <= WIDTH:
        yield _Row(1, line, clause.span)
        return
    yield _Row(1, f"{head} {{", Span(clause.span.start, clause.span.start))
    for part, expr, span in parts:
        at = span or Span(clause.span.end, clause.span.end)
        if expr is not None:
            yield from _wrapped(2, part, expr, at)
        else:
            yield _Row(2, part, at)
    yield _Row(1, "}", Span(clause.span.end - 1, clause.span.end))


_Part = tuple[str, ast.Expr | None, Span | None]


def _parts(clause: Clause, source: Source) -> Iterator[_Part]:
    """The lines of a clause in canonical order: keywords, an expression, and the span."""
    match clause:
        case Filter():
            yield from (("require ", e, e.span) for e in clause.requires)
            if (wait := clause.wait) is not None:
                shown, most = print_expression(wait.condition), print_length(wait.seconds)
                yield f"wait until {shown} for at most {most}", None, wait.span
        case Score():
            yield from _score(clause)
        case Share():
            yield from _pod_set(clause.pods, "of ", named=True)
            yield "on nodes where ", clause.on, clause.on.span
            yield _bound(clause.bound)
        case Spread():
            yield from _pod_set(clause.pods)
            if clause.nodes is not None:
                yield f"nodes {clause.nodes}", None, None
            pairs = (("over ", clause.over), ("within ", clause.within))
            yield from ((word, e, e.span) for word, e in pairs if e is not None)
            yield _number("skew at most", clause.skew, None)
            if clause.min_domains is not None:
                yield _number("min domains", clause.min_domains, None)
        case Limit():
            yield from _pod_set(clause.pods)
            yield from _per(clause.per)
            yield _bound(clause.bound)
        case Cards():
            yield from _cards(clause)
        case Gang():
            yield from _gang(clause)
        case Preempt():
            yield from (("protect victim where ", e, e.span) for e in clause.protect)
            if clause.allow is not None:
                yield "allow when ", clause.allow, clause.allow.span
            if clause.keep is not None:
                yield f"keep {clause.keep.count} by ", clause.keep.by, clause.keep.by.span
        case _:
            assert_never(clause)
    if isinstance(clause, CountingClause):
        weight = clause.strength.weight
        words = "strict" if weight is None else f"best effort {_weight(weight)}"
        yield words, None, clause.strength.span
        if isinstance(clause, Limit) and clause.mutual:
            yield "mutual", None, None
    for part, text in clause.texts:
        if text is not None:
            # Exactly as the user wrote it.
            yield f"{part} {source.slice(text.span)}", None, text.span
    if clause.missing is not None:
        missing = clause.missing
        yield (
            f"missing {missing if isinstance(missing, str) else print_number(missing)}",
            None,
            None,
        )


def _score(clause: Score) -> Iterator[_Part]:
    yield "value ", clause.value, clause.value.span
    match clause.range:
        case Bounds(low, high):
            yield f"range {print_expression(low)} .. {print_expression(high)}", None, None
        case str() as word:
            yield f"range {word}", None, None
        case None:
            pass


def _cards(clause: Cards) -> Iterator[_Part]:
    yield _amounts("on node ", clause.count, clause.on)
    yield _amounts("take ", clause.number, clause.take)
    if clause.index is not None:
        yield f"index in annotation {print_string(clause.index)}", None, None
    if clause.pick is not None:
        yield f"pick {clause.pick.order} ", clause.pick.by, clause.pick.by.span
    if clause.writes is not None:
        yield "write ", clause.writes, clause.writes.span


def _gang(clause: Gang) -> Iterator[_Part]:
    if clause.by is None:
        yield "of replicas", None, None
    else:
        yield "of pods by ", clause.by, clause.by.span
    if clause.at_least is not None:
        yield _bound(Bound("at least", clause.at_least, clause.percent))
    if clause.within is not None:
        yield "within ", clause.within, clause.within.span
    if clause.seconds_span != ast.NO_SPAN:
        yield f"for at most {print_length(clause.seconds)}", None, clause.seconds_span


def _amounts(head: str, number: ast.Expr | None, amounts: ast.Expr) -> _Part:
    """`head [number of] amounts`."""
    if number is None:
        return head, amounts, amounts.span
    span = Span(number.span.start, amounts.span.end)
    return f"{head}{print_expression(number)} of ", amounts, span


def _pod_set(pods: PodSet | None, head: str = "", *, named: bool = False) -> Iterator[_Part]:
    """`named` says that a sum names the pods of the workload, too."""
    if pods is None:
        return
    if pods.amount is not None:
        yield "sum ", pods.amount, pods.amount.span
        head = "of "
    if pods.where is None:
        if named or pods.amount is None:
            yield f"of {'revision' if pods.revision else 'replicas'}", None, pods.span
    else:
        words = "all " if pods.all else "placed " if pods.placed else ""
        words += f"{pods.state} " if pods.state else ""
        yield f"{head}{words}pods where ", pods.where, pods.where.span


def _per(per: Per) -> Iterator[_Part]:
    if per.amount is not None:
        yield "sum ", per.amount, per.amount.span
    head = f"{'' if per.of_nodes else 'per '}{'' if per.amount is None else 'over '}{per.scope}"
    if per.group:
        yield f"{head} {per.group}", None, None
    elif per.where is not None:
        yield f"{head} where ", per.where, per.where.span
    elif per.domain is not None:
        yield f"{head} ", per.domain, per.domain.span
    else:
        yield head, None, None


def _bound(bound: Bound) -> _Part:
    rounding = f" rounding {bound.rounding}" if bound.rounding else ""
    if bound.percent and isinstance(bound.amount, ast.Expr):
        return f"{bound.kind} {print_expression(bound.amount)}%{rounding}", None, bound.span
    unit = f"%{rounding}" if bound.percent else ""
    return _number(bound.kind, bound.amount, bound.span, unit)


def _number(head: str, number: float | ast.Expr, span: Span | None, unit: str = "") -> _Part:
    """A number behind a keyword, or the expression for it."""
    if isinstance(number, ast.Expr):
        return f"{head} ", number, span or number.span
    return f"{head} {print_number(number)}{unit}", None, span


def _test_item(item: TestItem) -> str:
    match item:
        case TestObject(kind, name, body, on):
            text = f"{kind} {print_string(name)}{' ' + print_expression(body) if body else ''}"
            return f"{text} on {print_string(on)}" if on is not None else text
        case TestData(name, body):
            return f"data {print_string(name)} {print_expression(body)}"
        case ClusterFile(path):
            return f"cluster {print_string(path)}"
        case TestTime(time):
            return f"at {print_string(time)}"
        case Expectation("pass" | "bound" as kind, node):
            return f"expect {kind} {print_string(node)}"
        case Expectation("reject" | "held" as kind, node, clause):
            text = f"expect {kind} {print_string(node)} by {print_string(clause or '')}"
            return text if item.message is None else f"{text} message {print_string(item.message)}"
        case Expectation("evict", node):
            victims = ", ".join(map(print_string, item.victims)) or "none"
            return f"expect evict {victims} on {print_string(node)}"
        case Expectation(_, node, _, op, number):
            return f"expect score {print_string(node)} {op} {print_number(number or 0)}"
        case _:
            assert_never(item)


def _join(rows: list[_Row], comments: list[_Comment]) -> str:
    """The text of the rows, with each comment before or behind its row."""
    lines: list[str] = []
    waiting = list(comments)
    for row in rows:
        while waiting and waiting[0].offset < row.span.start:
            comment = waiting.pop(0)
            if comment.trailing and lines and lines[-1] and not lines[-1].lstrip().startswith("#"):
                lines[-1] = f"{lines[-1]}  {comment.text}"
            else:
                if comment.apart and lines and lines[-1]:
                    lines.append("")
                lines.append(_INDENT * (row.depth + (row.text == "}")) + comment.text)
        if row.text or (lines and lines[-1]):
            lines.append(_INDENT * row.depth + row.text if row.text else "")
    for comment in waiting:
        if comment.trailing and lines:
            lines[-1] = f"{lines[-1]}  {comment.text}"
        else:
            if comment.apart and lines and lines[-1]:
                lines.append("")
            lines.append(comment.text)
    return "\n".join(lines) + "\n" if lines else ""
