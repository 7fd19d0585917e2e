"""Type mistakes: what to write for what the checker finds wrong; here for operators and conditions.

A row is a regular expression for an operation with its types, such as `string<node.zone> == int'5`:
the type of each side with its text in angle brackets, or with its value behind a `'`. Fields are in
`grammar.mistakes.fields`, names in `grammar.mistakes.names`, functions in `grammar.mistakes.calls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar.messages import plain_words
from grammar.messages.diagnostics import Remedy
from grammar.mistakes.calls import CallRemedies
from grammar.mistakes.fields import KINDS, RELATIONS, grouped, is_read, replaced
from grammar.tree import ast
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import BOOL, DOUBLE, INT, STRING, TIMESTAMP, Type
from grammar.tree.walk import walk

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DAYS = "sun mon tue wed thu fri sat".split()
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
# So many seconds or more are rarely meant as minutes or days.
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type row: two types that do not go together.

    In `made`, `{l}` and `{r}` are the sides, and `{L}` and `{R}` those that `.name` can follow.
    `{v}` is the value of the right side, and `{x}` a name for an item. Other names are groups of
    the pattern. `side` says whether the left side, `l`, is replaced, the right one, `r`, or both.
    """

    wrong: str
    made: str | Callable[[Mapping[str, str]], str | None]
    side: str = ""
    hint: str = ""


def _clock(parts: Mapping[str, str]) -> str:
    """A time of the day compared with `22:30`; on the hour, hours are enough."""
    time, sign = parts["t"], parts["op"]
    hours, minutes = (int(part) for part in parts["v"].split(":")[:2])
    if minutes == 0 and sign in ("<", ">=", "==", "!="):
        return f"{time}.getHours() {sign} {hours}"
    return f"{time}.getHours() * 60 + {time}.getMinutes() {sign} {hours * 60 + minutes}"


def _number_of_day(parts: Mapping[str, str]) -> str | None:
    """The number of a day of the week, or of a month, that is written as its name."""
    names, start = _MONTHS if parts["of"] == "Month" else _DAYS, parts["v"].lower()[:3]
    return str(names.index(start)) if start in names else None


def _numbers_of_days(parts: Mapping[str, str]) -> str | None:
    words = re.findall(r"\w+", parts["r"])
    made = [_number_of_day({**parts, "v": word}) for word in words]
    return f"[{', '.join(map(str, made))}]" if made and None not in made else None


def _sized(parts: Mapping[str, str]) -> str:
    """A number of bytes as an amount."""
    number, unit = int(parts["v"]), ""
    for larger in ("Ki", "Mi", "Gi", "Ti"):
        if number % 1024 or number < 1024:
            break
        number, unit = number // 1024, larger
    return f'"{number}{unit}"'


def _cores(parts: Mapping[str, str]) -> str:
    number = float(parts["v"])
    return f'"{number * 1000:g}m"' if number < 1000 else f'"{number:f}"'


def _listed(parts: Mapping[str, str]) -> str:
    """A text with commas, or a list of numbers, as a list of texts."""
    texts = (text.strip() for text in parts["v"].strip("[]").split(","))
    return f"[{', '.join(map(print_string, texts))}]"


_IS, _REL = "(?P<op>==|!=)", "(?P<op>==|!=|<=?|>=?)"
_YES, _NO = "(?i:true|yes|1|on|ready)", "(?i:false|no|0|off)"
_OF_TIME = "(?P<t>.*)\\.get(?P<of>Day|Month)\\w*\\(\\)"
_AMONG = "write `{l} in {made}`"
_UNITS = 'write `{l} {op} "{v}s"`, or `"{v}m"`, `"{v}h"` or `"{v}d"` in other units'
ROWS = (
    # ---- a value beside a constant
    TypeRow(f"bool.* (?:== \\w+'{_YES}|!= \\w+'{_NO})", "{l}"),
    TypeRow(f"bool.* (?:!= \\w+'{_YES}|== \\w+'{_NO})", "!{L}"),
    TypeRow("string<.*\\.status> \\S+ bool'.*", lambda p: f'"{p["v"].title()}"', "r"),
    TypeRow("string\\S* .* bool'.*", '"{r}"', "r"),
    TypeRow(f"string.* {_IS} (?:int|double)'.*", '"{r}"', "r"),
    TypeRow(f"string.* {_REL} (?P<t>int|double)'.*", "{t}({l})", "l"),
    TypeRow(
        f"int<pod\\.priority> {_REL} string'(?![\\d.]+\\Z).*", "pod.spec.priorityClassName {op} {r}"
    ),
    TypeRow(f"int<(?P<t>.*)\\.getHours\\(\\)> {_REL} string'\\d+:\\d\\d(?::\\d\\d)?", _clock),
    TypeRow("(?:int|double).* string'-?\\d+(?:\\.\\d+)?", "{v}", "r"),
    TypeRow(f"int<{_OF_TIME}> \\S+ string'\\w+", _number_of_day, "r"),
    TypeRow("double.* string'[\\d.]+%", lambda p: f"{float(p['v'][:-1]) / 100:g}", "r"),
    TypeRow("double.* [-+*/%] int'.*", "{v}.0", "r"),
    TypeRow(
        f"quantity<node\\.(?:free|requested)(?P<k>\\[.*memory.*\\])> {_REL} double'0\\..*",
        "{l} / node.allocatable{k}",
        "l",
    ),
    TypeRow("quantity(?!<.*memory).* double'.*", _cores, "r"),
    TypeRow("quantity.* int'.*", _sized, "r"),
    TypeRow("duration.* (?P<op>\\S+) (?:int|double)'[1-5]?\\d(?:\\.\\d+)?", '"{v}s"', "r", _UNITS),
    TypeRow("duration.* (?:int|double)'.*", '"{v}s"', "r"),
    TypeRow("list\\((?P<t>\\w+)\\)<.* == (?P=t)'.*", "{r} in {l}"),
    TypeRow("list\\((?P<t>\\w+)\\)<.* != (?P=t)'.*", "!({r} in {l})"),
    TypeRow(f"(?:list|map)\\S*<.* {_REL} null.*", "size({l}) {op} 0"),
    TypeRow("(?:list|map)\\S*<.* [=!<>]=? int'.*", "size({l})", "l"),
    # ---- what is in what
    TypeRow(
        "string<.*> in string'(?P<n>[\\d.]+/\\d+|[0-9a-f:]+/\\d+)", "cidr({r}).containsIP({l})"
    ),
    TypeRow("string.* in string'.*", _listed, "r", _AMONG),
    TypeRow("string<.*> in string<.*\\[.*\\]>", "{l} == {r}"),
    TypeRow("string.* in string.*", "{R}.contains({l})"),
    TypeRow(f"int<{_OF_TIME}> in list\\(string\\)'.*", _numbers_of_days, "r", _AMONG),
    TypeRow("string.* in list\\((?:int|double)\\)'.*", _listed, "r", _AMONG),
    TypeRow("(?P<t>list\\S+)<.*> in (?P=t)[<'].*", "{l}.all({x}, {x} in {r})"),
    # ---- calculations and times
    TypeRow("int.* \\* bool<.*", "({r} ? {l} : 0)"),
    TypeRow("bool.* \\* int.*", "({l} ? {r} : 0)"),
    TypeRow("string'.* % .*", "{l}.format([{r}])"),
    TypeRow("(?:timestamp|duration).* [-+] int'.*", '"{v}s"', "r"),
    TypeRow("int.* (?P<op>\\S+) double.*", "double({l}) {op} {R}"),
    TypeRow("double.* (?P<op>\\S+) int.*", "{L} {op} double({r})"),
    # ---- an optional, a text and an object
    *(
        TypeRow(f"optional\\S*<.* \\S+ {kind}\\b.*", f"{{L}}.orValue({zero})", "l")
        for kind, zero in {"string": '""', "int": "0", "double": "0.0", "bool": "false"}.items()
    ),
    TypeRow("optional.*", '{L}.orValue("0")', "l"),
    TypeRow("string<.* (?P<t>quantity|duration|timestamp|semver).*", "{t}({l})", "l"),
    TypeRow("string<.* (?P<t>int|double)<.*", "{t}({l})", "l"),
    TypeRow("Taint<.* == string'.*", lambda p: plain_words.of_taint(p["L"], p["v"])),
    TypeRow("Taint<.* != string'.*", lambda p: f"!({plain_words.of_taint(p['L'], p['v'])})"),
    TypeRow(f"\\w*Workload\\w*<.* string'(?:{'|'.join(KINDS)})", "{L}.kind", "l"),
)


class Remedies(CallRemedies):
    """Remedies of one expression and its operators."""

    def operator(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """A comparison or calculation of two types that do not go together."""
        turned = replace(expr, left=expr.right, right=expr.left, op=_TURNED.get(expr.op, expr.op))
        sides = [(expr, left, right)]
        if expr.op != "in":
            sides.append((turned, right, left))
        for row in ROWS:
            for each, first, second in sides:
                if (made := self._of_row(row, expr, each, first, second)) is not None:
                    return made
        return self._chained(expr, left) or self._of_items(expr, left, right)

    def _of_row(
        self, row: TypeRow, expr: ast.Binary, each: ast.Binary, left: Type, right: Type
    ) -> Remedy | None:
        """What a row makes of an operation, which may be turned round."""
        one, other = _said(each.left, left), _said(each.right, right)
        found = re.fullmatch(row.wrong, f"{one} {each.op} {other}", re.DOTALL)
        if found is None:
            return None
        parts = {
            **found.groupdict(""),
            "l": print_expression(each.left),
            "r": print_expression(each.right),
            "L": grouped(each.left),
            "R": grouped(each.right),
            "v": other.partition("'")[2],
            "x": self._variable(each.left),
        }
        made = row.made(parts) if callable(row.made) else row.made.format_map(parts)
        if made is None:
            return None
        side = {"l": each.left, "r": each.right}.get(row.side)
        if side is None:
            return Remedy(expr.span, made)
        if row.hint:
            return Remedy(side.span, made, row.hint.format_map({**parts, "made": made}))
        return self._beside(expr, side, made)

    def _of_items(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """A list beside the text of an item, and an object beside a name."""
        schema = self._schema
        if schema is None:
            return None
        for value, kind, other, beside in (
            (expr.left, left, right, expr.right),
            (expr.right, right, left, expr.left),
        ):
            text = beside.value if isinstance(beside, ast.Literal) else None
            if expr.op in ("==", "!=", "in") and kind.name == "list" and isinstance(text, str):
                inside = self._member(value, text, kind.args[0])
                denied = "!" if expr.op == "!=" else ""
                return None if inside is None else Remedy(expr.span, f"{denied}{inside}")
            named = schema.field(kind.name, "name")
            if expr.op == "in" and named is not None and value is expr.left:
                made = f"{print_expression(value)}.name"
                return self._beside(expr, value, made)
            if kind.name == "NodeStatus" and other == STRING:
                return self._state(value, print_expression(value).removesuffix(".status"))
            if named is not None and other == STRING and expr.op in RELATIONS and expr.op != "in":
                return self._beside(expr, value, f"{grouped(value)}.name")
            if named is not None and schema.field(other.name, "name") is not None:
                sides = f"{grouped(expr.left)}.name", f"{grouped(expr.right)}.name"
                return Remedy(expr.span, f" {expr.op} ".join(sides))
        return None

    def _member(self, items: ast.Expr, text: str, record: Type) -> str | None:
        """`"gpu" in node.spec.taints`, which asks for an item by its key or name."""
        fields, name = self._fields(record) or {}, self._variable(items)
        if {"key", "effect"} <= set(fields):
            said = plain_words.of_taint(name, text)
        elif field := next((f for f in ("name", "key", "type") if f in fields), None):
            said = f"{name}.{field} == {print_string(text)}"
        else:
            return None
        return f"{print_expression(items)}.exists({name}, {said})"

    def time(self, expr: ast.Binary, left: Type) -> Remedy | None:
        """`now > "22:00"` and `node.metadata.creationTimestamp > "2026-01-31"`."""
        given = expr.right.value if isinstance(expr.right, ast.Literal) else None
        if left != TIMESTAMP or not isinstance(given, str) or expr.op not in RELATIONS:
            return None
        if re.fullmatch(r"\d{1,2}:\d\d(?::\d\d)?", given) is not None:
            sign = {">": ">=", "<=": "<"}.get(expr.op, expr.op)
            return Remedy(expr.span, _clock({"t": grouped(expr.left), "op": sign, "v": given}))
        if re.fullmatch(r"\d{4}-\d\d-\d\d", given) is None:
            return None
        return self._beside(expr, expr.right, f'"{given}T00:00:00Z"')

    def _beside(self, expr: ast.Binary, part: ast.Expr, made: str) -> Remedy:
        """One side of an operator as another expression, with the whole operation in the hint."""
        whole = print_expression(replaced(expr, part, ast.Ident(made)))
        return Remedy(part.span, made, f"write `{whole}`")

    def character(self, expr: ast.Index, kind: Type) -> Remedy | None:
        """`node.zone[0]` and `node.zone[-1]`: a character of a text."""
        key = getattr(expr.index, "value", None)
        text, at = print_expression(expr.operand), print_expression(expr.index)
        if kind.is_record and isinstance(key, str):
            is_field = key in (self._fields(kind) or {})
            return Remedy(expr.span, f"{text}.{key}" if is_field else f"{text}.labels[{at}]")
        if kind != STRING:
            return None
        at = f"size({text}) - {at.removeprefix('-')}" if at.startswith("-") else at
        return Remedy(expr.span, f"{grouped(expr.operand)}.charAt({at})")

    def _chained(self, expr: ast.Binary, left: Type) -> Remedy | None:
        """`0 < x < 5`, which compares a bool with a number."""
        inner = expr.left
        if left != BOOL or not isinstance(inner, ast.Binary) or inner.op not in RELATIONS:
            return None
        middle = print_expression(inner.right)
        text = f"{print_expression(inner)} && {middle} {expr.op} {print_expression(expr.right)}"
        return Remedy(expr.span, text)

    def _repeated(self, expr: ast.Literal) -> str | None:
        """`node.zone == "a" || "b"`, of which the second text is compared as well."""
        # Its type is asked about from around it.
        around = [*walk(self._around[-1])] if self._around else []
        compared = [e for e in around if isinstance(e, ast.Binary) and e.op in ("==", "!=")]
        before = [e for e in compared if e.span.end <= expr.span.start]
        joins = [e.op for e in around if isinstance(e, ast.Chain) and expr in e.operands]
        # What is not "a" or not "b" is everything, and nothing is "a" and "b".
        if not before or (before[-1].op, *joins) in (("!=", "||"), ("==", "&&")):
            return None
        return f"{print_expression(before[-1].left)} {before[-1].op} {print_expression(expr)}"

    def sum(self, operands: Sequence[ast.Expr], kinds: Sequence[Type]) -> Remedy | None:
        """A `+` of texts and other values, or of ints and doubles."""
        if STRING in kinds:
            forms = {STRING: "{0}", Type("error"): "{0}"}, "string({0})", "string({0})"
        elif TIMESTAMP in kinds and INT in kinds:
            forms = {TIMESTAMP: "{0}"}, '"{0}s"', "{0}"
        elif set(kinds) == {INT, DOUBLE}:
            forms = {DOUBLE: "{0}"}, "{0}.0", "double({0})"
        else:
            return None
        known, of_literal, of_others = forms
        made = (
            known.get(kind, of_literal if isinstance(operand, ast.Literal) else of_others).format(
                print_expression(operand)
            )
            for operand, kind in zip(operands, kinds, strict=True)
        )
        return Remedy(Span(operands[0].span.start, operands[-1].span.end), " + ".join(made))

    def condition(self, expr: ast.Expr, kind: Type) -> Remedy | None:
        """A value where a condition is wanted."""
        text, hint = print_expression(expr), ""
        if isinstance(expr, ast.ListLiteral) and len(expr.elements) == 1:
            # `[[ node.ready ]]` of a shell.
            inner = self.condition(expr.elements[0], kind.args[0])
            return Remedy(expr.span, inner.text if inner else print_expression(expr.elements[0]))
        match kind.name:
            case "list" | "map" if not isinstance(expr, ast.ListLiteral | ast.MapLiteral):
                made = f"size({text}) > 0"
            case "quantity" | "duration":
                made = f'{grouped(expr)} > "0"'
            case "optional":
                made = f"{grouped(expr)}.hasValue()"
            case _ if kind.is_record and is_read(expr):
                made = f"has({text})"
            case "string" if isinstance(expr, ast.Literal):
                made = self._repeated(expr) or str(expr.value)
                is_code = re.match(r"!?\(?(?:node|pod|peer|now|namespaceObject)\b[.\[]", made)
                if is_code is None:
                    return None
                hint = f"write `{made}`, without quotes" if made == expr.value else ""
            case "string" if is_read(expr) and self._holds_keys(expr):
                made = f"has({text})"
                hint = f'write `{made}`, or compare it, as in `{text} == "true"`'
            case _:
                return None
        return Remedy(expr.span, made, hint)

    def negation(self, expr: ast.Unary, kind: Type) -> Remedy | None:
        """`!x` of a value that is no condition."""
        made = self.condition(expr.operand, kind)
        if made is None:
            return None
        sign = re.search(" (>|!=) ", made.text)
        text = f"!{made.text}" if sign is None else made.text.replace(sign[0], " == ")
        return Remedy(expr.span, text)

    def _holds_keys(self, expr: ast.Expr) -> bool:
        return isinstance(expr, ast.Index | ast.Select) and self._kind(expr.operand).name == "map"


def _said(expr: ast.Expr, kind: Type) -> str:
    """A side of an operation for the rows: the type, with the value or the text."""
    if (number := _product(expr)) is not None and not isinstance(expr, ast.Literal):
        return f"int'{number}"
    match expr:
        case ast.Literal(value):
            return f"{kind}'{str(value).lower() if isinstance(value, bool) else value}"
        case ast.ListLiteral():
            return f"{kind}'{print_expression(expr)}"
        case _:
            return f"{kind}<{print_expression(expr)}>"


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
