"""Conditions: those that are missing, always true or always false, or contradict each other.

A field or a key that is absent is missing, and never null: so is a negation of it. Contradictions
compare, for each path, the values that pass. Any condition without such values must be true, or
false behind a `!`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from grammar.clauses.filter import Filter
from grammar.meaning.constants import fold
from grammar.meaning.environment import inside
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.ranges import (
    NEGATED,
    PARTS_OF_TIME,
    Fact,
    exclude_each_other,
    extent,
    fact,
    includes,
    said,
    scale_of,
)
from grammar.rules.rule import Tree, conditions, finding, instead, on, rule
from grammar.tree import ast
from grammar.tree.policy import Count, Def, Group, Let, of_kind
from grammar.tree.printer import print_expression
from grammar.tree.source import Span
from grammar.tree.types import BOOL, NULL, QUANTITY, STRING
from grammar.tree.walk import children, conjuncts, rewritten, walk

# ---- absence

_WORDS = frozenset({"require", "for", "when", "pods where"})


@rule("P0301")
def absent_negation(tree: Tree) -> Iterator[Diagnostic]:
    """A negation of a key that may be absent, which is missing then, and not true."""
    words = _WORDS - {"require"} if tree.written.setting("missing", "") else _WORDS
    for condition in conditions(tree.written):
        if condition.missing is not None or condition.word not in words:
            continue
        effect = "the condition is then missing and does not hold"
        other = ", or add `missing pass` or `missing fail`" if condition.word == "require" else ""
        yield from _absent(unguarded(condition.expr, _negated_key), tree, effect, other)


@rule("P0317")
def label_in_protect(tree: Tree) -> Iterator[Diagnostic]:
    """A label that may be absent, so that a victim without it is protected, or a node passes."""
    is_decided = bool(tree.written.setting("missing", ""))
    for condition in conditions(tree.policy):
        if condition.word == "protect" and condition.missing is None and not is_decided:
            effect = "every victim without it is then protected"
            other = ", or add `missing pass`, or `missing fail` to keep it so"
            yield from _absent(unguarded(condition.expr, key_read), tree, effect, other)


@rule("P0317")
def label_beside_missing_pass(tree: Tree) -> Iterator[Diagnostic]:
    """A label that may be absent beside a row for which `missing pass` is meant."""
    for clause in (c for c in tree.clauses(Filter) if tree.policy.passes_missing(c)):
        parts = conjuncts(*clause.requires)
        of_rows = [p for p in parts if tree.read_by(p) & tree.environment.tables.keys()]
        known = frozenset[str]().union(*(guards(e) for e in (*parts, clause.when) if e is not None))
        for part in (p for p in parts if of_rows and p not in of_rows):
            found = unguarded(part, key_read, known)
            yield from _absent(found, tree, "`missing pass` then lets the node pass")


def _absent(
    found: Iterable[tuple[Key, ast.Expr]], tree: Tree, effect: str, other: str = ""
) -> Iterator[Diagnostic]:
    """A finding for each key that may be absent, with its effect, and what to write."""
    for key, read in found:
        message = f"`{tree.shown(key)}` may be absent: {effect}"
        yield finding(message, read.span, f"write `{_safe(key, read, tree)}`{other}")


def _negated_key(expr: ast.Expr) -> Key | None:
    """The key that a negation is about."""
    negated: ast.Expr | None = None
    match expr:
        case ast.Binary("!=", left, right):
            negated = right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Binary("==" | "in", left, right) as test) if not with_null(test):
            negated = right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Call("matches" | "startsWith" | "endsWith" | "contains", target)):
            negated = target
        case _:
            pass
    return None if negated is None else key_read(negated)


def _safe(key: Key, whole: ast.Expr, tree: Tree) -> str:
    """The text of an expression in which an absent key has an empty value, or no amount."""
    name = key.index if isinstance(key, ast.Index) else ast.Literal(key.name, STRING)
    read = ast.Index(key.operand, name, optional=True)
    empty = ast.Literal("0" if key.type == QUANTITY else "", STRING)
    safe = ast.Call("orValue", read, (empty,))
    return tree.shown(rewritten(whole, lambda node: safe if node is key else node))


@on("P0330", ast.Binary)
def null_comparison(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A comparison of null with what is never null."""
    match expr:
        case ast.Binary("==" | "!=", left, right) if (left.type == NULL) != (right.type == NULL):
            value = right if left.type == NULL else left
            if value.type.name not in ("dyn", "error", "null"):
                meant = _test(value, tree, there=expr.op == "!=")
                yield instead(f"`{tree.shown(value)}` is never null", expr.span, meant)


def _test(value: ast.Expr, tree: Tree, *, there: bool) -> str:
    """The test whether a value is there, or absent."""
    if value.type.name == "optional":
        test = f"{tree.shown(value)}.hasValue()"
    elif isinstance(value, ast.Select | ast.Index):
        test = f"has({tree.shown(value)})"
    else:
        return "true" if there else "false"
    return test if there else f"!{test}"


_MAPS = frozenset({"labels", "annotations", "nodeSelector", "namespaceLabels", "limits"})
Key = ast.Index | ast.Select


def unguarded(
    expr: ast.Expr, read: Callable[[ast.Expr], Key | None], guarded: frozenset[str] = frozenset()
) -> Iterator[tuple[Key, ast.Expr]]:
    """The keys that `read` finds, each with its expression, unless they are sure to be there."""
    if isinstance(expr, ast.Chain) and expr.op in ("&&", "||"):
        for operand in expr.operands:
            yield from unguarded(operand, read, guarded)
            guarded |= guards(operand)
        return
    if isinstance(expr, ast.Has) or with_null(expr):
        return
    if isinstance(expr, ast.Comprehension):
        # The variable of a macro over a map is a key of that map.
        guarded |= {print_expression(ast.Index(expr.target, ast.Ident(expr.variables[0])))}
    if (key := read(expr)) is not None:
        if print_expression(key) not in guarded:
            yield key, expr
        return
    for child in children(expr):
        yield from unguarded(child, read, guarded)


def with_null(expr: ast.Expr) -> bool:
    """Whether an expression compares with null, of which another check warns."""
    return isinstance(expr, ast.Binary) and NULL in (expr.left.type, expr.right.type)


def key_read(expr: ast.Expr) -> Key | None:
    """The expression as a read of labels, annotations or a node selector, or None."""
    if isinstance(expr, ast.Index | ast.Select) and not expr.optional:
        inner = expr.operand
        if inner.type.name == "map" and isinstance(inner, ast.Select) and inner.name in _MAPS:
            return expr
    return None


def guards(expr: ast.Expr) -> frozenset[str]:
    """What `has(x)`, `key in map`, or their negation before `||`, makes sure to be there."""
    match expr:
        case ast.Unary("!", operand):
            return guards(operand)
        case ast.Has(operand):
            return frozenset({print_expression(operand)})
        case ast.Binary("in", key, holder):
            return frozenset({print_expression(ast.Index(holder, key))})
        case ast.Call("hasValue", ast.Select() | ast.Index() as operand, ()):
            return frozenset({print_expression(_plain(operand))})
        case ast.Chain():
            return frozenset().union(*map(guards, children(expr)))
        case _:
            return frozenset()


def _plain(expr: ast.Expr) -> ast.Expr:
    """The same read without its optionals: `a.b` for `a.?b`."""
    if isinstance(expr, ast.Select | ast.Index):
        return replace(expr, operand=_plain(expr.operand), optional=False)
    return expr


# ---- constants, and what is never used

# What a constant condition means for the policy.
_MEANING = {
    ("require", False): "no node can pass it",
    ("require", True): "every node passes it",
    ("when", False): "the clause never applies",
    ("when", True): "the clause always applies",
    ("for", False): "the policy selects no pod",
}
_TRUE = ast.Literal(True, BOOL)


@rule("P0302")
def constant_condition(tree: Tree) -> Iterator[Diagnostic]:
    """A condition that is always true, or always false.

    `for pods where true` is legal: it selects all pods. So is `for pods where false`, in a policy
    that only other policies use.
    """
    for condition in conditions(tree.written):
        expr = condition.expr
        # That all pods count, or that all are protected, cannot be said in another way.
        if condition.word in ("pods where", "protect") and expr == _TRUE:
            continue
        folded = fold(expr, tree.environment)
        if (value := _truth(folded)) is not None:
            if condition.word != "for" or not (value or expr == folded):
                yield _always(expr, value, _MEANING.get((condition.word, value)))
        elif isinstance(expr, ast.Chain):
            for operand in expr.operands:
                if (value := _truth(fold(operand, tree.environment))) is not None:
                    yield _always(operand, value, f"remove it from the `{expr.op}`")


def _always(expr: ast.Expr, value: bool, hint: str | None) -> Diagnostic:
    return finding(f"this is always {str(value).lower()}", expr.span, hint)


def _truth(expr: ast.Expr) -> bool | None:
    """The value of a constant that is true or false."""
    return expr.value if isinstance(expr, ast.Literal) and isinstance(expr.value, bool) else None


@rule("P0303")
def unused_let(tree: Tree) -> Iterator[Diagnostic]:
    """A `let`, `def`, `group`, `count` or parameter that nothing uses."""
    used = _used(tree)
    for item in tree.written.items:
        if isinstance(item, Let | Def | Group | Count) and item.name not in used:
            message = f"{type(item).__name__.lower()} `{item.name}` is never used"
            yield finding(message, item.name_span, "delete it", Fix(item.span, ""))
    if (template := tree.checked.template) is None:
        return
    named = {e.name for e in walk(template.items) if isinstance(e, ast.Ident)}
    for parameter in template.parameters:
        if parameter.name not in named:
            message = f"parameter `{parameter.name}` is never used"
            yield finding(message, parameter.name_span, "delete it")


def _used(tree: Tree) -> set[str]:
    """The names of definitions that something uses."""
    policy, groups = tree.written, tree.environment.groups
    named = {*groups, *tree.environment.counts}
    used = {item.per.group for item in policy.items if isinstance(item, Count)}
    # Where the name of a group is a domain, what the group is by stands in its place.
    whole = children(policy.clauses)
    used |= {g.name for g in groups.values() if any(each is g.by for each in whole)}
    for expr in walk(policy):
        match expr:
            case ast.LetReference(name) | ast.DefCall(name):
                used.add(name)
            case ast.Ident(name) if name in named:
                used.add(name)
            case ast.Literal():
                used.add(expr.let)
            case _:
                continue
    return {name for name in used if name}


# ---- filters that contradict each other


@rule("P0310")
def no_node_passes(tree: Tree) -> Iterator[Diagnostic]:
    """Conditions that no node passes together."""
    for clause in _filters(tree):
        for require in clause.requires:
            if clause.when is not None and exclude_each_other(clause.when, require):
                message = "no node for which the `when` is true passes this"
                hint = "correct one of them, or turn the `when` into the opposite `require`"
                yield finding(message, require.span, hint)
    for said_before, later, is_empty in _pairs(tree):
        if is_empty:
            hint = "correct one of them: otherwise every pod of this policy stays pending"
            none = finding("no node can pass both conditions", later.span, hint)
            yield replace(none, label="and this one", notes=(said_before,))


@rule("P0311")
def never_rejects(tree: Tree) -> Iterator[Diagnostic]:
    """A filter that rejects no node, because an earlier one or its `when` says the same."""
    for clause in _filters(tree):
        if clause.when is None or not clause.requires:
            continue
        if all(includes(each, clause.when) for each in clause.requires):
            message = "this is what the `when` says, so the filter rejects no node"
            hint = "leave out the `when`, or require something else"
            edit = Fix(Span(clause.name_span.end, clause.when.span.end), "")
            yield finding(message, clause.requires[0].span, hint, edit)
    for said_before, later, is_empty in _pairs(tree):
        if not is_empty:
            hint = f"delete it: {said_before}"
            yield finding("this condition never rejects a node", later.span, hint)


def _filters(tree: Tree) -> tuple[Filter, ...]:
    return tuple(c for c in of_kind(tree.written.items, Filter) if not c.at_bind)


def _pairs(tree: Tree) -> Iterator[tuple[str, ast.Expr, bool]]:
    """What an earlier filter says, and the condition that it excludes (true) or implies."""
    parts = [
        (clause, part, fact(part))
        for clause in _filters(tree)
        for part in conjuncts(*clause.requires)
        if not isinstance(part, ast.Literal)
    ]
    for number, (clause, later, wanted) in enumerate(parts):
        for other, earlier, known in parts[:number]:
            # Without a `when`, the earlier filter applies whenever the later one does.
            if other.when not in (None, clause.when):
                continue
            is_empty = known.excludes(wanted)
            if is_empty or (known.implies(wanted) and clause.missing == other.missing):
                said_before = f"filter `{other.name}` already requires `{tree.shown(earlier)}`"
                yield said_before, later, is_empty
                break


# ---- always true or false

_OF_ALL_TEXTS = frozenset({"", ".*", "^", "$", "^.*", ".*$", "^.*$"})
_OF_POD_ITSELF = ast.Select(ast.Ident("pod"), "metadata")


@rule("P0348")
def always_the_same(tree: Tree) -> Iterator[Diagnostic]:
    """A condition that is always true or false by the values that it compares."""
    for condition in conditions(tree.policy):
        for expr in walk(condition.expr):
            match expr:
                case ast.Chain("&&" | "||" as op, operands):
                    if condition.word != "require" or op == "||":
                        yield from _twice(operands)
                    yield from _together(expr, tree)
                case ast.Binary("in", _, ast.ListLiteral(operands)) if operands:
                    yield from _twice(operands)
                case _ if (why := _by_form(expr)) is not None:
                    yield finding(why, expr.span, "correct it, or leave it out")
                case ast.Binary(op) if op in NEGATED:
                    yield from _alone(expr, tree)


def _twice(parts: Sequence[ast.Expr]) -> Iterator[Diagnostic]:
    """`x == "a" || x == "a"` and `x in ["a", "a"]`, of which one was to be another."""
    for number, part in enumerate(parts):
        if part in parts[:number]:
            hint = "correct one of them, or leave it out"
            yield finding("this is here twice", part.span, hint)


def _together(whole: ast.Chain, tree: Tree) -> Iterator[Diagnostic]:
    """`x >= 22 && x < 6`, which is never true, and `x != "a" || x != "b"`, which always is."""
    known: dict[str, tuple[Fact, ast.Expr]] = {}
    for operand in whole.operands:
        found = fact(operand) if whole.op == "&&" else fact(operand).opposite
        before, first = known.get(found.path, (found, operand))
        merged = before.both(found)
        if merged.empty and not before.empty and not found.empty:
            yield _never(first, operand, whole, tree)
            return
        known[found.path] = merged, first


def _never(first: ast.Expr, second: ast.Expr, whole: ast.Chain, tree: Tree) -> Diagnostic:
    is_and = whole.op == "&&"
    sides = [tree.shown(side) for side in (first, second)]
    message = (
        f"this is always {'false' if is_and else 'true'}: `{sides[0]}` and `{sides[1]}` are"
        f" never {'true' if is_and else 'false'} together"
    )
    one, other = (fact(side).opposite if is_and else fact(side) for side in (first, second))
    if one.excludes(other):
        # Each is the opposite of the other.
        return finding(message, whole.span, "leave one of them out")
    made = replace(whole, op="||" if is_and else "&&", operands=(first, second))
    rest = (o for o in whole.operands if o is not second)
    mended = replace(whole, operands=tuple(made if o is first else o for o in rest))
    meant = tree.shown(mended if len(whole.operands) > len(sides) else made)
    # The span of a chain may begin with a parenthesis.
    in_parentheses = whole.span.start < whole.operands[0].span.start
    return instead(message, whole.span, f"({meant})" if in_parentheses else meant)


def _alone(expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
    """`now.getHours() < 24`, `size(node.pods) >= 0`, another namespace than the policy's."""
    found = fact(expr)
    for read in (expr.left, expr.right):
        if found.path != print_expression(read) or (known := _known(read, tree)) is None:
            continue
        possible, why = known
        is_false = found.excludes(possible)
        if not is_false and not found.opposite.excludes(possible):
            continue
        if expr.op in ("==", "!=") and getattr(read, "function", "") in PARTS_OF_TIME:
            # A number that is out of range has a warning of its own.
            continue
        value = "false" if is_false else "true"
        message = f"this is always {value}: `{tree.shown(read)}` is {why}"
        hint = "correct it, or leave it out"
        if expr.op == ">=" and found.low == possible.low:
            near = tree.shown(replace(expr, op=">"))
            hint = f"correct it, as in `{near}`, or leave it out"
        yield finding(message, expr.span, hint)


def _by_form(expr: ast.Expr) -> str | None:
    """What is said of `x in []`, `x == x` and `x.startsWith("")`."""
    match expr:
        case ast.Binary("in", _, ast.ListLiteral(()) | ast.MapLiteral(())):
            return "this is always false: nothing is in it"
        case ast.Binary(op, left, right) if op in NEGATED and left == right:
            holds = "true" if op in ("==", "<=", ">=") else "false"
            is_constant = isinstance(left, ast.Literal)
            return None if is_constant else f"this is always {holds}: both sides are the same"
        case ast.Binary("==" | "!=" as op, ast.Select(of, name), ast.Literal("")) if (
            name == "name" and inside(of.type).name in ("Container", "ObjectMeta")
        ) or (name == "namespace" and of == _OF_POD_ITSELF):
            return f"this is always {'true' if op == '!=' else 'false'}: a name is never empty"
        case ast.Conditional(_, then, otherwise) if then == otherwise:
            return "both results of this are the same"
        case ast.Call("startsWith" | "endsWith" | "contains", _, (ast.Literal(""),)):
            return "this is always true: it is so of every text"
        case ast.Call("matches", _, (ast.Literal(str() as text),)) if text in _OF_ALL_TEXTS:
            return "this is always true: it is so of every text"
        case _:
            return None


def _known(read: ast.Expr, tree: Tree) -> tuple[Fact, str] | None:
    """What values an expression has, and how a message says it."""
    path, namespace = print_expression(read), tree.policy.namespace
    match read:
        case ast.Select(
            ast.Ident("pod") | ast.Select(ast.Ident("pod"), "metadata"), "namespace"
        ) if namespace is not None:
            return Fact(path, frozenset({namespace})), f"`{namespace}` in this policy"
        case _ if (ends := extent(read)) is not None and ends != (-inf, inf):
            # What is left of a part of a node has a warning of its own.
            if ends[0] == -inf and scale_of(read) is not None:
                return None
            return Fact(path, low=ends[0], high=ends[1]), said(*ends)
        case _:
            return None
