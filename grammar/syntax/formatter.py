"""Formatter: files in canonical layout, such that parse(format(tree)) == tree; `placet fmt`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import assert_never

from grammar.clauses import KINDS
from grammar.clauses.kind import Line
from grammar.clauses.parts import per_lines, pod_lines
from grammar.syntax.parser import Lexemes
from grammar.tree import ast
from grammar.tree.clause_parts import AnyClause
from grammar.tree.policy import (
    EVERY_SECONDS,
    ClusterFile,
    Column,
    Count,
    Data,
    Def,
    Expectation,
    File,
    ForPods,
    Group,
    Item,
    Let,
    Parameter,
    Policy,
    Setting,
    Test,
    TestData,
    TestItem,
    TestObject,
    TestTime,
    Use,
    usual_stale,
)
from grammar.tree.printer import (
    operands,
    print_expression,
    print_length,
    print_number,
    print_string,
)
from grammar.tree.source import Source, Span

WIDTH = 100
_INDENT = "  "
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
    for comment in Lexemes(text).comments:
        before = text[: comment.start]
        line = before[before.rfind("\n") + 1 :]
        apart = re.search(r"\n[ \t\r]*\n[ \t\r]*\Z", before) is not None
        body = re.sub(r"\A(?:#|//)", "#", comment.text).rstrip()
        yield _Comment(comment.start, body, bool(line.strip()), apart)


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
    """The place of the bracket behind the parameters: the last lexeme before the brace."""
    start = _end(policy.parameters[-1])
    behind = Lexemes(source.text[start : policy.span.end]).items
    *_, closing = takewhile(lambda item: item.text != "{", behind)
    return start + closing.start


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
            *others, (head, of_pods, _) = pod_lines(pods)
            assert of_pods is not None, "a count has a condition"
            whole = "".join(f"{text}{print_expression(e)} " for text, e, _ in others if e)
            ((words, place, _),) = per_lines(per)
            words += print_expression(place) if place is not None else ""
            of = "" if per.place == "cluster" else f" {words}"
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
        yield _Row(2, text, spans[text.startswith("for")])
    yield from _columns(data, wide=wide)
    yield _Row(1, "}", Span(data.span.end - 1, data.span.end))


def _source(data: Data) -> Iterator[str]:
    """Where the rows come from, in the one or two lines that it may take."""
    names, source = dict(data.names), data.source
    given = [names.get(field, getattr(source, field)) for field in source.__match_args__]
    texts = [print_expression(g) if isinstance(g, ast.Expr) else print_string(g) for g in given]
    yield " ".join(("from", source.word, *texts[:1]))
    if others := [f"{word} {text}" for word, text in zip(source.words, texts[1:], strict=True)]:
        yield " ".join(others)


def _ages(data: Data) -> Iterator[str]:
    if data.every != EVERY_SECONDS:
        yield f"every {print_length(data.every)}"
    if data.stale != usual_stale(data.source, data.every):
        yield f"for at most {print_length(data.stale)}"


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
    value = [print_expression(column.value)] if column.over != "count" else []
    return " ".join([column.name, "=", *filter(None, [column.over]), *value])


def print_parameter(parameter: Parameter) -> str:
    """A parameter as it is declared."""
    text = f"{parameter.name}: {parameter.type}"
    default = parameter.default
    return text if default is None else f"{text} = {print_expression(default)}"


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


def _clause(clause: AnyClause, source: Source, *, wide: bool) -> Iterator[_Row]:
    kind = KINDS[clause.keyword]
    words = (
        clause.keyword,
        print_string(clause.name),
        *(h for h, *_ in kind.lines(clause, in_head=True)),
    )
    head = " ".join(words)
    if clause.when is not None:
        head += f" when {print_expression(clause.when)}"
    lines = [*kind.lines(clause), *_common(clause, source)]
    texts = (h + print_expression(e) if e else h for h, e, _ in lines)
    line = f"{head} {{ {' '.join(texts)} }}"
    single = not kind.repeats or len(lines) <= 2
    if wide and single and len(_INDENT) + len(line) <= WIDTH:
        yield _Row(1, line, clause.span)
        return
    yield _Row(1, f"{head} {{", Span(clause.span.start, clause.span.start))
    for text, expr, span in lines:
        at = span or Span(clause.span.end, clause.span.end)
        if expr is not None:
            yield from _wrapped(2, text, expr, at)
        else:
            yield _Row(2, text, at)
    yield _Row(1, "}", Span(clause.span.end - 1, clause.span.end))


def _common(clause: AnyClause, source: Source) -> Iterator[Line]:
    """The lines that all kinds may have."""
    for word, text in clause.texts:
        if text is not None:
            # Exactly as the user wrote it.
            yield f"{word} {source.slice(text.span)}", None, text.span
    if (missing := clause.missing) is not None:
        shown = missing if isinstance(missing, str) else print_number(missing)
        yield f"missing {shown}", None, None


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
        case Expectation("pass" | "bind" | "reject" | "wait" as kind, node, clause):
            by = "" if clause is None else f" by {print_string(clause)}"
            text = f"expect {kind} {print_string(node)}{by}"
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
