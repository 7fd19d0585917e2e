"""Type mistakes: what to write for what the checker finds wrong in calls, operators and conditions.

The table of habits knows the functions of other languages. The name of an unknown function and its
arguments say what is meant: `hasLabel(node, "gpu")` is about the labels of the node. A row is a
regular expression for an operation with its types, such as `string<node.zone> == int'5`: the type
of each side with its text in angle brackets, or with its value behind a `'`. Fields are in
`grammar.mistakes.fields`, names in `grammar.mistakes.names`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar.meaning.environment import FUNCTIONS, MACROS, RELATIONS
from grammar.messages import habits, plain_words
from grammar.messages.diagnostics import Remedy
from grammar.mistakes.fields import (
    KINDS,
    grouped,
    is_read,
    name_among,
    optional,
    replaced,
)
from grammar.mistakes.names import NameRemedies
from grammar.tree import ast
from grammar.tree.policy import ROW, is_group
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import BOOL, DYN, STRING, TIMESTAMP, Type
from grammar.tree.walk import rewritten, walk

_HAVING = frozenset({"has", "hasOwnProperty", "hasKey", "hasField", "contains", "includes"})
# What a pod says of its nodes.
_KEPT = (
    "leave it out: kube-scheduler keeps to the `nodeSelector`, affinity and tolerations of a pod"
)


def _filled(here: str, written: Sequence[str], operands: Sequence[ast.Expr]) -> str:
    for number, text in enumerate(written):
        # Alone in brackets or as an argument, an operand needs no parentheses.
        plain = print_expression(operands[number])
        for outer in ("({%d})", "[{%d}]", "[?{%d}]", ", {%d})", "({%d},"):
            here = here.replace(outer % number, outer.replace("{%d}", plain))
        here = here.replace(f"{{{number}}}", text)
    return here


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type row: two types that do not go together.

    In `made`, `{l}` and `{r}` are the sides, and `{L}` and `{R}` those that `.name` can follow.
    `{v}` is the value of the right side, and `{x}` a name for an item. Other names are groups of
    the pattern. `side` says whether the left side, `l`, is replaced, the right one, `r`, or both.
    """

    wrong: str
    made: str | Callable[[Mapping[str, str]], str]
    side: str = ""
    hint: str = ""


def _clock(parts: Mapping[str, str]) -> str:
    """A time of the day compared with `22:30`; on the hour, hours are enough."""
    time, sign = parts["t"], parts["op"]
    hours, minutes = (int(part) for part in parts["v"].split(":")[:2])
    if minutes == 0 and sign in ("<", ">=", "==", "!="):
        return f"{time}.getHours() {sign} {hours}"
    return f"{time}.getHours() * 60 + {time}.getMinutes() {sign} {hours * 60 + minutes}"


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


class Remedies(NameRemedies):
    """Remedies of one expression: its calls with their arguments, and its operators."""

    def macro(self, expr: ast.Call) -> Remedy | None:
        """A test or change of each item under another name, or without a name for the item."""
        row = habits.find(habits.MACROS, expr.function)
        macro = row.here if row is not None else expr.function
        denied, macro = "!" * macro.startswith("!"), macro.removeprefix("!")
        if macro not in MACROS or expr.function in self._environment.defs:
            return None
        target, args = expr.target, expr.args
        if target is None:
            if not args:
                return None
            target, args = args[0], args[1:]
        kind = self._kind(target)
        if kind.name not in ("list", "map", "dyn", "error"):
            return None
        head = print_expression(target)
        if len(args) in (2, 3) and isinstance(args[0], ast.Ident):
            written = ", ".join(map(print_expression, args))
            return Remedy(expr.span, f"{denied}{head}.{macro}({written})")
        if len(args) != 1 or (kind.name in ("dyn", "error") and expr.function in FUNCTIONS):
            # What is not known may be what the function takes, such as a text for `findAll`.
            return None
        item = kind.args[0] if kind.name == "list" else STRING if kind.name == "map" else kind
        name, body = self._body(target, args[0], item)
        return Remedy(expr.span, f"{denied}{head}.{macro}({name}, {body})")

    def _body(self, target: ast.Expr, body: ast.Expr, item: Type) -> tuple[str, str]:
        """The name of the item in the body of a macro, and the body with it."""
        fields = self._fields(item) or {}
        free = [i for i in walk(body) if isinstance(i, ast.Ident) and not self._known(i.name)]
        used = [i.name for i in free if i.name not in fields]
        if used:
            return used[0], print_expression(body)
        name = self._variable(target)

        def change(node: object) -> object:
            if isinstance(node, ast.Ident) and node.name in fields and not self._known(node.name):
                return ast.Select(ast.Ident(name), node.name)
            return node

        said = rewritten(body, change)
        if not free and item == STRING and self._kind(body) == STRING:
            return name, f"{name} == {print_expression(body)}"
        return name, print_expression(said)

    def call(self, expr: ast.Call) -> Remedy | None:
        """A function or method of another language, or one that is called the other way round."""
        operands = [*([expr.target] if expr.target is not None else []), *expr.args]
        name = expr.function
        if isinstance(expr.target, ast.Ident) and not self._known(expr.target.name):
            name, operands = f"{expr.target.name}.{name}", list(expr.args)
        kind = self._kind(operands[0]) if operands else DYN
        written = [grouped(o) for o in operands]
        if expr.function == "not" and len(operands) == 1:
            hint = f"write `!({print_expression(operands[0])})`"
            return Remedy(expr.name_span, "!", hint, certain=True)
        if (field := self._called_field(expr, kind)) is not None:
            return field
        if (listed := self._with_lists(expr, operands, written)) is not None:
            return listed
        if len(operands) == 1:
            if habits.find((habits.PRESENCE,), name) and is_read(operands[0]):
                return Remedy(expr.span, f"has({print_expression(operands[0])})")
            if habits.find((habits.ABSENCE,), name) and is_read(operands[0]):
                return Remedy(expr.span, f"!has({print_expression(operands[0])})")
        key = operands[1] if len(operands) > 1 else None
        named = key.value if isinstance(key, ast.Literal) else None
        if named in (self._fields(kind) or {}) and name in _HAVING:
            return Remedy(expr.span, f"has({written[0]}.{named})")
        if named in (self._fields(kind) or {}) and name in ("getattr", "get", "field"):
            return Remedy(expr.span, f"{written[0]}.{named}")
        if expr.function in ("kubernetesVersion", "semver") and kind.name == "Node":
            version = f"{written[0]}.status.nodeInfo.kubeletVersion"
            return Remedy(expr.span, f"kubernetesVersion({version})")
        plain = optional(expr.target) if expr.target is not None else None
        if expr.function in ("orValue", "hasValue", "value") and plain is not None:
            # A plain read is no optional.
            rest = ", ".join(map(print_expression, expr.args))
            return Remedy(expr.span, f"{plain}.{expr.function}({rest})")
        number, unit = ([getattr(o, "value", None) for o in operands] + [None] * 2)[:2]
        if name == "duration" and isinstance(number, int) and unit in habits.UNITS:
            return Remedy(expr.span, f'duration("{number}{habits.UNITS[str(unit)]}")')
        row = habits.call(name, kind.name, len(operands))
        if row is not None and row.here == "{0}.matches({1})" and expr.target is None:
            # `regex("^gpu", node.name)`: the text stands before the pattern.
            pattern, text = (isinstance(o, ast.Literal) for o in operands[:2])
            written = written[::-1] if pattern and not text else written
            operands = operands[::-1] if pattern and not text else operands
        if row is not None:
            return Remedy(expr.span, self._grouped(_filled(row.here, written, operands)))
        if not operands and (row := habits.call(name, "timestamp", 1)) is not None and row.kinds:
            return Remedy(expr.span, row.here.replace("{0}", "now"))
        if (why := habits.elsewhere(name)) is not None:
            return Remedy(expr.span, "", why, whole=False)
        row = habits.find((habits.DEFAULTS,), name)
        if row is not None and len(operands) == 2 and (read := optional(operands[0])):
            return Remedy(expr.span, f"{read}.orValue({print_expression(operands[1])})")
        return self._turned(expr, operands, written)

    def _with_lists(
        self, expr: ast.Call, operands: Sequence[ast.Expr], written: Sequence[str]
    ) -> Remedy | None:
        """`"{}".format(a)`, `tolerations.contains("gpu")`, `"gpu" in node.labels.keys()`."""
        pattern, parent = getattr(expr.target, "value", None), self._parent
        if expr.function == "format" and isinstance(pattern, str):
            text = print_string(re.sub(r"\{\w*\}", "%s", pattern))
            listed = ", ".join(map(print_expression, expr.args))
            return Remedy(expr.span, f"{text}.format([{listed}])")
        of_pod = {o.name for o in operands if isinstance(o, ast.Select)}
        is_kept = {"nodeSelector", "tolerations", "affinity"} & of_pod
        if is_kept and any(text.startswith("node.") for text in written):
            return Remedy(expr.span, "", _KEPT, whole=False)
        kind = self._kind(operands[0]) if operands else DYN
        one = getattr(operands[1], "value", None) if len(operands) == 2 else None
        is_asked = expr.function in _HAVING and kind.name == "list" and isinstance(one, str)
        inside = self._member(operands[0], str(one), kind.args[0]) if is_asked else None
        if inside is not None:
            return Remedy(expr.span, inside)
        is_asked = isinstance(parent, ast.Binary) and parent.op == "in" and parent.right is expr
        if isinstance(parent, ast.Binary) and is_asked and expr.function == "keys":
            left = print_expression(parent.left)
            return Remedy(parent.span, f"{left} in {written[0]}") if kind.name == "map" else None
        return None

    def _grouped(self, text: str) -> str:
        """An operation that stands for a call, in brackets where an operator holds it."""
        parent, inner = self._parent, self._around[-1]
        held = isinstance(parent, ast.Unary | ast.Binary) or inner is getattr(
            parent, "operand", getattr(parent, "target", None)
        )
        plain = text
        while (inside := re.sub(r"[(\[][^()\[\]]*[)\]]", "", plain)) != plain:
            plain = inside
        is_operation = re.search(r" (?:[=!<>]=|[<>?/%+-]|&&|\|\||in) ", plain) is not None
        return f"({text})" if held and is_operation else text

    def _called_field(self, expr: ast.Call, kind: Type) -> Remedy | None:
        """`node.name()` and `node.free("memory")`."""
        if expr.target is None or expr.function not in (self._fields(kind) or {}):
            return None
        head = f"{print_expression(expr.target)}.{expr.function}"
        if not expr.args:
            return Remedy(expr.span, head, certain=True)
        if len(expr.args) == 1:
            return Remedy(expr.span, f"{head}[{print_expression(expr.args[0])}]")
        return None

    def _turned(
        self, expr: ast.Call, operands: Sequence[ast.Expr], written: Sequence[str]
    ) -> Remedy | None:
        """`name.int()` for `int(name)`, `contains(a, b)` for `a.contains(b)`."""
        environment = self._environment
        if not operands:
            return None
        rest = ", ".join(map(print_expression, operands[1:]))
        alone = environment.overloads(expr.function, member=False)
        if expr.target is not None and any(len(o.params) == len(operands) for o in alone):
            inner = ", ".join(map(print_expression, operands))
            return Remedy(expr.span, f"{expr.function}({inner})")
        behind = environment.overloads(expr.function, member=True)
        if expr.target is None and any(len(o.params) == len(operands) for o in behind):
            return Remedy(expr.span, f"{written[0]}.{expr.function}({rest})")
        return None

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
        side = {"l": each.left, "r": each.right}.get(row.side)
        if side is None:
            return Remedy(expr.span, made)
        if row.hint:
            return Remedy(side.span, made, row.hint.format_map({**parts, "made": made}))
        return self._beside(expr, side, made)

    def _of_items(self, expr: ast.Binary, left: Type, right: Type) -> Remedy | None:
        """A list beside the text of an item, and an object beside a name."""
        schema = self._schema
        for value, kind, other, beside in (
            (expr.left, left, right, expr.right),
            (expr.right, right, left, expr.left),
        ):
            text = beside.value if isinstance(beside, ast.Literal) else None
            if expr.op in ("==", "!=", "in") and kind.name == "list" and isinstance(text, str):
                inside = self._member(value, text, kind.args[0])
                denied = "!" if expr.op == "!=" else ""
                return None if inside is None else Remedy(expr.span, f"{denied}{inside}")
            if kind.name.startswith(ROW):
                return self._cell(expr, value, kind)
            field = "value" if is_group(kind) else "name"
            named = schema.field(kind.name, field)
            is_item = expr.op == "in" and value is expr.left
            is_compared = other == STRING and expr.op in RELATIONS and expr.op != "in"
            if named is not None and (is_item or is_compared):
                return self._beside(expr, value, f"{grouped(value)}.{field}")
            if named is not None and schema.field(other.name, "name") is not None:
                sides = f"{grouped(expr.left)}.name", f"{grouped(expr.right)}.name"
                return Remedy(expr.span, f" {expr.op} ".join(sides))
        return None

    def _cell(self, expr: ast.Binary, row: ast.Expr, kind: Type) -> Remedy:
        """A cell of a row that is compared, which may have been read without its key."""
        names, named = [*(self._fields(kind) or {})], getattr(row, "name", "")
        text = print_expression(row)
        if isinstance(row, ast.Select) and {"value", "cpu"} & {*names}:
            text = f"{print_expression(row.operand)}[node.name]"
        made = f"{text}.{named if named in names else names[0]}"
        return replace(self._beside(expr, row, made), certain="value" in names)

    def _member(self, items: ast.Expr, text: str, record: Type) -> str | None:
        """`"gpu" in node.spec.taints`, which asks for an item by its key or name."""
        fields, name = self._fields(record) or {}, self._variable(items)
        if {"key", "effect"} <= set(fields):
            said = plain_words.of_taint(name, text)
        elif field := name_among(fields):
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

    def _chained(self, expr: ast.Binary, left: Type) -> Remedy | None:
        """`0 < x < 5`, which compares a bool with a number."""
        inner = expr.left
        if left != BOOL or not isinstance(inner, ast.Binary) or inner.op not in RELATIONS:
            return None
        middle = print_expression(inner.right)
        text = f"{print_expression(inner)} && {middle} {expr.op} {print_expression(expr.right)}"
        return Remedy(expr.span, text)

    def condition(self, expr: ast.Expr, kind: Type) -> Remedy | None:
        """A value where a condition is wanted."""
        text, hint = print_expression(expr), ""
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
                made = str(expr.value)
                if not re.match(r"!?\(?(?:node|pod|peer|now|namespaceObject)\b[.\[]", made):
                    return None
                hint = f"write `{made}`, without quotes"
            case "string" if (
                is_read(expr)
                and isinstance(expr, ast.Index | ast.Select)
                and self._kind(expr.operand).name == "map"
            ):
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
