"""Access: what a policy may read of pods, and what the cache keeps of them.

Whoever may edit policies in a namespace must not learn there what is for more rights: not the
`env` values of a pod, and not everything of the pods of other namespaces (docs/language/names.md,
What a policy may read). Each read is found by the type of the object, so that the names through
which a value came do not matter. A value keeps its type until it becomes `dyn`, is compared
or is shown: a whole object may not be used for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.ast import Call, Comprehension, DefCall, Expr, Has, Ident, Index, Select
from grammar.tree.clause_parts import PodSet
from grammar.tree.policy import Data, Def, Item, Let, Policy, Setting, Use
from grammar.tree.source import Span
from grammar.tree.types import Type
from grammar.tree.walk import READ_BY_FUNCTIONS, Definitions, children, reads, rewritten

# The fields of pods of other namespaces that every policy may read.
OPEN_FIELDS = (
    "name",
    "namespace",
    "labels",
    "requests",
    "priority",
    "workload",
    "group",
    "nodeName",
    "phase",
    "created",
    "hostPorts",
    "namespaceLabels",
)
_ENV = "`env` values of pods"
# Functions that give back the objects that they get, or say how many there are, or what they take.
_COUNTING = frozenset({"size", "hasValue", "cards.of"})
_PASSING = frozenset({"optional.of", "value", "or", "orValue", "optional.unwrap", "unwrapOpt"}) | {
    "first",
    "last",
    "slice",
    "reverse",
    "flatten",
}


@dataclass(frozen=True, slots=True)
class Beyond:
    """A read beyond what a policy of a namespace may read, which the `hint` says."""

    what: str
    span: Span
    hint: str


def beyond(policy: Policy, schema: Schema, definitions: Definitions) -> list[Beyond]:
    """The reads of a checked policy beyond what a policy of a namespace may read, in order."""
    finder = _Finder(schema, {i.name: i for i in policy.items if isinstance(i, Def)})
    found = dict.fromkeys(b for item in policy.items for b in finder.item(item, definitions))
    return sorted(found, key=lambda b: b.span.start)


def diagnostics(policy: Policy, schema: Schema, definitions: Definitions) -> Iterator[Diagnostic]:
    """An error for each read beyond, or one warning for a policy that may read more.

    A policy that exists only for `use` governs no pod, so nobody sees what it reads.
    """
    found = beyond(policy, schema, definitions)
    if policy.namespace is not None:
        for read in found:
            yield catalogue.closed_field(read.what, read.span, read.hint)
    elif found and not policy.only_used:
        what = catalogue.listed(dict.fromkeys(read.what for read in found), "and")
        yield catalogue.reads_more(what, policy.name_span, cluster=policy.cluster)


def _of_all(pods: PodSet | None, definitions: Definitions) -> Iterator[Beyond]:
    """The reads of `peer` where a clause counts the pods of all namespaces.

    In other clauses a peer is a pod of the policy's own namespace.
    """
    if pods is None or not pods.all:
        return
    for expr in (pods.amount, pods.where):
        for read in reads(expr, definitions) if expr is not None else ():
            match read.path:
                case ("peer", field, *_) if field not in OPEN_FIELDS:
                    yield _of_others(field, read.span)
                case _:
                    pass


def _of_others(field: str, span: Span) -> Beyond:
    names = catalogue.listed((f"`{name}`" for name in OPEN_FIELDS), "and")
    return Beyond(f"`{field}` of pods of other namespaces", span, f"it can read {names}")


def _whole(expr: Expr) -> Beyond:
    return Beyond(f"`{expr.type}` as a whole", expr.span, "select the fields that are needed")


class _Finder:
    """Finds reads by type; for the time of one policy."""

    def __init__(self, schema: Schema, defs: Mapping[str, Def]) -> None:
        self._schema = schema
        self._defs = defs
        # Whether a record has closed fields, itself or further down.
        self._guarded: dict[str, bool] = {}

    def item(self, item: Item, definitions: Definitions) -> Iterator[Beyond]:
        match item:
            case Setting() | Use() | Data():
                return
            case Let(value=value):
                # The name keeps the type of its value.
                yield from self.of(value)
            case Def(parameters=parameters, body=body):
                # The call keeps the type of the result, as a name does.
                yield from self.of(body, frozenset(p.name for p in parameters))
                if not self.keeps(body, item.result):
                    yield _whole(body)
            case _:
                for root in children(item):
                    yield from self.root(root)
                yield from _of_all(getattr(item, "pods", None), definitions)

    def root(self, expr: Expr) -> Iterator[Beyond]:
        """The reads of an expression whose value is used."""
        if self._kept(expr.type):
            yield _whole(expr)
        yield from self.of(expr)

    def of(self, expr: Expr, hidden: frozenset[str] = frozenset()) -> Iterator[Beyond]:
        """The reads of an expression; `hidden` are variables that hide declared names."""
        if isinstance(expr, Select):
            yield from _closed(expr, hidden)
        for part in children(expr):
            if not self._stays(expr, part):
                yield _whole(part)
            inner = hidden
            if isinstance(expr, Comprehension) and part is not expr.target:
                inner = hidden | frozenset(expr.variables)
            yield from self.of(part, inner)

    def _stays(self, parent: Expr, part: Expr) -> bool:
        """Whether a part without closed fields in it, or with a type that the parent keeps."""
        kept = self._kept(part.type)
        if not kept:
            return True
        match parent:
            case Select() | Has():
                return True
            case Index(operand) if part is operand:
                return True
            case Comprehension(target=target) if part is target:
                return True
            case Call(function) if function in _COUNTING:
                return True
            case Call(function, target) if part is target and function in READ_BY_FUNCTIONS:
                return True
            case Call(function) if function not in _PASSING:
                return False
            case DefCall(name, args):
                # The parameter keeps the type, so what the body reads of it is found there.
                number = next(n for n, arg in enumerate(args) if arg is part)
                return self.keeps(part, self._defs[name].parameters[number].type)
            case _:
                return kept <= self._kept(parent.type)

    def keeps(self, expr: Expr, wanted: Type) -> bool:
        """Whether a value that is passed on as the wanted type keeps its records."""
        return self._kept(expr.type) <= self._kept(wanted)

    def _kept(self, found: Type) -> frozenset[str]:
        """The records with closed fields in a type."""
        if found.is_record:
            return frozenset({found.name}) if self._guards(found.name) else frozenset()
        return frozenset().union(*map(self._kept, found.args))

    def _guards(self, name: str) -> bool:
        if name in ("EnvVar", "Peer"):
            return True
        if name not in self._guarded:
            self._guarded[name] = False  # a circle has no closed fields of its own
            record = self._schema.records.get(name)
            types = [f.type for f in record.fields.values()] if record is not None else []
            self._guarded[name] = any(self._kept(t) for t in types)
        return self._guarded[name]


def _closed(expr: Select, hidden: frozenset[str]) -> Iterator[Beyond]:
    """The read of a closed field that a selection is, if it is one."""
    operand = expr.operand
    kind = operand.type.args[0] if operand.type.name == "optional" else operand.type
    if kind.name == "EnvVar" and expr.name == "value":
        yield Beyond(_ENV, expr.span, "the names of the variables can be read")
    elif kind.name == "Peer" and expr.name not in OPEN_FIELDS:
        # `_of_all` looks at reads of `peer` itself, because it depends on the clause what that is.
        is_own = isinstance(operand, Ident) and operand.name == "peer" and "peer" not in hidden
        if not is_own:
            yield _of_others(expr.name, expr.span)


# ---- peers

Path = tuple[str, ...]
# The paths of `pod` that are known of a pod that is there, and what they are of a peer.
_KEPT: Mapping[Path, Path] = {
    ("metadata", "name"): ("name",),
    ("metadata", "namespace"): ("namespace",),
    ("metadata", "uid"): ("uid",),
    ("metadata", "labels"): ("labels",),
    ("metadata", "annotations"): ("annotations",),
    ("spec", "priority"): ("priority",),
    ("requests",): ("requests",),
    ("limits",): ("limits",),
    ("hostPorts",): ("hostPorts",),
    ("workload", "kind"): ("workload", "kind"),
    ("workload", "name"): ("workload", "name"),
}


def kept(path: Path) -> Path | None:
    """The path of a peer for a path below `pod`; None if the cache does not keep it."""
    for length in (1, 2):
        if (of_peer := _KEPT.get(path[:length])) is not None:
            return (*of_peer, *path[length:])
    return None


def of_peer(expr: ast.Expr, name: str, new: str = "peer") -> ast.Expr:
    """The expression with `peer`, or a new name, in the place of a variable."""

    def change(node: object) -> object:
        if isinstance(node, ast.Ident) and node.name == name:
            return replace(node, name=new)
        return node

    return rewritten(expr, change)
