"""The canonical layout of a policy file: `placet fmt`.

Comments stay beside what they stood beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from grammar.ast import Expr
from grammar.clauses import (
    At,
    Bound,
    Bounds,
    Clause,
    ClusterFile,
    Def,
    Expectation,
    File,
    Filter,
    ForPods,
    Item,
    Let,
    Limit,
    MissingRule,
    PodSet,
    Policy,
    Preempt,
    Score,
    Setting,
    Share,
    Spread,
    Strength,
    Template,
    Test,
    TestItem,
    TestNode,
    TestPod,
    Use,
)
from grammar.printer import operands, print_expression, print_string
from grammar.source import Source, Span

WIDTH = 100
_INDENT = "  "
_COMMENT = re.compile(
    r"\"\"\"(?:\\[\s\S]|(?!\"\"\")[^\\])*\"\"\"|'''(?:\\[\s\S]|(?!''')[^\\])*'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?P<comment>(?:#|//)[^\n]*)",
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True, slots=True)
class _Row:
    """A printed line and the stretch of source it came from; a closing brace has only its end."""

    depth: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment; `trailing` if its line has more than it, `apart` after an empty line."""

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
        yield _Comment(
            match.start(),
            "#" + (body[1:] if body[0] == "#" else body[2:]),
            bool(line.strip()),
            apart,
        )


def _block(block: Policy | Test, comments: list[_Comment], source: Source) -> Iterator[_Row]:
    match block:
        case Policy():
            name = block.name if _NAME.match(block.name) else print_string(block.name)
            head = f"cluster policy {name}" if block.cluster else f"policy {name}"
            if block.namespace is not None:
                head += f" in namespace {print_string(block.namespace)}"
        case Test():
            head = f"test {print_string(block.name)}"
        case _:
            assert_never(block)
    if not block.items and not any(block.span.start < c.offset < block.span.end for c in comments):
        yield _Row(0, f"{head} {{ }}", block.span)
        return
    yield _Row(0, f"{head} {{", Span(block.span.start, block.span.start))
    previous: Item | TestItem | None = None
    for item in block.items:
        gap = source.text.rfind("\n\n", previous.span.end, item.span.start) if previous else -1
        if gap >= 0:
            yield _Row(0, "", Span(gap, gap))
        wide = not any(item.span.start < c.offset < item.span.end for c in comments)
        yield from (
            _item(item, 1, source, wide=wide)
            if isinstance(item, Item)
            else (_Row(1, _test_item(item), item.span),)
        )
        previous = item
    yield _Row(0, "}", Span(block.span.end - 1, block.span.end))


def _item(item: Item, depth: int, source: Source, *, wide: bool) -> Iterator[_Row]:
    match item:
        case Setting(name, value):
            yield _Row(
                depth,
                f"{name} {print_string(str(value)) if name == 'description' else value}",
                item.span,
            )
        case Use(name):
            yield _Row(depth, f"use {print_string(name)}", item.span)
        case ForPods(where):
            yield from _wrapped(depth, "for pods where ", where, item.span)
        case Let(name, value):
            yield from _wrapped(depth, f"let {name} = ", value, item.span)
        case Def():
            parameters = ", ".join(f"{p.name}: {p.type}" for p in item.parameters)
            yield from _wrapped(
                depth, f"def {item.name}({parameters}): {item.result} = ", item.body, item.span
            )
        case _:
            yield from _clause(item, depth, source, wide=wide)


def _wrapped(depth: int, head: str, expr: Expr, span: Span) -> Iterator[_Row]:
    """`head expr` on a line; too long a chain of `&&` or `||` goes one operand a line."""
    line = head + print_expression(expr)
    chain = operands(expr)
    if chain is None or len(_INDENT) * depth + len(line) <= WIDTH:
        yield _Row(depth, line, span)
        return
    op, printed = chain
    yield _Row(depth, head + printed[0], Span(span.start, span.start))
    for number, operand in enumerate(printed[1:], 2):
        yield _Row(
            depth + 2,
            f"{op} {operand}",
            span if number == len(printed) else Span(span.end - 1, span.end - 1),
        )


def _clause(clause: Clause, depth: int, source: Source, *, wide: bool) -> Iterator[_Row]:
    word = (
        "bind" if isinstance(clause, Filter) and clause.at_bind else type(clause).__name__.lower()
    )
    head = f"{word} {print_string(clause.name)}"
    if isinstance(clause, Score):
        head += f" weight {_number(clause.weight)}"
    if clause.when is not None:
        head += f" when {print_expression(clause.when)}"
    parts = list(_parts(clause, source))
    line = (
        f"{head} {{ {' '.join(f'{h}{print_expression(e) if e else str()}' for h, e, _ in parts)} }}"
    )
    single = not isinstance(clause, Filter | Preempt) or len(parts) <= 2
    if wide and single and len(_INDENT) * depth + len(line) <= WIDTH:
        yield _Row(depth, line, clause.span)
        return
    yield _Row(depth, f"{head} {{", Span(clause.span.start, clause.span.start))
    for part, expr, span in parts:
        at = (
            replace(clause.span, start=span.start, end=span.end)
            if span
            else Span(clause.span.end, clause.span.end)
        )
        yield from (
            _wrapped(depth + 1, part, expr, at)
            if expr is not None
            else (_Row(depth + 1, part, at),)
        )
    yield _Row(depth, "}", Span(clause.span.end - 1, clause.span.end))


_Part = tuple[str, Expr | None, Span | None]


def _parts(clause: Clause, source: Source) -> Iterator[_Part]:
    """The lines of a clause's block, in canonical order: words, an expression, where it stood."""
    match clause:
        case Filter():
            yield from (("require ", e, e.span) for e in clause.requires)
        case Score():
            yield "value ", clause.value, clause.value.span
            if clause.range is not None:
                yield _range(clause.range), None, None
        case Share():
            yield from _pod_set(clause.of, "of ")
            yield "on nodes where ", clause.on, clause.on.span
            yield _bound(clause.bound), None, clause.bound.span
        case Spread():
            yield from _pod_set(clause.pods, "") if clause.pods else ()
            yield "over ", clause.over, clause.over.span
            yield f"skew at most {clause.skew}", None, None
            if clause.min_domains is not None:
                yield f"min domains {clause.min_domains}", None, None
        case Limit():
            yield from _pod_set(clause.pods, "") if clause.pods else ()
            domain = clause.per.domain
            yield (
                f"per {clause.per.scope}{' ' if domain else ''}",
                domain,
                domain.span if domain else None,
            )
            yield _bound(clause.bound), None, clause.bound.span
        case Preempt():
            yield from (("protect victim where ", e, e.span) for e in clause.protect)
            if clause.allow is not None:
                yield "allow when ", clause.allow, clause.allow.span
            if clause.keep is not None:
                yield f"keep {clause.keep.count} by ", clause.keep.by, clause.keep.by.span
        case _:
            assert_never(clause)
    if isinstance(clause, Share | Spread | Limit):
        yield _strength(clause.strength), None, clause.strength.span
    if not isinstance(clause, Score | Preempt):
        yield from (
            _template(w, t, source)
            for w, t in (("message", clause.message), ("detail", clause.detail))
            if t
        )
    if clause.missing is not None:
        yield f"missing {_missing(clause.missing)}", None, None


def _pod_set(pods: PodSet, head: str) -> Iterator[_Part]:
    if pods.where is None:
        yield f"{head}replicas", None, pods.span
    else:
        words = "all " if pods.all else "placed " if pods.placed else ""
        yield f"{head}{words}pods where ", pods.where, pods.where.span


def _bound(bound: Bound) -> str:
    return f"{bound.kind} {_number(bound.amount)}{'%' if bound.percent else ''}"


def _strength(strength: Strength) -> str:
    return "strict" if strength.weight is None else f"best effort weight {_number(strength.weight)}"


def _range(given: Bounds | str) -> str:
    if isinstance(given, str):
        return f"range {given}"
    return f"range {print_expression(given.low)} .. {print_expression(given.high)}"


def _missing(rule: MissingRule) -> str:
    return rule if isinstance(rule, str) else _number(rule)


def _number(number: float) -> str:
    return str(number)


def _template(word: str, template: Template, source: Source) -> _Part:
    """A template stays as written: it is the user's text."""
    return f"{word} {source.slice(template.span)}", None, template.span


def _test_item(item: TestItem) -> str:
    match item:
        case TestNode(name, body):
            return f"node {print_string(name)}{' ' + print_expression(body) if body else ''}"
        case TestPod(name, body, on):
            text = f"pod {print_string(name)}{' ' + print_expression(body) if body else ''}"
            return f"{text} on {print_string(on)}" if on is not None else text
        case ClusterFile(path):
            return f"cluster {print_string(path)}"
        case At(time):
            return f"at {print_string(time)}"
        case Expectation("pass", node):
            return f"expect pass {print_string(node)}"
        case Expectation("reject", node, clause):
            return f"expect reject {print_string(node)} by {print_string(clause or '')}"
        case Expectation(_, node, _, op, number):
            return f"expect score {print_string(node)} {op} {_number(number or 0)}"
        case _:
            assert_never(item)


def _join(rows: list[_Row], comments: list[_Comment]) -> str:
    """The rows, every comment before or behind the row that it stood before or behind."""
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
            lines.extend(
                ["", comment.text] if comment.apart and lines and lines[-1] else [comment.text]
            )
    return "\n".join(lines) + "\n" if lines else ""
