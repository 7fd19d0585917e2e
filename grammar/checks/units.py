"""Units: amounts of memory and cpu without the unit that is meant, and bounds without a `%`.

A number beside a quantity is one of bytes or of cores, which is seldom meant where it is 16 of
memory or 500 of cpu. The checks look at policies that are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.extents import measured
from grammar.meaning.folding import constant, constants
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, write_instead
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.clauses import Limit, Score, Share, of_kind
from grammar.tree.source import Span
from grammar.tree.types import QUANTITY, STRING
from grammar.tree.walk import rewritten, walk
from grammar.values.quantity import NANO, Quantity

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "in")
# Nobody means less memory than this, except 0.
_LEAST_BYTES = 100_000
# What is added may be small, but no part of a KiB.
_LEAST_ADDED = 1024 * NANO
# So many cores no node has; and from here on, hundreds and fifties are millicores.
_MOST_CORES = 1000
_MANY_CORES = 100
_ROUND_CORES = 50
# A share of this many pods, if it is round, is mostly a percentage.
_LEAST_PERCENT = 20
_ROUND_PERCENT = 5
_THIRDS = (33, 66, 67)
_PERCENT = 100
# Parts of a whole that people write.
_PARTS = frozenset(
    {0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95}
)


def amounts_without_unit(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0343) for memory beside a few bytes, or cpu beside many cores."""
    match expr:
        case ast.Call("compareTo" | "isGreaterThan" | "isLessThan", value, (amount,)) if value:
            compared = ast.Binary("<", value, amount, expr.span)
            for said in amounts_without_unit(compared, environment):
                meant = f"quantity({_meant(said)})"
                edit = Fix(amount.span, meant)
                yield replace(said, hint=f"write `{meant}`", remedy=edit)
            return
        case ast.Chain("+", parts) | ast.Binary("-", _, right=ast.Literal() as parts) if (
            expr.type == QUANTITY and (resource := resource_of(expr)) is not None
        ):
            for part in parts if isinstance(parts, tuple) else (parts,):
                for found in constants(part, environment):
                    if isinstance(found.value, Quantity) and found.value.nanos < _LEAST_ADDED:
                        added = ast.Binary("+", expr, found, expr.span)
                        for said in _without_unit(resource, found, expr, added, environment):
                            yield replace(said, hint=f"write `{_meant(said)}`")
            return
        case ast.Binary(op, left, right) if op in _RELATIONS:
            for number, other in ((left, right), (right, left)):
                yield from _number_of_bytes(expr, number, other, environment)
        case _:
            return
    for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if value.type != QUANTITY or (resource := resource_of(value)) is None:
            continue
        listed = other.elements if isinstance(other, ast.ListLiteral) else (other,)
        amounts = [c for each in listed for c in constants(each, environment)]
        warned = {
            found: warning
            for found in amounts
            if isinstance(found.value, Quantity)
            for warning in _without_unit(resource, found, value, expr, environment)
        }
        if len(amounts) == 1 or not warned:
            yield from warned.values()
            continue
        # All constants of a list, and all results of a `?:`, are of one type.
        texts = {a.span: _meant(warned[a]) if a in warned else f'"{a.value}"' for a in amounts}

        def mended(node: object, texts: Mapping[Span, str] = texts) -> object:
            text = texts.get(node.span) if isinstance(node, ast.Literal) else None
            return ast.Literal(text.strip('"'), STRING) if text is not None else node

        meant = print_as_written(rewritten(other, mended), environment.schema)
        meant = f"({meant})" if isinstance(other, ast.Conditional) else meant
        first, edit = next(iter(warned.values())), Fix(other.span, meant)
        yield replace(first, span=other.span, hint=f"write `{meant}`", remedy=edit)


def _number_of_bytes(
    expr: ast.Binary, number: ast.Expr, other: ast.Expr, environment: Environment
) -> Iterator[Diagnostic]:
    """`int(node.free["memory"]) > 16`, which makes a number of an amount to compare it."""
    read = measured(number)
    if read is None or read.type != QUANTITY or (resource := resource_of(read)) is None:
        return
    for found in constants(other, environment):
        if not isinstance(found.value, int):
            continue
        amount = ast.Literal(Quantity(found.value * NANO), QUANTITY, found.span)
        sides = (read, amount) if number is expr.left else (amount, read)
        compared = replace(expr, left=sides[0], right=sides[1])
        for said in _without_unit(resource, amount, read, compared, environment):
            shown = print_as_written(read, environment.schema)
            pair = (shown, _meant(said)) if number is expr.left else (_meant(said), shown)
            text = f"{pair[0]} {expr.op} {pair[1]}"
            edit = Fix(expr.span, text)
            yield replace(said, span=expr.span, hint=f"write `{text}`", remedy=edit)


def resource_of(expr: ast.Expr) -> str | None:
    """The only resource that an expression is an amount of."""
    found = set()
    for part in walk(expr):
        match part:
            case ast.Index(_, ast.Literal(str() as name)) if part.type == QUANTITY:
                found.add(name)
            case ast.Select(_, "cpu" | "memory" as name) if part.type == QUANTITY:
                found.add(name)
            case ast.Binary("*" | "/" | "%"):
                # A part, or a number of times, of an amount.
                return None
            case _:
                continue
    return found.pop() if len(found) == 1 else None


def _without_unit(
    resource: str, found: ast.Literal, value: ast.Expr, expr: ast.Binary, environment: Environment
) -> Iterator[Diagnostic]:
    amount = found.value
    assert isinstance(amount, Quantity), "the caller has looked"
    number, rest = divmod(amount.nanos, NANO)
    if amount.nanos <= 0:
        return
    is_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    if is_bytes and rest and number < _LEAST_BYTES and expr.op in _RELATIONS:
        yield from _part_of_byte(resource, found, value, expr, environment)
        return
    if rest:
        return
    if is_bytes and number < _LEAST_BYTES:
        said = f"{number} byte{'s' * (number > 1)}"
        meant = f"{number}Gi" if number <= 1024 else f"{number}Mi"
    elif resource == "cpu" and str(amount).endswith("i") and not found.let:
        # An amount of memory.
        shown = print_as_written(value, environment.schema)
        message = f"`{shown}` is compared with {number} cores"
        meant = f'"{str(amount).rstrip("KMGTPEi")}"'
        hint = f"write `{meant}` for cores, or read `memory`"
        edit = Fix(found.span, meant)
        yield Diagnostic("P0343", "warning", message, found.span, hint=hint, remedy=edit)
        return
    elif resource == "cpu" and (
        _MOST_CORES <= number < _LEAST_BYTES
        or (number >= _MANY_CORES and number % _ROUND_CORES == 0)
    ):
        said, meant = f"{number} cores", f"{number}m"
    else:
        return
    shown = print_as_written(value, environment.schema)
    message = f"`{shown}` is compared with {said}"
    message = message if expr.op in _RELATIONS else f"this is {said}"
    sides = (shown, f'"{meant}"') if value is expr.left else (f'"{meant}"', shown)
    edit = Fix(found.span, f'"{meant}"')
    hint = f"write `{sides[0]} {expr.op} {sides[1]}`"
    yield Diagnostic("P0343", "warning", message, found.span, hint=hint, remedy=edit)


def _part_of_byte(
    resource: str, found: ast.Literal, value: ast.Expr, expr: ast.Binary, environment: Environment
) -> Iterator[Diagnostic]:
    """`node.free["memory"] > 0.1`, which means a part, and `"512m"`, which means megabytes."""
    amount = found.value
    assert isinstance(amount, Quantity), "the caller has looked"
    shown = print_as_written(value, environment.schema)
    message = f"`{shown}` is compared with less than a byte"
    if amount.nanos >= NANO:
        message = f"`{shown}` is compared with a part of a byte"
    part = amount.nanos / NANO
    written = str(amount)
    root = value
    while isinstance(root, ast.Index | ast.Select):
        root = root.operand
    is_node = isinstance(root, ast.Ident) and root.name == "node"
    is_milli = written.endswith("m") and amount.nanos * 1000 % NANO == 0
    if is_milli and not (is_node and part in _PARTS):
        meant = f'"{amount.nanos * 1000 // NANO}Mi"'
        edit, hint = Fix(found.span, meant), f"write `{meant}`"
    elif isinstance(value, ast.Index) and is_node:
        whole = f'{shown} / node.allocatable["{resource}"]'
        sides = (whole, f"{part:g}") if value is expr.left else (f"{part:g}", whole)
        meant = f"{sides[0]} {expr.op} {sides[1]}"
        edit, hint = Fix(expr.span, meant), f"write `{meant}`"
    else:
        return
    yield Diagnostic("P0343", "warning", message, found.span, hint=hint, remedy=edit)


def _meant(said: Diagnostic) -> str:
    """The amount with its unit that a warning says to write."""
    assert said.remedy is not None, "the amount with its unit"
    return said.remedy.text


def ranges_without_unit(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0343) for each end of a range of memory that is a few bytes."""
    for clause in of_kind(checked.policy.items, Score):
        value, ends = clause.value, clause.range
        if not isinstance(ends, Bounds) or value.type != QUANTITY:
            continue
        if (resource := resource_of(value)) is None:
            continue
        for end in (ends.low, ends.high):
            for found in constants(end, checked.environment):
                if isinstance(found.value, Quantity):
                    compared = ast.Binary("<", value, found, end.span)
                    for said in _without_unit(
                        resource, found, value, compared, checked.environment
                    ):
                        yield replace(said, hint=f"write `{_meant(said)}`")


def sums_without_unit(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0343) for the bound of a sum that is a few bytes, or many cores."""
    for clause in of_kind(checked.policy.items, Limit):
        added = clause.pods.amount if clause.pods is not None else None
        amount = clause.bound.amount
        if added is None or added.type != QUANTITY:
            continue
        if not isinstance(amount, ast.Expr):
            amount = ast.Literal(Quantity(int(amount * NANO)), QUANTITY, clause.bound.span)
        if (resource := resource_of(added)) is None:
            continue
        if resource == "cpu" and clause.per.scope != "node":
            # The pods of a zone or of a cluster may well have thousands of cores.
            continue
        for found in constants(amount, checked.environment):
            if isinstance(found.value, Quantity):
                compared = ast.Binary("<", added, found, amount.span)
                for said in _without_unit(resource, found, added, compared, checked.environment):
                    meant = f"{clause.bound.kind} {_meant(said)}"
                    edit = Fix(clause.bound.span, meant)
                    yield replace(said, hint=f"write `{meant}`", remedy=edit)


def sums_of_resources(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0352) for `node.free["cpu"] + node.free["memory"]`, cores and bytes."""
    if not isinstance(expr, ast.Chain) or expr.op != "+":
        return
    amounts = [o for o in expr.operands if o.type == QUANTITY]
    named = {name for o in amounts if (name := resource_of(o)) is not None}
    if len(named) > 1 and len(amounts) == len(expr.operands):
        one, other, *_ = sorted(named)
        message = f"this adds `{one}` to `{other}`"
        first = print_as_written(amounts[0], environment.schema)
        hint = f"write parts of a whole, as in `{first} / node.allocatable[…]`"
        yield Diagnostic("P0352", "warning", message, expr.span, hint=hint)


def divisions_without_rest(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0332) for `2/3`, which is 0: a part of a whole is a number with a point."""
    del environment
    match expr:
        case ast.Binary("/", ast.Literal(int() as part), ast.Literal(int() as whole)) if (
            0 < part < whole
        ):
            message = "this is 0: whole numbers are divided without a rest"
            made = f"{part}.0 / {whole}.0"
            hint = f"write `{made}`, or a percentage in a bound: `{_PERCENT * part // whole}%`"
            yield Diagnostic("P0332", "warning", message, expr.span, hint=hint)
        case _:
            return


def shares_without_percent(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0347) for each bound of a share that is as round as a percentage."""
    for clause in of_kind(checked.policy.items, Share):
        bound = clause.bound
        number = constant(bound.amount, checked.environment)
        if bound.percent and number is not None and 0 < number < 1:
            meant = f"{bound.kind} {_PERCENT * number:g}%"
            message = f"{number:g}% is less than one of {_PERCENT} pods"
            yield write_instead("P0347", message, bound.span, meant)
            continue
        if number is None or bound.percent or isinstance(bound.amount, ast.Expr):
            continue
        is_round = number % _ROUND_PERCENT == 0 or number in _THIRDS
        if not is_round or not _LEAST_PERCENT <= number <= _PERCENT:
            continue
        meant = f"{bound.kind} {number:g}%"
        message = f"this is {number:g} pods, and not a part of them"
        hint = f"write `{meant}` for a part, or name the number of pods by a `let`"
        edit = Fix(bound.span, meant)
        yield Diagnostic("P0347", "warning", message, bound.span, hint=hint, remedy=edit)
