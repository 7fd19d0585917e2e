"""Calls: what to write for a function, a method or a macro that is not one here.

The checker asks as for names (`grammar.mistakes.names`). The table of habits knows the functions of
other languages. The name of an unknown function and its arguments say what is meant:
`hasLabel(node, "gpu")` is about the labels of the node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grammar.meaning.environment import FUNCTIONS
from grammar.messages import habits, plain_words
from grammar.messages.diagnostics import Remedy
from grammar.messages.plain_words import RESOURCES, words_of
from grammar.mistakes.fields import KINDS, MACROS, grouped, is_read, name_among, optional, selected
from grammar.mistakes.names import NameRemedies
from grammar.tree import ast
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import DYN, STRING, Type
from grammar.tree.walk import rewritten, walk

# What the name of a function does, beside what it names.
_VERBS = frozenset(
    "has have having get is are in on with of the contains includes no not without lacks any count"
    " num number find fetch read matches match check exists for by".split()
)
_HAVING = frozenset({"has", "hasOwnProperty", "hasKey", "hasField", "contains", "includes"})
# What a pod says of its nodes.
_KEPT = (
    "leave it out: kube-scheduler keeps to the `nodeSelector`, affinity and tolerations of a pod"
)


class CallRemedies(NameRemedies):
    """Answers about one call and its arguments."""

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
        schema = self._schema
        record = schema.records.get(item.name) if schema is not None else None
        fields = record.fields if record is not None else {}
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
        return self._turned(expr, operands, written) or self._by_words(expr, operands)

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
        if expr.function in _HAVING and kind.name == "list" and len(operands) == 2:
            by_name = self._used(written[0], kind, [print_expression(operands[1])], ())
            if by_name is not None and ".exists(" in by_name:
                return Remedy(expr.span, by_name)
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
        schema = self._schema
        if expr.target is None or schema is None or not kind.is_record:
            return None
        head = f"{print_expression(expr.target)}.{expr.function}"
        if schema.field(kind.name, expr.function) is None:
            return None
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

    # ---- by the words of a name

    def _by_words(self, expr: ast.Call, operands: Sequence[ast.Expr]) -> Remedy | None:
        """`hasLabel(node, "gpu")`, `isReady(node)`, `node.getTaint("a")`: a field and its use."""
        words = words_of(expr.function)
        owner, args = self._owner_of(words, operands)
        said = [w for w in words if w not in _VERBS and w not in ("node", "pod", "peer")]
        is_asked = set(words) & _VERBS or len(said) < len(words) or owner in operands
        if owner is None or not said or not is_asked:
            return None
        record = self._kind(owner).name
        row = habits.find(habits.FIELDS.get(record, ()), expr.function)
        if row is not None and not args:
            made = row.here.replace("{0}", print_expression(owner))
            return Remedy(expr.span, self._grouped(made))
        resource = next((RESOURCES[w] for w in said if w in RESOURCES), None)
        if record in ("Pod", "Peer") and resource is not None and not args and len(said) == 1:
            amount = f"{print_expression(owner)}.requests[{print_string(resource)}]"
            return Remedy(expr.span, self._grouped(f'{amount} > "0"'))
        kind = next((k for k in KINDS if k.lower() == "".join(said)), None)
        if record in ("Pod", "Peer") and kind is not None and not args:
            made = f"{print_expression(owner)}.workload.kind == {print_string(kind)}"
            return Remedy(expr.span, self._grouped(made))
        noun = said[0] + "".join(map(str.capitalize, said[1:]))
        negation = "!" if set(words) & {"no", "not", "without", "lacks"} else ""
        state = plain_words.STATES.get(noun.lower()) or plain_words.WORDS_OF_NODES.get(
            "-".join(said)
        )
        if record == "Node" and not args and state is not None and {"is", "has"} & set(words):
            made = re.sub(r"\bnode\b", print_expression(owner), state)
            return Remedy(expr.span, self._grouped(f"{negation}{made}"))
        places = [p for n in (noun, f"{noun}s") for p in self._places(record, n) if not p.items]
        if not places:
            return None
        read = print_expression(selected(owner, places[0].path))
        made = self._used(read, places[0].kind, [*map(print_expression, args)], words) or ""
        if negation and made.endswith(" > 0"):
            return Remedy(expr.span, self._grouped(f"{made.removesuffix(' > 0')} == 0"))
        if negation and " " in made and not made.endswith(")"):
            made = f"({made})"
        return Remedy(expr.span, self._grouped(f"{negation}{made}")) if made else None

    def _owner_of(
        self, words: Sequence[str], operands: Sequence[ast.Expr]
    ) -> tuple[ast.Expr | None, list[ast.Expr]]:
        """The object that a function is about, and its other arguments."""
        rest = list(operands)
        if rest and self._kind(rest[0]).is_record:
            return rest[0], rest[1:]
        if any(isinstance(o, ast.Select | ast.Index | ast.Ident) for o in rest[:1]):
            return None, rest
        roots = [r for r in ("node", "pod", "peer") if self._known(r)]
        named = next((r for r in roots if r in words), next(iter(roots), None))
        return (ast.Ident(named) if named is not None else None), rest

    def _used(self, read: str, kind: Type, args: list[str], words: Sequence[str]) -> str | None:
        """What is read and how: a key of a map, an item of a list, a value that is compared."""
        name = read.rpartition(".")[2][:1]
        gets = {"get", "find", "fetch", "read"} & set(words)
        fields = self._fields(kind.args[0]) if kind.name == "list" else None
        key = name_among(fields or ())
        match kind.name, args:
            case (("map" | "list"), []) if {"count", "num", "number"} & set(words):
                return f"size({read})"
            case "map", [name_of]:
                return f"{read}[{name_of}]" if gets else f"{name_of} in {read}"
            case "map", [name_of, value]:
                return f"{read}[{name_of}] == {value}"
            case "list", [item] if key is not None:
                return f"{read}.exists({name}, {name}.{key} == {item})"
            case "list", [item, value] if key is not None and "value" in (fields or {}):
                return f"{read}.exists({name}, {name}.{key} == {item} && {name}.value == {value})"
            case "list", [item]:
                return None if fields is not None else f"{item} in {read}"
            case (("map" | "list"), []) if not gets:
                return f"size({read}) > 0"
            case _, []:
                return read
            case "string", [value]:
                return f"{read} == {value}"
            case _:
                return None


def _filled(here: str, written: Sequence[str], operands: Sequence[ast.Expr]) -> str:
    for number, text in enumerate(written):
        # Alone in brackets or as an argument, an operand needs no parentheses.
        plain = print_expression(operands[number])
        for outer in ("({%d})", "[{%d}]", "[?{%d}]", ", {%d})", "({%d},"):
            here = here.replace(outer % number, outer.replace("{%d}", plain))
        here = here.replace(f"{{{number}}}", text)
    return here
