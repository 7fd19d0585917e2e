"""Fields: what to write for a field that an object does not have, and where it is.

The checker asks when something is wrong. Each answer repeats the expression in the author's own
spelling. The table of habits and the schema know what is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar.meaning.environment import RELATIONS, Environment
from grammar.meaning.schema import Field, Schema
from grammar.messages import habits, plain_words
from grammar.messages.diagnostics import Remedy, nearest
from grammar.messages.plain_words import amount_in_words, words_of
from grammar.tree import ast
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import DURATION, STRING, Type, list_of
from grammar.tree.walk import rewritten

KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
PARTS = ("metadata", "spec", "status")
# What an item of a list says beside its name, and what a taint says of pods.
_VALUES = ("status", "value", "address", "image")
_ADDRESSES = {"ip": "InternalIP", "internalip": "InternalIP", "externalip": "ExternalIP"}
_CONDITIONS = {
    name.lower(): name
    for name in "MemoryPressure DiskPressure PIDPressure NetworkUnavailable".split()
}
_COUNTING = frozenset({"count", "number", "num", "of", "total", "amount", "how", "many", "size"})
# Records are searched this deep for a field.
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of a field in a record: the names on the way, and the list, if there is one."""

    path: tuple[str, ...]
    kind: Type
    items: int = 0


# Methods that make one value of a list.
_OF_LISTS = frozenset({"sum", "min", "max", "isSorted", "distinct", "sort"})


@dataclass(eq=False, slots=True)
class FieldRemedies:
    """Remedies for the fields of one expression. The expressions around stand outermost first."""

    _environment: Environment
    _locals: Mapping[str, Type]
    _around: Sequence[ast.Expr]
    _kind: Callable[[ast.Expr], Type]

    @property
    def _parent(self) -> ast.Expr | None:
        return self._around[-2] if len(self._around) > 1 else None

    @property
    def _schema(self) -> Schema:
        schema = self._environment.schema
        assert schema is not None, "policies have a schema"
        return schema

    def _known(self, name: str) -> bool:
        return (
            name in self._locals
            or name in self._environment.lets
            or self._environment.variable(name) is not None
        )

    # ---- keys of labels

    def label_key(self, expr: ast.Expr) -> Remedy | None:
        """`node.labels.kubernetes.io/arch`: a key with dots and slashes, without brackets."""
        if (found := self._key(expr)) is None:
            return None
        holder, key = found
        text = f"{print_expression(holder)}[{print_string(key)}]"
        return Remedy(expr.span, text, certain=True)

    def _key(self, expr: ast.Expr) -> tuple[ast.Expr, str] | None:
        """The map and the key that an expression spells without white space."""
        if isinstance(expr, ast.Binary) and expr.op in ("/", "-"):
            # Without white space around it, the sign belongs to the key.
            if expr.left.span.end + 1 != expr.right.span.start:
                return None
            head, tail = self._key(expr.left), bare(expr.right)
            return (head[0], f"{head[1]}{expr.op}{tail}") if head and tail else None
        names: list[str] = []
        while isinstance(expr, ast.Select) and not expr.optional:
            names.append(expr.name)
            expr = expr.operand
            kind = self._kind(expr)
            if kind.name == "map" and kind.args[0] == STRING:
                return expr, ".".join(reversed(names))
        return None

    # ---- fields

    def field(self, expr: ast.Select, record: str) -> Remedy | None:
        """A field that the record does not have: its place, or the author's meaning."""
        operand = print_expression(expr.operand)
        parent = self._parent
        if record in ("Pod", "Peer") and self._is_kind(parent):
            return Remedy(expr.span, f"{operand}.workload.kind")
        if record == "Node" and (address := _ADDRESSES.get(_folded(expr.name))) is not None:
            # The item of a list by its type, as if it were written so.
            items = selected(expr.operand, ("status", "addresses"))
            asked = ast.Index(items, ast.Literal(address, STRING))
            return self.keyed(asked, Type("NodeAddress"), items, expr)
        if record == "Pod" and expr.name in ("ready", "running", "isReady"):
            why = "leave it out: the pod that is being placed does not run yet"
            return Remedy(expr.span, "", why, whole=False)
        is_of_pod = record in ("Pod", "Peer") and expr.name == "resources"
        if is_of_pod and isinstance(parent, ast.Select) and parent.name in ("requests", "limits"):
            return Remedy(parent.span, f"{operand}.{parent.name}")
        if (row := habits.field(record, expr.name)) is not None:
            made = row.here.replace("{0}", operand)
            if isinstance(parent, ast.Select) and made.endswith(".workload.name"):
                # `pod.deployment.name`, of which the object is meant.
                return Remedy(expr.span, made.removesuffix(".name"))
            is_item = isinstance(parent, ast.Index) and parent.operand is expr
            if parent is not None and is_item and made.endswith("workload"):
                # Of the owners of a pod, the controller is meant.
                return Remedy(parent.span, made)
            return Remedy(expr.span, made)
        return self._worded(expr, record, operand) or self._elsewhere(expr, record, operand)

    def _elsewhere(self, expr: ast.Select, record: str, operand: str) -> Remedy | None:
        """A field that another part of the same object has."""
        fields, parent = self._schema.records[record].fields, self._parent
        if isinstance(parent, ast.Select) and expr.name in PARTS:
            places = self._places(record, parent.name)
            if places and not places[0].items:
                return Remedy(parent.span, ".".join((operand, *places[0].path)))
        if nearest(expr.name, fields) is not None and not self._places(record, expr.name):
            return None
        for root, kind in ((expr.operand, record), *self._roots(expr.operand)):
            for place in self._continued(kind, expr.name):
                found = selected(root, place.path)
                keyed = None
                if isinstance(parent, ast.Index) and place.kind.name == "list" and not place.items:
                    keyed = self.keyed(parent, place.kind.args[0], found)
                if keyed is not None:
                    return keyed
                if not place.items:
                    return Remedy(expr.span, print_expression(found))
                items, path = selected(root, place.path[: place.items]), place.path[place.items :]
                return self._each(expr, items, path)
        return None

    def _worded(self, expr: ast.Select, record: str, operand: str) -> Remedy | None:
        """`node.free_cpu`, `node.resources.cpu.free`, `node.numberOfPods`, `pod.isDaemonSet`."""
        if (amount := amount_in_words(expr.name, record)) is not None:
            return Remedy(expr.span, f"{operand}.{amount}")
        words = words_of(expr.name) or [""]
        kind = next((k for k in KINDS if k.lower() == "".join(words[1:])), None)
        owners = {*map(str.lower, KINDS), "workload", "owner", "controller"}
        is_of_owner = "".join(words[:-1]) in owners and words[-1] in ("name", "kind")
        if record in ("Pod", "Peer") and is_of_owner:
            return Remedy(expr.span, f"{operand}.workload.{words[-1]}")
        if record in ("Pod", "Peer") and words[0] == "is" and kind is not None:
            return Remedy(expr.span, f'{operand}.workload.kind == "{kind}"')
        beside = getattr(self._parent, "right", None)
        is_text = isinstance(beside, ast.Literal) and isinstance(beside.value, str)
        known = plain_words.WORDS_OF_NODES.get("-".join(words[words[0] == "is" :]))
        if record == "Node" and known is not None and not is_text:
            return Remedy(expr.span, known.replace("node.", f"{operand}."))
        if record == "Node" and (condition := _CONDITIONS.get(_folded(expr.name))) is not None:
            said = f'c.type == "{condition}" && c.status == "True"'
            return Remedy(expr.span, f"{operand}.status.conditions.exists(c, {said})")
        nouns = [w for w in words if w not in _COUNTING]
        if len(nouns) == 1 and len(nouns) < len(words):
            noun = f"{nouns[0].removesuffix('s')}s"
            if (row := habits.field(record, noun)) is not None:
                return Remedy(expr.span, row.here.replace("{0}", operand))
            for place in self._places(record, noun)[:1]:
                read = print_expression(selected(expr.operand, place.path))
                if not place.items and place.kind.name in ("list", "map", "int"):
                    made = read if place.kind.name == "int" else f"size({read})"
                    return Remedy(expr.span, made)
        return None

    def _object_of(self, expr: ast.Select) -> str | None:
        """`pod.namespace.labels`: the object of this name, or the field that has it in its name."""
        holder = expr.operand
        if not isinstance(holder, ast.Select):
            return None
        field = holder.name + expr.name[:1].upper() + expr.name[1:]
        if field in (self._fields(self._kind(holder.operand)) or {}):
            return f"{print_expression(holder.operand)}.{field}"
        if print_expression(holder.operand) != "pod":
            return None
        for name, kind in self._environment.variables.items():
            known = self._fields(kind)
            if name.startswith(holder.name) and known is not None and expr.name in known:
                return f"{name}.{expr.name}"
        return None

    @staticmethod
    def _is_kind(parent: ast.Expr | None) -> bool:
        """Whether an expression stands for the kind of a workload: `pod.type == "Job"`."""
        if not isinstance(parent, ast.Binary) or parent.op not in ("==", "!=", "in"):
            return False
        listed = parent.right.elements if isinstance(parent.right, ast.ListLiteral) else ()
        values = [getattr(e, "value", None) for e in listed or (parent.left, parent.right)]
        return any(v in KINDS for v in values)

    def _roots(self, expr: ast.Expr) -> Iterator[tuple[ast.Expr, str]]:
        """The objects that an expression goes into, from the inside out, with their records."""
        while isinstance(expr, ast.Select):
            expr = expr.operand
            if (kind := self._kind(expr)).is_record:
                yield expr, kind.name

    def _places(self, record: str, name: str) -> list[_Place]:
        """Where a record has a field of the name at some depth: the shallowest, lists last."""
        schema = self._schema
        if record not in schema.records:
            return []
        found: list[_Place] = []
        queue: list[tuple[str, tuple[str, ...], int]] = [(record, (), 0)]
        seen = {record}
        while queue:
            current, path, items = queue.pop(0)
            fields = schema.records[current].fields
            # Containers of these two lists are seldom meant.
            for field in sorted(fields, key=lambda name: name.startswith(("init", "ephemeral"))):
                known = fields[field]
                here = (*path, field)
                if _folded(field) == _folded(name):
                    found.append(_Place(here, known.type, items))
                inner = known.type
                count = items
                if inner.name == "list" and not items:
                    inner, count = inner.args[0], len(here)
                is_new = inner.is_record and inner.name in schema.records and inner.name not in seen
                if is_new and len(here) < _DEEPEST and not known.native:
                    seen.add(inner.name)
                    queue.append((inner.name, here, count))
        return sorted(found, key=lambda p: (bool(p.items), p.kind.is_record, len(p.path)))

    def _continued(self, record: str, name: str) -> list[_Place]:
        """The places of a field, first those that have the fields behind it as well."""
        names = list[str]()
        for outer in reversed(self._around[:-1]):
            if not isinstance(outer, ast.Select):
                break
            names.append(outer.name)

        def lacks(place: _Place) -> bool:
            kind = place.kind
            for below in names:
                fields = self._fields(kind.args[0] if kind.name == "list" else kind)
                if fields is None or below not in fields:
                    return fields is not None or kind.name not in ("list", "map", "dyn")
                kind = fields[below].type
            return False

        return sorted(self._places(record, name), key=lacks)

    def _fields(self, kind: Type) -> Mapping[str, Field] | None:
        record = self._schema.records.get(kind.name)
        return None if record is None else record.fields

    def _each(self, expr: ast.Expr, items: ast.Expr, path: Sequence[str]) -> Remedy:
        """The condition around an expression, said of each item of a list."""
        name = self._variable(items)
        field = selected(ast.Ident(name), path)
        whole = self._condition()
        read, around = self._read_whole()
        if isinstance(around, ast.Call) and around.target is read and around.function in _OF_LISTS:
            # `node.pods.requests.cpu.sum()`
            said = print_expression(replaced(read, expr, field))
            return Remedy(read.span, f"{print_expression(items)}.map({name}, {said})")
        if isinstance(whole, ast.Binary) and whole.op == "in" and whole.right is expr:
            said = f"{print_expression(field)} == {print_expression(whole.left)}"
        else:
            said = print_expression(replaced(whole, expr, field))
        right = getattr(whole, "right", ast.Ident(""))
        if isinstance(whole, ast.Binary) and isinstance(right, ast.Literal) and right.value is None:
            # Whether some item has it.
            negation = "!" if whole.op == "==" else ""
            test = f"{name}, has({print_expression(field)})"
            return Remedy(whole.span, f"{negation}{print_expression(items)}.exists({test})")
        if whole is not expr:
            # What is not to be is meant of every item.
            is_denied = isinstance(whole, ast.Binary) and (
                whole.op == "!=" or getattr(whole.right, "value", None) is False
            )
            macro = "all" if is_denied else "exists"
            made = f"{print_expression(items)}.{macro}({name}, {said})"
        else:
            made = f"{print_expression(items)}.map({name}, {print_expression(field)})"
        return Remedy(whole.span, made)

    def _read_whole(self) -> tuple[ast.Expr, ast.Expr | None]:
        """The fields and keys that are read of the expression, and what they stand in."""
        read = self._around[-1]
        for outer in reversed(self._around[:-1]):
            if not isinstance(outer, ast.Select | ast.Index) or outer.operand is not read:
                return read, outer
            read = outer
        return read, None

    def _variable(self, items: ast.Expr) -> str:
        """A name for the items of a list that is not taken: `t` for taints."""
        letter = items.name[:1].lower() if isinstance(items, ast.Select) else "x"
        return letter if letter.isalpha() and not self._known(letter) else "item"

    def _condition(self) -> ast.Expr:
        """The comparison or test that the expression is part of; itself if there is none."""
        found = self._around[-1]
        for outer in reversed(self._around[:-1]):
            match outer:
                case ast.Binary(op) if op in RELATIONS:
                    return outer
                case ast.Chain("+") | ast.Binary() | ast.Index() | ast.Select():
                    found = outer
                case ast.Call(_, target, args) if target is not None or args:
                    found = outer
                case _:
                    return found
        return found

    def without_fields(self, expr: ast.Select, kind: Type) -> Remedy | None:
        """A field of a list, a text or a map key: of each item, or a function."""
        if (key := self.label_key(expr)) is not None:
            return key
        operand = print_expression(expr.operand)
        if kind == STRING and expr.name in ("key", "name") and isinstance(expr.operand, ast.Ident):
            # Of a map, a macro names the keys.
            return Remedy(expr.span, operand)
        if kind == list_of(Type("NodeCondition")):
            # `node.status.conditions.Ready == "True"`
            whole = self._condition()
            test = f'{operand}.exists(c, c.type == "{expr.name}" && c.status == "True")'
            return Remedy(whole.span, "node.ready" if expr.name == "Ready" else test)
        if (beside := self._object_of(expr)) is not None:
            return Remedy(expr.span, beside)
        whole, unit = self._condition(), expr.name.removesuffix("s")[:1].lower()
        if kind == DURATION and unit in ("s", "m", "h", "d") and isinstance(whole, ast.Binary):
            # `(now - node.metadata.creationTimestamp).days > 3`
            number = getattr(whole.right, "value", None)
            if whole.left is expr and isinstance(number, int):
                return Remedy(whole.span, f'{operand} {whole.op} "{number}{unit}"')
        if (row := habits.call(expr.name, kind.name, 1)) is not None:
            return Remedy(expr.span, row.here.replace("{0}", operand))
        if kind.name == "list" and expr.name in (self._fields(kind.args[0]) or {}):
            return self._each(expr, expr.operand, (expr.name,))
        return None

    def keyed(
        self,
        expr: ast.Index,
        item: Type,
        items: ast.Expr | None = None,
        read: ast.Expr | None = None,
    ) -> Remedy | None:
        """`node.status.conditions["Ready"] == "True"`: the item of a list with this name.

        `items` is the list, if the author wrote something else, and `read` is the written text.
        """
        items = items or expr.operand
        fields = self._fields(item) or {}
        key = name_among(fields)
        text = expr.index.value if isinstance(expr.index, ast.Literal) else None
        if key is None or not isinstance(text, str):
            return None
        name, around = self._variable(items), self._around
        if read is None and around[-1] is not expr:
            # What is asked about is the list, not its item.
            self._around = around[:-1]
        read, parent = read or expr, self._parent
        whole, said = self._condition(), f"{name}.{key} == {print_string(text)}"
        self._around = around
        negation = ""
        if whole is not read:
            value: ast.Expr = ast.Ident(name)
            if not isinstance(parent, ast.Select) or parent.operand is not read:
                given = getattr(getattr(parent, "right", None), "value", None)
                values = ("effect", *_VALUES) if given in plain_words.EFFECTS else _VALUES
                field = next((f for f in values if f in fields), None)
                if field is None:
                    return None
                value = ast.Select(value, field)
            other = replaced(whole, read, value)
            if isinstance(other, ast.Binary) and isinstance(value, ast.Select):
                given = getattr(other.right, "value", None)
                if isinstance(given, bool) and fields[value.name].type == STRING:
                    # The status of a condition begins with a capital letter.
                    other = replace(other, right=ast.Literal(str(given), STRING))
            if isinstance(other, ast.Binary) and other.op == "!=":
                negation, other = "!", replace(other, op="==")
            said = f"{said} && {print_expression(other)}"
        return Remedy(whole.span, f"{negation}{print_expression(items)}.exists({name}, {said})")


def bare(expr: ast.Expr) -> str | None:
    """The text that words, dots, slashes and minus signs spell; None for anything else."""
    match expr:
        case ast.Ident(name):
            return name
        case ast.Literal(int() as number) if not isinstance(number, bool):
            return str(number)
        case ast.Select(operand, name, False) if (head := bare(operand)) is not None:
            return f"{head}.{name}"
        case ast.Binary("/" | "-" as sign, left, right):
            head, tail = bare(left), bare(right)
            if head is None or tail is None or left.span.end + 1 != right.span.start:
                return None
            return f"{head}{sign}{tail}"
        case _:
            return None


def name_among(fields: Collection[str]) -> str | None:
    """The field that tells an item of a list from the others."""
    return next((f for f in ("name", "key", "type") if f in fields), None)


def _folded(name: str) -> str:
    """A name in the spelling that `node_name`, `NodeName` and `nodeName` share."""
    return name.replace("_", "").lower()


def selected(expr: ast.Expr, names: Sequence[str]) -> ast.Expr:
    for name in names:
        expr = ast.Select(expr, name)
    return expr


def replaced(whole: ast.Expr, part: ast.Expr, by: ast.Expr) -> ast.Expr:
    return rewritten(whole, lambda node: by if node is part else node)


def is_read(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Select | ast.Index) and not expr.optional


def optional(expr: ast.Expr) -> str | None:
    """The read of a field or key as an optional."""
    match expr:
        case ast.Index(operand, index):
            return f"{print_expression(operand)}[?{print_expression(index)}]"
        case ast.Select(operand, name):
            return f"{print_expression(operand)}.?{name}"
        case _:
            return None


def grouped(expr: ast.Expr) -> str:
    """The expression in a form that `.name` can follow."""
    text = print_expression(expr)
    is_whole = isinstance(
        expr,
        (
            ast.Ident | ast.Select | ast.Index | ast.Call | ast.Literal | ast.ListLiteral,
            ast.Comprehension | ast.Has | ast.MapLiteral | ast.DefCall,
        ),
    )
    return text if is_whole else f"({text})"
