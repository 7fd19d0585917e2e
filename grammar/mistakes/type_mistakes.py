"""Type mistakes: what to write for what the checker finds wrong; here for operators and conditions.

Fields are in `grammar.mistakes.fields`, names in `grammar.mistakes.names`, functions in
`grammar.mistakes.calls`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from grammar.meaning.schema import Schema, print_as_written
from grammar.messages import habits, plain_words
from grammar.messages.diagnostics import Diagnostic
from grammar.messages.helping import Remedy
from grammar.mistakes.calls import CallRemedies
from grammar.mistakes.fields import (
    KINDS,
    RELATIONS,
    grouped,
    is_read,
    replaced,
)
from grammar.tree import ast
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    QUANTITY,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
)
from grammar.tree.walk import walk

_CIDR = re.compile(r"[\d.]+/\d{1,2}|[0-9a-f:]+/\d{1,3}")
_CODE = re.compile(r"!?\(?(?:node|pod|peer|now|namespaceObject)\b[.\[]")
_CLOCK = re.compile(r"(\d{1,2}):\d\d(?::\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_YES = frozenset({"true", "yes", "1", "on", "ready"})
# A number that is no number of Gi.
_BYTES = 100_000
_NO = frozenset({"false", "no", "0", "off"})


class Remedies(CallRemedies):
    """Answers about one expression and its operators."""

    # ---- operators and conditions

    def operator(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """A comparison or calculation of two types that do not go together."""
        for value, constant, kind, is_right in (
            (expr.left, expr.right, left, True),
            (expr.right, expr.left, right, False),
        ):
            if isinstance(constant, ast.Literal):
                made = self._with_constant(expr, value, constant, kind, is_right=is_right)
                if made is not None:
                    return made
        if expr.op == "*" and {left, right} == {INT, BOOL}:
            # `100 * node.ready` of Python
            sides = (expr.left, expr.right) if left == BOOL else (expr.right, expr.left)
            test, points = map(print_expression, sides)
            return Remedy(expr.span, f"({test} ? {points} : 0)")
        if expr.op == "%" and left == STRING and isinstance(expr.left, ast.Literal):
            # `"%s-a" % pod.name` of Python
            said = f"[{print_expression(expr.right)}]"
            return Remedy(expr.span, f"{print_expression(expr.left)}.format({said})")
        if expr.op == "in":
            return self._membership(expr, left, right)
        # `node.spec.taints == "gpu=true:NoSchedule"`
        is_text = right == STRING and isinstance(expr.right, ast.Literal)
        if expr.op in ("==", "!=") and left.name == "list" and is_text:
            inside = self._membership(replace(expr, left=expr.right, right=expr.left), right, left)
            denied = "" if expr.op == "==" else "!"
            return inside and Remedy(expr.span, f"{denied}{inside.text}")
        if (amount := self._amount(expr, left, right)) is not None:
            return amount
        number = expr.right.value if isinstance(expr.right, ast.Literal) else None
        if expr.op in ("+", "-") and left in (TIMESTAMP, DURATION) and isinstance(number, int):
            return self._beside(expr, expr.right, print_string(f"{number}s"))
        if {left, right} == {INT, DOUBLE}:
            texts = [
                f"double({print_expression(e)})" if k == INT else grouped(e)
                for e, k in ((expr.left, left), (expr.right, right))
            ]
            return Remedy(expr.span, f"{texts[0]} {expr.op} {texts[1]}")
        if "optional" in (left.name, right.name):
            return self._unwrapped(expr, left, right)
        return (
            self._chained(expr, left)
            or self._converted(expr, left, right)
            or self._of_record(expr, left, right)
        )

    def time(self, expr: ast.Binary, left: Type) -> Remedy | None:
        """`now > "22:00"` and `node.metadata.creationTimestamp > "2026-01-31"`."""
        given = expr.right.value if isinstance(expr.right, ast.Literal) else None
        if left != TIMESTAMP or not isinstance(given, str) or expr.op not in RELATIONS:
            return None
        if _CLOCK.fullmatch(given) is not None:
            sign = {">": ">=", "<=": "<"}.get(expr.op, expr.op)
            return Remedy(expr.span, _clock(grouped(expr.left), sign, given))
        if _DATE.fullmatch(given) is None:
            return None
        return self._beside(expr, expr.right, f'"{given}T00:00:00Z"')

    def _amount(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """`node.free["memory"] > 16 * 1024 * 1024 * 1024`, which calculates an amount."""
        for side, kind, other in ((expr.right, right, left), (expr.left, left, right)):
            if kind == INT and other == QUANTITY and (number := _product(side)) is not None:
                size, unit = number, ""
                for unit_of in ("Ki", "Mi", "Gi", "Ti"):
                    if size % 1024 or size < 1024:
                        break
                    size, unit = size // 1024, unit_of
                return self._beside(expr, side, f'"{size}{unit}"')
        return None

    def _of_record(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """`pod.workload == "web"`, which compares an object with its name."""
        schema = self._schema
        if left.is_record and right.is_record and schema is not None:
            names = [schema.field(kind.name, "name") for kind in (left, right)]
            sides = f"{grouped(expr.left)}.name", f"{grouped(expr.right)}.name"
            return Remedy(expr.span, f" {expr.op} ".join(sides)) if all(names) else None
        for value, kind, other in ((expr.left, left, right), (expr.right, right, left)):
            if schema is None or other != STRING or not kind.is_record:
                continue
            operand = print_expression(value).removesuffix(".status")
            if kind.name == "NodeStatus" and (asked := self._state(value, operand)) is not None:
                return asked
            if not {"name", "effect"} & set(schema.records[kind.name].fields):
                continue
            beside = expr.right if value is expr.left else expr.left
            text = beside.value if isinstance(beside, ast.Literal) else None
            if "effect" in schema.records[kind.name].fields and isinstance(text, str):
                said = plain_words.of_taint(grouped(value), text)
                return Remedy(expr.span, said if expr.op == "==" else f"!({said})")
            is_kind = isinstance(beside, ast.Literal) and beside.value in KINDS
            field = "kind" if is_kind and schema.field(kind.name, "kind") else "name"
            return self._beside(expr, value, f"{grouped(value)}.{field}")
        return None

    def _with_constant(
        self,
        expr: ast.Binary,
        value: ast.Expr,
        constant: ast.Literal,
        kind: Type,
        *,
        is_right: bool,
    ) -> Remedy | None:
        """A value beside a constant of another type."""
        text, given = print_expression(value), constant.value
        if kind == BOOL and expr.op in ("==", "!="):
            word = str(given).lower()
            if word in _YES | _NO:
                holds = (word in _YES) == (expr.op == "==")
                return Remedy(expr.span, text if holds else f"!{grouped(value)}")
            return None
        made: str | None = None
        if kind == STRING and isinstance(given, bool):
            # The status of a condition begins with a capital letter.
            is_status = (
                isinstance(value, ast.Select)
                and value.name == "status"
                and self._kind(value.operand).name.endswith("Condition")
            )
            made = f'"{given}"' if is_status else f'"{str(given).lower()}"'
        elif kind == STRING and isinstance(given, int | float) and expr.op in ("==", "!="):
            made = f'"{print_expression(constant)}"'
        elif kind == STRING and isinstance(given, int | float) and expr.op in RELATIONS:
            function = "int" if isinstance(given, int) else "double"
            return self._beside(expr, value, f"{function}({text})")
        elif isinstance(value, ast.Select) and value.name == "priority" and isinstance(given, str):
            if print_expression(value.operand) == "pod" and not is_number(given):
                named = f"pod.spec.priorityClassName {expr.op} {print_string(given)}"
                return Remedy(expr.span, named)
            made = given if is_number(given) else None
        elif _hours_of(value) and isinstance(given, str) and _CLOCK.fullmatch(given):
            whole_day = print_expression(value).removesuffix(".getHours()")
            sign = expr.op if is_right else _TURNED.get(expr.op, expr.op)
            return Remedy(expr.span, _clock(whole_day, sign, given))
        elif kind in (INT, DOUBLE) and isinstance(given, str):
            made = given if is_number(given) else _number_of_day(value, given)
            if kind == DOUBLE and made is None and given.endswith("%") and is_number(given[:-1]):
                made = f"{float(given[:-1]) / 100:g}"
        elif kind == DOUBLE and isinstance(given, int) and expr.op not in RELATIONS:
            made = f"{given}.0"
        elif kind == QUANTITY and isinstance(given, float) and '"memory"' in text:
            if expr.op in RELATIONS and given < 1 and (whole := _of_node(text)) is not None:
                return self._beside(expr, value, f"{text} / {whole}")
            is_bytes = given >= _BYTES and given == int(given)
            made = str(int(given)) if is_bytes else f'"{given:g}Gi"'
        elif kind == QUANTITY and isinstance(given, float):
            made = f'"{given * 1000:g}m"' if given < 1000 else f'"{given:f}"'
        elif kind == DURATION and isinstance(given, int | float):
            made = f'"{given}s"'
            if is_right and given < _SECONDS:
                others = f'`"{given}m"`, `"{given}h"` or `"{given}d"` in other units'
                return Remedy(constant.span, made, f"write `{text} {expr.op} {made}`, or {others}")
        elif kind.name == "list" and expr.op in ("==", "!=") and kind.args[0] == constant.type:
            said = f"{print_expression(constant)} in {text}"
            return Remedy(expr.span, said if expr.op == "==" else f"!({said})")
        elif kind.name in ("list", "map") and given is None:
            return Remedy(expr.span, f"size({text}) {expr.op} 0")
        elif (kind.name in ("list", "map", "string") and given == 0 and expr.op in RELATIONS) or (
            kind.name in ("list", "map") and isinstance(given, int) and expr.op in RELATIONS
        ):
            return self._beside(expr, value, f"size({text})")
        elif kind.name == "optional" and not kind.args:
            return None
        if made is None:
            return None
        return self._beside(expr, constant, made)

    def _beside(self, expr: ast.Binary, part: ast.Expr, made: str) -> Remedy:
        """One side of an operator as another expression, with the whole operation in the hint."""
        whole = print_expression(replaced(expr, part, ast.Ident(made)))
        return Remedy(part.span, made, f"write `{whole}`")

    def _membership(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        value, holder = print_expression(expr.left), print_expression(expr.right)
        schema = self._schema
        is_named = schema is not None and schema.field(left.name, "name") is not None
        if is_named and right == list_of(STRING):
            return Remedy(expr.left.span, f"{value}.name", f"write `{value}.name in {holder}`")
        if right == STRING and left == STRING:
            if isinstance(expr.right, ast.Literal) and _CIDR.fullmatch(str(expr.right.value)):
                return Remedy(expr.span, f"cidr({holder}).containsIP({value})")
            if isinstance(expr.right, ast.Literal):
                texts = [t.strip() for t in str(expr.right.value).split(",")]
                holder = ", ".join(map(print_string, texts))
                return Remedy(expr.right.span, f"[{holder}]", f"write `{value} in [{holder}]`")
            if not isinstance(expr.left, ast.Literal) and self._holds_keys(expr.right):
                # A label has one value.
                return Remedy(expr.span, f"{value} == {holder}")
            return Remedy(expr.span, f"{grouped(expr.right)}.contains({value})")
        if left == INT and isinstance(expr.right, ast.ListLiteral):
            said = [getattr(e, "value", None) for e in expr.right.elements]
            days = [_number_of_day(expr.left, str(text)) for text in said]
            if days and None not in days:
                made = f"[{', '.join(day for day in days if day is not None)}]"
                return Remedy(expr.right.span, made, f"write `{value} in {made}`")
        if left == STRING and isinstance(expr.right, ast.ListLiteral):
            numbers = [getattr(e, "value", None) for e in expr.right.elements]
            if all(isinstance(n, int | float) for n in numbers):
                # The values of labels are texts.
                made = ", ".join(print_string(str(n)) for n in numbers)
                return Remedy(expr.right.span, f"[{made}]", f"write `{value} in [{made}]`")
        if right.name == "list" and left == right:
            name = self._variable(expr.left)
            return Remedy(expr.span, f"{value}.all({name}, {name} in {holder})")
        if right.name == "list" and left == STRING and isinstance(expr.left, ast.Literal):
            return self._member(expr, str(expr.left.value), right.args[0])
        return None

    def _member(self, expr: ast.Binary, text: str, record: Type) -> Remedy | None:
        """`"gpu" in node.spec.taints`, which asks for an item by its key or name."""
        schema = self._schema
        fields = schema.records[record.name].fields if schema and record.is_record else {}
        name = self._variable(expr.right)
        if {"key", "effect"} <= set(fields):
            said = plain_words.of_taint(name, text)
        elif field := next((f for f in ("name", "key", "type") if f in fields), None):
            said = f"{name}.{field} == {print_string(text)}"
        else:
            return None
        return Remedy(expr.span, f"{print_expression(expr.right)}.exists({name}, {said})")

    def character(self, expr: ast.Index, kind: Type) -> Remedy | None:
        """`node.zone[0]` and `node.zone[-1]`: a character of a text."""
        key = getattr(expr.index, "value", None)
        if kind.is_record and isinstance(key, str):
            head = print_expression(expr.operand)
            is_field = key in (self._fields(kind) or {})
            made = f"{head}.{key}" if is_field else f"{head}.labels[{print_string(key)}]"
            return Remedy(expr.span, made)
        if kind != STRING:
            return None
        text, at = print_expression(expr.operand), print_expression(expr.index)
        if at.startswith("-"):
            at = f"size({text}) - {at.removeprefix('-')}"
        return Remedy(expr.span, f"{grouped(expr.operand)}.charAt({at})")

    def _unwrapped(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """An optional beside a plain value: what it is where it is absent."""
        value, other, kind = (
            (expr.left, expr.right, right)
            if left.name == "optional"
            else (expr.right, expr.left, left)
        )
        zero = {"string": '""', "int": "0", "double": "0.0", "bool": "false"}.get(kind.name, '"0"')
        made = f"{grouped(value)}.orValue({zero})"
        first, second = (made, print_expression(other))
        if value is expr.right:
            first, second = second, first
        return Remedy(value.span, made, f"write `{first} {expr.op} {second}`")

    def _chained(self, expr: ast.Binary, left: Type) -> Remedy | None:
        """`0 < x < 5`, which compares a bool with a number."""
        inner = expr.left
        if left != BOOL or not isinstance(inner, ast.Binary) or inner.op not in RELATIONS:
            return None
        middle = print_expression(inner.right)
        text = f"{print_expression(inner)} && {middle} {expr.op} {print_expression(expr.right)}"
        return Remedy(expr.span, text)

    def _repeated(self, expr: ast.Expr) -> Remedy | None:
        """`node.zone == "a" || "b"`, of which the second text is compared as well."""
        if not isinstance(expr, ast.Literal) or not self._around:
            return None
        # Its type is asked about from around it.
        parent = self._around[-1]
        before = [
            e
            for e in walk(parent)
            if isinstance(e, ast.Binary) and e.op in ("==", "!=") and e.span.end <= expr.span.start
        ]
        if not before:
            return None
        compared = before[-1]
        made = f"{print_expression(compared.left)} {compared.op} {print_expression(expr)}"
        return Remedy(expr.span, made)

    def _converted(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """A text beside a number, an amount or a time: the text is converted."""
        function = {"int": "int", "double": "double", "quantity": "quantity"}
        function |= {"duration": "duration", "timestamp": "timestamp", "semver": "semver"}
        for value, kind, other in ((expr.left, left, right), (expr.right, right, left)):
            is_number = isinstance(value, ast.Literal) and other.name in ("int", "double")
            if is_number or isinstance(value, ast.Chain):
                continue
            if kind == STRING and other.name in function:
                made = f"{function[other.name]}({print_expression(value)})"
                return self._beside(expr, value, made)
        return None

    def sum(self, operands: Sequence[ast.Expr], kinds: Sequence[Type]) -> Remedy | None:
        """A `+` of texts and other values, or of ints and doubles."""
        if STRING in kinds:
            made = [
                print_expression(o)
                if k in (STRING, Type("error"))
                else f"string({print_expression(o)})"
                for o, k in zip(operands, kinds, strict=True)
            ]
        elif TIMESTAMP in kinds and INT in kinds:
            made = [
                print_string(f"{o.value}s") if isinstance(o, ast.Literal) else print_expression(o)
                for o in operands
            ]
        elif set(kinds) == {INT, DOUBLE}:
            made = [
                print_expression(o)
                if k == DOUBLE
                else f"{o.value}.0"
                if isinstance(o, ast.Literal)
                else f"double({print_expression(o)})"
                for o, k in zip(operands, kinds, strict=True)
            ]
        else:
            return None
        return Remedy(Span(operands[0].span.start, operands[-1].span.end), " + ".join(made))

    def condition(self, expr: ast.Expr, kind: Type) -> Remedy | None:
        """A value where a condition is wanted."""
        text = print_expression(expr)
        match kind.name:
            case "list" if isinstance(expr, ast.ListLiteral) and len(expr.elements) == 1:
                # `[[ node.ready ]]` of a shell.
                inner = expr.elements[0]
                if isinstance(inner, ast.ListLiteral):
                    return self.condition(replace(inner, span=expr.span), kind.args[0])
                return Remedy(expr.span, print_expression(inner))
            case "list" | "map" if not isinstance(expr, ast.ListLiteral | ast.MapLiteral):
                return Remedy(expr.span, f"size({text}) > 0")
            case "int" | "double":
                return Remedy(expr.span, f"{grouped(expr)} != {'0' if kind == INT else '0.0'}")
            case "quantity" | "duration":
                return Remedy(expr.span, f'{grouped(expr)} > "0"')
            case "optional":
                return Remedy(expr.span, f"{grouped(expr)}.hasValue()")
            case _ if kind.is_record and is_read(expr):
                return Remedy(expr.span, f"has({text})")
            case "string" if (repeated := self._repeated(expr)) is not None:
                return repeated
            case "string" if isinstance(expr, ast.Literal) and _CODE.match(str(expr.value)):
                return Remedy(expr.span, str(expr.value), f"write `{expr.value}`, without quotes")
            case "string" if is_read(expr) and self._holds_keys(expr):
                hint = f'write `has({text})`, or compare it, as in `{text} == "true"`'
                return Remedy(expr.span, f"has({text})", hint)
            case "string" if not isinstance(expr, ast.Literal):
                return Remedy(expr.span, f'{grouped(expr)} != ""')
            case _:
                return None

    def negation(self, expr: ast.Unary, kind: Type) -> Remedy | None:
        """`!x` of a value that is no condition."""
        made = self.condition(expr.operand, kind)
        if made is None:
            return None
        if made.text.startswith("has("):
            return Remedy(expr.span, f"!{made.text}")
        opposite = {" > ": " == ", " != ": " == "}
        sign = next((s for s in opposite if s in made.text), None)
        text = made.text.replace(sign, opposite[sign]) if sign else f"!{made.text}"
        return Remedy(expr.span, text)

    def _holds_keys(self, expr: ast.Expr) -> bool:
        return isinstance(expr, ast.Index | ast.Select) and self._kind(expr.operand).name == "map"


# So many seconds or more are rarely meant as minutes or days.
_SECONDS = 60
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _hours_of(value: ast.Expr) -> bool:
    return isinstance(value, ast.Call) and value.function == "getHours" and not value.args


def _clock(time: str, sign: str, clock: str) -> str:
    """A time of the day compared with `22:30`; on the hour, hours are enough."""
    hours, minutes = (int(part) for part in clock.split(":")[:2])
    if minutes == 0 and sign in ("<", ">=", "==", "!="):
        return f"{time}.getHours() {sign} {hours}"
    return f"{time}.getHours() * 60 + {time}.getMinutes() {sign} {hours * 60 + minutes}"


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())


def _number_of_day(value: ast.Expr, name: str) -> str | None:
    """The number of a day of the week, or of a month, that is written as its name."""
    names = {"getDayOfWeek": _DAYS, "getMonth": _MONTHS}
    known = names.get(value.function, ()) if isinstance(value, ast.Call) else ()
    start = name.lower()[:3]
    return str(known.index(start)) if start in known else None


def _product(expr: ast.Expr) -> int | None:
    """The value of a product of whole numbers."""
    match expr:
        case ast.Literal(int() as number) if not isinstance(number, bool):
            return number
        case ast.Binary("*", left, right):
            first, second = _product(left), _product(right)
            return None if first is None or second is None else first * second
        case _:
            return None


def _of_node(text: str) -> str | None:
    """What a node has of the resource that an amount of it reads."""
    found = re.fullmatch(r"node\.(?:free|requested)(\[[^\]]*\])", text)
    return f"node.allocatable{found[1]}" if found is not None else None


def number_in_quotes(found: Diagnostic, expr: ast.Expr) -> Diagnostic:
    """`at most "40%"`, where a number must stand."""
    match expr:
        case ast.Literal(str() as text) if is_number(text.removesuffix("%")):
            return Remedy(expr.span, text, f"write `{text}`, without the quotes").on(found)
        case _:
            return found


def number_of_text(found: Diagnostic, value: ast.Expr, schema: Schema) -> Diagnostic:
    """The error for a score of a text, such as `value node.labels["cost"]`, which is no number."""
    if value.type != STRING or isinstance(value, ast.Literal):
        return found
    shown = print_as_written(value, schema)
    match value:
        case ast.Conditional(test, ast.Literal(str() as one), ast.Literal(str() as other)):
            points = habits.POINTS.get(one.lower(), "100"), habits.POINTS.get(other.lower(), "0")
            said = f"{print_as_written(test, schema)} ? {points[0]} : {points[1]}"
            return Remedy(value.span, said).on(found)
        case _ if shown in ("node.zone", "node.region", "node.name", "pod.namespace", "pod.name"):
            hint = f'compare it, as in `{shown} == "a"`'
            return Remedy(value.span, "", hint, whole=False).on(found)
        case _:
            pass
    made = f"double({shown})"
    hint = f'write `{made} range minmax` for a number, or compare it, as in `… == "a"`'
    return Remedy(value.span, f"{made} range minmax", hint).on(found)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
