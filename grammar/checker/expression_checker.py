"""Checker: resolves names and infers types; returns the same tree, typed, with diagnostics.

Short forms such as `node.zone` are written out, constants take the type of the operand beside them,
`let` names become LetReference and `def` calls DefCall. A wrong part gets the poison type, which
agrees with every type, so that one mistake is one message. Checking a checked tree changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, assert_never

from grammar.clauses.cards import CARD, CARD_TYPE, Cards
from grammar.meaning import card_forms as cards
from grammar.meaning import schema as shortforms
from grammar.meaning.constants import coerce, coerce_beside, coerce_chain, constants_of
from grammar.meaning.environment import (
    MACROS,
    RELATIONS,
    TESTS,
    Environment,
    dotted,
    inside,
    result_of_macro,
    variables_of_macro,
)
from grammar.messages import catalogue
from grammar.messages.diagnostics import (
    OF_EXPRESSION,
    SIMILAR,
    Diagnostic,
    Helper,
    Remedy,
    answered,
    helped,
    nearest,
)
from grammar.tree import ast
from grammar.tree.policy import DATA
from grammar.tree.printer import print_expression
from grammar.tree.source import Span
from grammar.tree.types import (
    BOOL,
    DYN,
    INT,
    POISON,
    STRING,
    Type,
    agrees,
    comparable,
    join,
    list_of,
    loses_record,
    map_of,
    optional_of,
    resolve,
)
from grammar.values.format import refused


class Checker:
    """Checks expressions in one environment and collects diagnostics in `found`."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.found: list[Diagnostic] = []
        self._locals: dict[str, Type] = {}
        # The expressions that are being checked, as they are written, outermost first.
        self._around: list[ast.Expr] = []
        # The `cards` clauses that are being written out, each in a form, outermost first.
        self._writing_out: list[tuple[str, str]] = []
        # Inside the arguments of `format`.
        self._formats = False

    def _report(self, found: Diagnostic, remedy: Remedy | None = None) -> None:
        self.found.append(found if remedy is None else remedy.on(found))

    def _ask(self, question: Callable[[Any], Remedy | None]) -> Remedy | None:
        """What to write for what is wrong in the innermost expression.

        A remedy needs the types of the parts. While they are found, no other remedy is asked for,
        so that nested mistakes do not cost more and more.
        """

        def ask(asked: Helper) -> Remedy | None:
            about = self.environment, self._locals, self._around, self._kind
            return question(asked.expression(*about))

        return answered(None, OF_EXPRESSION, ask)

    def _kind(self, expr: ast.Expr) -> Type:
        """The type of a part, which is checked for itself elsewhere."""
        return self._quietly(expr).type

    def check(self, expr: ast.Expr, wanted: Type | None = None) -> ast.Expr:
        """The typed tree. With `wanted`, constants take that type; any other type is an error."""
        checked = self._check(expr)
        if wanted is None:
            return checked
        checked = coerce(checked, wanted, self.found)
        if not agrees(wanted, checked.type) or loses_record(wanted, checked.type):
            hint = catalogue.wanted_hint(wanted, checked.type)
            found = catalogue.wrong_type(checked.type, catalogue.an(wanted), checked.span, hint)
            is_condition = wanted == BOOL
            self._report(
                found,
                self._ask(lambda r: r.condition(expr, checked.type)) if is_condition else None,
            )
        return checked

    @contextmanager
    def scope(self, names: Mapping[str, Type], *, closed: bool = False) -> Iterator[None]:
        """Adds local names; `closed` hides the outer ones, for the body of a `def`."""
        outer = self._locals
        self._locals = dict(names) if closed else {**outer, **names}
        try:
            yield
        finally:
            self._locals = outer

    def _check(self, expr: ast.Expr) -> ast.Expr:
        self._around.append(expr)
        try:
            return self._checked(expr)
        finally:
            self._around.pop()

    def _checked(self, expr: ast.Expr) -> ast.Expr:
        match expr:
            case ast.Literal() | ast.LetReference():
                return expr
            case ast.Ident():
                return self._ident(expr)
            case ast.Select():
                return self._select(expr)
            case ast.Index():
                return self._index(expr)
            case ast.Call():
                return self._call(expr)
            case ast.Unary(op, operand):
                checked = self._check(operand)
                found = self._overload(f"{op}_", (checked,), expr.span)
                return replace(expr, operand=checked, type=found)
            case ast.Binary():
                return self._binary(expr)
            case ast.Chain():
                return self._chain(expr)
            case ast.Conditional(condition, then, otherwise):
                return self._conditional(
                    expr, self.check(condition, BOOL), self._check(then), self._check(otherwise)
                )
            case ast.ListLiteral(elements, marked):
                items = tuple(self._element(e, marked=i in marked) for i, e in enumerate(elements))
                kinds = [inside(e.type) if i in marked else e.type for i, e in enumerate(items)]
                self._uniform("items", items, kinds)
                return replace(expr, elements=items, type=list_of(join(kinds)))
            case ast.MapLiteral():
                return self._map(expr)
            case ast.Comprehension():
                return self._comprehension(expr)
            case ast.Has(operand):
                checked = self._check(operand)
                if isinstance(checked, ast.Select | ast.Index):
                    return replace(expr, operand=checked, type=BOOL)
                if checked.type != POISON:
                    self.found.append(catalogue.has_needs_selection(operand.span))
                return replace(expr, type=BOOL)
            case ast.DefCall(_, args):
                return replace(expr, args=tuple(self._check(a) for a in args))
            case _:
                assert_never(expr)

    # ---- names

    def _ident(self, expr: ast.Ident) -> ast.Expr:
        name = expr.name
        if not expr.absolute and name in self._locals:
            return replace(expr, type=self._locals[name])
        if not expr.absolute and name in self.environment.lets:
            value = self.environment.lets[name]
            return ast.LetReference(
                name, span=expr.span, type=value.type, constants=constants_of(value)
            )
        if (known := self._variable(name, expr.span, absolute=expr.absolute)) is not None:
            return known
        names = {*self._locals, *self.environment.lets, *self.environment.variables}
        above = self._around[-2] if len(self._around) > 1 else None
        wrong = catalogue.unknown_name(name, names, expr.span)
        is_object = isinstance(above, ast.Select) or (
            isinstance(above, ast.Call) and above.target is expr
        )
        if is_object and not (wrong.hint or "").startswith(SIMILAR):
            # What has fields is no text, and seldom a `let`.
            hint = "expressions read `pod`, `node`, `namespaceObject` and `now`"
            wrong = replace(wrong, hint=hint)
        self._report(wrong, self._ask(lambda r: r.name(expr)))
        return replace(expr, type=POISON)

    def _qualified(self, expr: ast.Select) -> ast.Ident | None:
        """`a.b.c` as one declared name, if there is one; local names are never qualified."""
        root, name = dotted(expr)
        own = self._locals, self.environment.lets
        if root is None or (not root.absolute and any(root.name in each for each in own)):
            return None
        return self._variable(name, expr.span, absolute=root.absolute)

    def _is_data(self, expr: ast.Expr) -> bool:
        """Whether it is the `data` of `data.NAME`, and no name that the policy has given."""
        known = self._locals, self.environment.lets, self.environment.variables
        return dotted(expr)[1] == "data" and not any("data" in each for each in known)

    def _variable(self, name: str, span: Span, *, absolute: bool) -> ast.Ident | None:
        """A declared name with its type; None if it is unknown."""
        kind = self.environment.variable(name)
        return None if kind is None else ast.Ident(name, absolute, span=span, type=kind)

    def _select(self, expr: ast.Select) -> ast.Expr:
        if (whole := self._qualified(expr)) is not None:
            return whole
        if self._is_data(expr.operand):
            known = (name.removeprefix(DATA) for name in self.environment.tables)
            self._report(catalogue.unknown_table(expr.name, known, expr.name_span))
            return replace(expr, type=POISON)
        operand = self._check(expr.operand)
        inner = inside(operand.type)
        wrapped = expr.optional or operand.type.name == "optional"
        match inner:
            case Type("dyn" | "error"):
                found = inner
                schema = self.environment.schema
                if inner == DYN and schema is not None and schema.reads_more(expr.name):
                    self.found.append(catalogue.needs_type(expr.name, expr.name_span))
                    found = POISON
            case Type("map", (_, value)):
                found = value
            case Type() if inner.is_record:
                return self._field(replace(expr, operand=operand), inner, wrapped=wrapped)
            case _:
                wrong = catalogue.no_fields(inner, expr.name, expr.name_span)
                self._report(wrong, self._ask(lambda r: r.without_fields(expr, inner)))
                found = POISON
        return replace(expr, operand=operand, type=optional_of(found) if wrapped else found)

    def _field(self, expr: ast.Select, record: Type, *, wrapped: bool) -> ast.Expr:
        schema = self.environment.schema
        assert schema is not None, "record types come from a schema"
        if (known := schema.field(record.name, expr.name)) is None:
            fields = schema.records[record.name].fields
            wrong = catalogue.unknown_field(record, expr.name, fields, expr.name_span)
            if record.name == "Peer" and nearest(expr.name, fields) is None:
                wrong = catalogue.not_kept(record, expr.name, expr.name_span, fields)
            self._report(wrong, self._ask(lambda r: r.field(self._written(expr), record.name)))
            return replace(expr, type=POISON)
        if known.parameter is not None:
            written = print_expression(self._written(expr))
            self._report(catalogue.must_index(expr.name, written, expr.span))
            return replace(expr, type=POISON)
        if known.derived is not None and not expr.optional:
            names = {"self": expr.operand}
            return self._check(shortforms.written_out(known.derived, names, expr.span))
        return replace(expr, type=optional_of(known.type) if wrapped else known.type)

    def _written(self, expr: ast.Select) -> ast.Select:
        """The selection that is being checked, as its author wrote it."""
        written = self._around[-1]
        return written if isinstance(written, ast.Select) else expr

    def _index(self, expr: ast.Index) -> ast.Expr:
        if (written := self._computed_index(expr)) is not None:
            return written
        operand = self._check(expr.operand)
        inner = inside(operand.type)
        if operand.type == POISON and isinstance(expr.index, ast.Ident) and expr.index.name == "_":
            # A wildcard of another language, in something that was already reported.
            return replace(expr, operand=operand, type=POISON)
        index = self._key(expr.index) if inner.name == "map" else self._check(expr.index)
        wrapped = expr.optional or operand.type.name == "optional"
        match inner:
            case Type("dyn" | "error"):
                found = inner
            case Type("list" | "map"):
                key, found = (INT, inner.args[0]) if inner.name == "list" else inner.args
                if not agrees(key, index.type):
                    expected = f"{catalogue.an(key)}, the key of this {inner.name}"
                    hint = catalogue.wanted_hint(key, index.type)
                    wrong = catalogue.wrong_type(index.type, expected, index.span, hint)
                    is_list, item = inner.name == "list", inner.args[0]
                    remedy = self._ask(lambda r: r.keyed(expr, item)) if is_list else None
                    self._report(wrong, remedy)
                    found = found if remedy is None else POISON
            case _:
                self._report(catalogue.no_keys(inner, operand.span))
                found = POISON
        found = optional_of(found) if wrapped else found
        return replace(expr, operand=operand, index=index, type=found)

    def _key(self, expr: ast.Expr) -> ast.Expr:
        """A key of a map, which is often a text without its quotes."""
        if (remedy := self._ask(lambda r: r.bare_text(expr))) is None:
            return self._check(expr)
        name = remedy.text[1:-1]
        self._report(catalogue.unknown_name(name, (), expr.span), remedy)
        return replace(expr, type=POISON)

    def _computed_index(self, expr: ast.Index) -> ast.Expr | None:
        """`node.usage[r]` written out: a short form with its index as a parameter."""
        schema, select = self.environment.schema, expr.operand
        if schema is None or not isinstance(select, ast.Select):
            return None
        if not any(select.name in r.fields for r in schema.records.values()):
            return None
        operand = self._quietly(select.operand)
        known = schema.field(operand.type.name, select.name)
        if known is None or known.parameter is None:
            return None
        if known.derived is None:
            return self._cards(expr, select.name, operand)
        index = self.check(self._key(expr.index), STRING)
        names = {"self": operand, known.parameter: index}
        return self._check(shortforms.written_out(known.derived, names, expr.span))

    def _cards(self, expr: ast.Index, form: str, node: ast.Expr) -> ast.Expr:
        """`node.cards["gpu"]` or `node.chosen["gpu"]` written out."""
        if (clause := self._cards_clause(expr.index)) is None:
            return replace(expr, type=POISON)
        made = cards.chosen if form == "chosen" else cards.cards
        return self._of_cards(clause, form, expr, lambda: made(clause, node, expr.span))

    def _of_cards(
        self, clause: Cards, form: str, expr: ast.Expr, made: Callable[[], ast.Expr]
    ) -> ast.Expr:
        """What is read of cards in a form written out, unless it is made of that form itself.

        What chosen cards are may read the clause once more, in another form.
        """
        if (clause.name, form) in self._writing_out:
            self.found.append(catalogue.recursion((clause.name, clause.name), expr.span))
            return replace(expr, type=POISON)
        self._writing_out.append((clause.name, form))
        checked = self._check(made())
        self._writing_out.pop()
        return checked

    def _fragmentation(self, expr: ast.Call) -> ast.Expr:
        """`fragmentation("gpu")` written out: in a `pick` of its card, else of the chosen ones."""
        if len(expr.args) != 1:
            self.found.append(catalogue.wrong_count(expr.function, 1, len(expr.args), expr.span))
            return replace(expr, type=POISON)
        if (clause := self._cards_clause(expr.args[0])) is None:
            return replace(expr, type=POISON)
        node = ast.Ident("node", False, span=expr.span)
        in_pick = self._locals.get(CARD) == CARD_TYPE
        card = ast.Ident(CARD, False, span=expr.span) if in_pick else None
        return self._of_cards(
            clause,
            "fragmentation" if in_pick else "chosen",
            expr,
            lambda: cards.fragmentation(clause, node, card, expr.span),
        )

    def _cards_clause(self, name: ast.Expr) -> Cards | None:
        """The `cards` clause of this name in the policy; None, with an error, for any other."""
        known = self.environment.cards
        if isinstance(name, ast.Literal) and isinstance(name.value, str) and name.value in known:
            return known[name.value]
        shown = print_expression(name)
        self.found.append(catalogue.unknown_cards(shown, known, name.span))
        return None

    def _quietly(self, expr: ast.Expr) -> ast.Expr:
        """Checks a part that is checked again later, without its diagnostics."""
        kept = len(self.found)
        with helped(None):
            checked = self._check(expr)
        del self.found[kept:]
        return checked

    # ---- calls and operators

    def _call(self, expr: ast.Call) -> ast.Expr:
        if expr.target is None and not expr.absolute and expr.function in self.environment.defs:
            return self._def_call(expr)
        if expr.target is None and expr.function == "fragmentation":
            return self._fragmentation(expr)
        if (namespaced := self.environment.function_name(expr)) is not None:
            args = tuple(self._check(a) for a in expr.args)
            found = self._overload(namespaced, args, expr.span, name_span=expr.name_span)
            whole = replace(expr, function=namespaced, target=None, absolute=False)
            return replace(whole, args=args, type=found)
        if (remedy := self._ask(lambda r: r.macro(expr))) is not None:
            if expr.target is not None and self._check(expr.target).type == POISON:
                # What stands before is corrected first.
                return replace(expr, type=POISON)
            wrong = catalogue.unknown_function(expr.function, (), expr.name_span)
            if expr.function in MACROS and expr.target is not None:
                wrong = catalogue.macro_variable(expr.function, expr.name_span)
            self._report(wrong, remedy)
            return replace(expr, type=POISON)
        root, space = dotted(expr.target) if expr.target is not None else (None, "")
        is_foreign = root is not None and self._is_unknown(root)
        remedy = self._ask(lambda r: r.call(expr)) if expr.target is None or is_foreign else None
        names = {*self.environment.defs, *self._taking(len(expr.args), member=False)}
        name, span = expr.function, expr.name_span
        if is_foreign and remedy is None:
            # `math.greatst`: the functions of one namespace are meant.
            name, names = f"{space}.{name}", {n for n in names if n.startswith(f"{space}.")}
            span = Span(expr.span.start, span.end)
        if expr.target is None or (is_foreign and (remedy is not None or names)):
            for argument in expr.args:
                self._check(argument)
            self._report(catalogue.unknown_function(name, names, span), remedy)
            return replace(expr, type=POISON)
        first = expr.args[0] if len(expr.args) > 1 else None
        if isinstance(first, ast.Ident) and not self.environment.overloads(
            expr.function, member=True
        ):
            # A macro of another language: its first argument is a new name.
            if self._check(expr.target).type != POISON and self._is_unknown(first):
                self._report(
                    catalogue.unknown_function(name, MACROS, span), self._call_remedy(name)
                )
            return replace(expr, type=POISON)
        target, outer = self._check(expr.target), self._formats
        self._formats = outer or expr.function == "format"
        args = tuple(self._argument(target, expr.function, self._check(a)) for a in expr.args)
        self._formats = outer
        found = self._overload(
            expr.function, (target, *args), expr.span, member=True, name_span=expr.name_span
        )
        if expr.function == "format" and args and isinstance(args[0], ast.ListLiteral):
            self._format(target, args[0])
        return replace(expr, target=target, args=args, type=found)

    def _is_unknown(self, name: ast.Ident) -> bool:
        known = {*self._locals, *self.environment.lets}
        return (
            name.name not in known and self._variable(name.name, name.span, absolute=False) is None
        )

    def _format(self, text: ast.Expr, values: ast.ListLiteral) -> None:
        """Reports what a constant text for `format` would refuse of these values."""
        if isinstance(text, ast.Literal) and isinstance(text.value, str) and not values.optional:
            kinds = [value.type for value in values.elements]
            if (refusal := refused(text.value, kinds)) is not None:
                reason, place = refusal
                span = text.span if place is None else values.elements[place].span
                self.found.append(catalogue.bad_format(reason, span))

    def _argument(self, target: ast.Expr, function: str, argument: ast.Expr) -> ast.Expr:
        """An argument; constants of `orValue` and of comparisons take the type of the target."""
        wanted = inside(target.type)
        if function in ("orValue", "isLessThan", "isGreaterThan", "compareTo", "add", "sub"):
            return coerce(argument, wanted, self.found)
        return argument

    def _def_call(self, expr: ast.Call) -> ast.Expr:
        known = self.environment.defs[expr.function]
        if len(expr.args) != len(known.parameters):
            wanted, given = len(known.parameters), len(expr.args)
            self.found.append(catalogue.wrong_count(expr.function, wanted, given, expr.span))
        args = tuple(
            self.check(a, p.type) for a, p in zip(expr.args, known.parameters, strict=False)
        )
        return ast.DefCall(expr.function, args, span=expr.span, type=known.result)

    def _overload(
        self,
        function: str,
        args: Sequence[ast.Expr],
        span: Span,
        *,
        member: bool = False,
        name_span: Span | None = None,
    ) -> Type:
        kinds = [a.type for a in args]
        overloads = self.environment.overloads(function, member=member)
        shown = function[0] if function in ("!_", "-_") else function
        if not overloads:
            if POISON not in kinds:
                names = self._taking(len(args), member=member)
                wrong = catalogue.unknown_function(shown, names, name_span or span)
                self._report(wrong, self._call_remedy(function))
            return POISON
        found = resolve(overloads, kinds)
        if found is None:
            if POISON not in kinds:
                self._report(catalogue.no_overload(shown, kinds, span), self._call_remedy(function))
            return POISON
        return found

    def _taking(self, operands: int, *, member: bool) -> set[str]:
        """The functions that take so many operands: no other one is meant."""
        known, overloads = self.environment.function_names, self.environment.overloads
        return {
            name
            for name in known(member=member)
            if any(len(o.params) == operands for o in overloads(name, member=member))
        }

    def _call_remedy(self, function: str) -> Remedy | None:
        """What to write for the call or operation that is being checked."""
        match self._around[-1]:
            case ast.Call() as call:
                return self._ask(lambda r: r.call(call))
            case ast.Binary(op, left, right) as binary if op == function:
                return self._ask(lambda r: r.operator(binary, self._kind(left), self._kind(right)))
            case ast.Unary("!", operand) as negation if function == "!_":
                above = self._around[-2] if len(self._around) > 1 else None
                if isinstance(above, ast.Binary) and above.left is negation:
                    denied = ast.Unary("!", replace(above, left=operand))
                    return Remedy(above.span, print_expression(denied))
                return self._ask(lambda r: r.negation(negation, self._kind(operand)))
            case _:
                return None

    def _binary(self, expr: ast.Binary) -> ast.Expr:
        if expr.op in ("/", "-") and (key := self._ask(lambda r: r.label_key(expr))) is not None:
            written = print_expression(expr).replace(" ", "")
            self._report(catalogue.key_as_field(written, key.span), key)
            return replace(expr, type=POISON)
        above = self._around[-2] if len(self._around) > 1 else None
        is_compared = isinstance(above, ast.Binary) and above.op in RELATIONS
        if expr.op == "-" and is_compared:
            # `kube-system` beside a text.
            text = self._ask(lambda r: r.bare_text(expr))
            if text is not None:
                self._report(catalogue.unknown_name(text.text[1:-1], (), expr.span), text)
                return replace(expr, type=POISON)
        left, right = self._check(expr.left), self._check(expr.right)
        time = self._ask(lambda r: r.time(expr, left.type))
        if time is not None:
            self._report(catalogue.no_overload(expr.op, [left.type, right.type], expr.span), time)
            return replace(expr, type=POISON)
        left, right = coerce_beside(expr.op, left, right, self.found)
        checked = replace(expr, left=left, right=right)
        if expr.op in ("==", "!="):
            if not comparable(left.type, right.type):
                kinds = [left.type, right.type]
                remedy = self._ask(lambda r: r.operator(expr, left.type, right.type))
                self._report(catalogue.no_overload(expr.op, kinds, expr.span), remedy)
            return replace(checked, type=BOOL)
        return replace(checked, type=self._overload(expr.op, (left, right), expr.span))

    def _chain(self, expr: ast.Chain) -> ast.Expr:
        if expr.op != "+":
            tests = tuple(self.check(o, BOOL) for o in expr.operands)
            return replace(expr, operands=tests, type=BOOL)
        operands = tuple(self._check(o) for o in expr.operands)
        chain = coerce_chain(replace(expr, operands=operands), self.found)
        total = chain.operands[0]
        for operand in chain.operands[1:]:
            span = Span(total.span.start, operand.span.end)
            total = replace(total, type=self._overload("+", (total, operand), span), span=span)
        return replace(chain, type=total.type)

    def _conditional(
        self, expr: ast.Conditional, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr
    ) -> ast.Expr:
        then, otherwise = coerce_beside("==", then, otherwise, self.found)
        if not comparable(then.type, otherwise.type):
            self.found.append(catalogue.branches_differ(then.type, otherwise.type, expr.span))
        kind = join((then.type, otherwise.type))
        return replace(expr, condition=condition, then=then, otherwise=otherwise, type=kind)

    # ---- literals and macros

    def _element(self, expr: ast.Expr, *, marked: bool) -> ast.Expr:
        checked = self._check(expr)
        if marked and checked.type.name not in ("optional", "dyn", "error"):
            self.found.append(
                catalogue.wrong_type(checked.type, "an optional", checked.span, "leave out the `?`")
            )
        return checked

    def _map(self, expr: ast.MapLiteral) -> ast.Expr:
        entries = tuple(
            ast.MapEntry(self._check(e.key), self._element(e.value, marked=e.optional), e.optional)
            for e in expr.entries
        )
        for entry in entries:
            if entry.key.type.name not in ("int", "string", "bool", "dyn", "error"):
                expected = "an int, string or bool key"
                self.found.append(catalogue.wrong_type(entry.key.type, expected, entry.key.span))
        keys = [e.key.type for e in entries]
        values = [inside(e.value.type) if e.optional else e.value.type for e in entries]
        self._uniform("keys", [e.key for e in entries], keys)
        self._uniform("values", [e.value for e in entries], values)
        return replace(expr, entries=entries, type=map_of(join(keys), join(values)))

    def _uniform(self, what: str, parts: Sequence[ast.Expr], kinds: Sequence[Type]) -> None:
        """Reports the first part that differs in type. The arguments of `format` may differ."""
        if not self.environment.uniform_literals or self._formats:
            return
        first = next((kind for kind in kinds if kind not in (DYN, POISON)), DYN)
        for part, kind in zip(parts, kinds, strict=True):
            if not agrees(first, kind):
                self.found.append(catalogue.literal_differs(what, first, kind, part.span))
                return

    def _comprehension(self, expr: ast.Comprehension) -> ast.Expr:
        target, count = self._check(expr.target), len(expr.variables)
        kinds = variables_of_macro(expr.macro, target.type, count)
        if kinds is None:
            self.found.append(catalogue.not_iterable(target.type, expr.macro, target.span))
            kinds = (POISON,) * count
        with self.scope(dict(zip(expr.variables, kinds, strict=True))):
            *conditions, last = expr.body
            checked = [self.check(c, BOOL) for c in conditions]
            checked.append(self.check(last, BOOL if expr.macro in TESTS else None))
        made = checked[-1].type
        found = result_of_macro(expr.macro, target.type, kinds, made)
        if found is None:
            hint = "use `optMap` for a plain value"
            self.found.append(catalogue.wrong_type(made, "an optional", checked[-1].span, hint))
        return replace(expr, target=target, body=tuple(checked), type=found or POISON)
