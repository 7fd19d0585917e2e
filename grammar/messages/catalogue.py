"""Catalogue: the diagnostics of the parser and the type checker, one function for each message.

A message is one sentence in lower case without a full stop; the user's text stands in backticks;
the hint says how to fix it. Codes are stable and documented in docs/diagnostics/: P00xx syntax,
P01xx names and types, P02xx clauses, P03xx conditions, P04xx cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from grammar.messages import habits
from grammar.messages.diagnostics import (
    Diagnostic,
    Fix,
    Severity,
    Similar,
    nearest,
    only_nearest,
    similar,
)
from grammar.messages.texts import escaped
from grammar.tree.clause_parts import LONGEST_WAIT, SHORTEST_WAIT
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.data import GROUP, ROW
from grammar.tree.printer import print_length
from grammar.tree.source import Span
from grammar.tree.types import BOOL, STRING, Type, loses_record


class ParseError(Exception):
    """Raised to end the parse of one item; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def _error(
    code: str,
    message: str,
    span: Span,
    hint: str | None = None,
    *,
    label: str = "",
    fix: Fix | None = None,
) -> Diagnostic:
    return Diagnostic(code, "error", message, span, label, hint, fix)


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a, b or c`."""
    *head, tail = list(words)
    return f"{', '.join(head)} {last} {tail}" if head else tail


# ---- P00xx: syntax


def unexpected(
    found: str, expected: Sequence[str], span: Span, hint: str | None = None, fix: Fix | None = None
) -> Diagnostic:
    if hint is None and expected:
        hint = f"expected {listed(expected)}"
    if not found:
        label = "more is needed here"
        return _error("P0001", "the text ends too early", span, hint, label=label)
    message = f"`{found}` is not allowed here"
    return _error("P0001", message, span, label="unexpected", hint=hint, fix=fix)


def unclosed_bracket(opener: str, span: Span) -> Diagnostic:
    closer = {"{": "}", "(": ")"}.get(opener, "]")
    message, hint = f"the `{opener}` is not closed", f"write `{closer}` where its contents end"
    return replace(_error("P0140", message, span, hint, label="opens here"), other_hint=hint)


def bare_amount(found: str, span: Span) -> Diagnostic:
    return _error("P0141", f"`{found}` is not a number: amounts with a unit are texts", span)


CLAUSES_ARE = f"the clauses are {listed((f'`{word}`' for word in CLAUSE_WORDS), 'and')}"


def unknown_clause(word: str, span: Span) -> Diagnostic:
    hint = "write it before the `=`, as in `count NAME per node = …`" if word == "per" else None
    return _error("P0001", f"no clause begins with `{word}`", span, hint, label="unexpected")


def placeholder(found: str, span: Span, hint: str) -> Diagnostic:
    return _error("P0001", f"nothing fills in `{found}` here", span, hint, label="unexpected")


def bad_character(found: str, span: Span, hint: str | None = None) -> Diagnostic:
    return _error("P0002", f"`{found}` is not a character of the language", span, hint)


def unclosed_string(span: Span) -> Diagnostic:
    hint = "close it on the same line"
    return _error("P0003", "the string is not closed", span, hint, label="starts here")


def bad_literal(reason: str, span: Span) -> Diagnostic:
    return _error("P0004", reason, span)


def no_such_literal(kind: str, text: str, span: Span) -> Diagnostic:
    if kind == "UINT":
        hint = f"write `{text[:-1]}`: every whole number is a 64-bit int"
        fix = Fix(span, text[:-1])
        return _error("P0005", "unsigned numbers are not supported", span, hint, fix=fix)
    hint = "leave out the `b` for a string"
    return _error("P0005", "byte strings are not supported", span, hint)


def int_out_of_range(text: str, span: Span) -> Diagnostic:
    hint = "write `1e19` for a double"
    return _error("P0006", f"`{text}` does not fit in a 64-bit int", span, hint)


def reserved_word(word: str, span: Span) -> Diagnostic:
    hint = "reserved words are allowed only after a dot"
    return _error("P0007", f"`{word}` is a reserved word", span, hint)


def has_needs_selection(span: Span) -> Diagnostic:
    return _error("P0008", "`has` takes a field or a key", span, 'write `has(pod.labels["app"])`')


def macro_variable(macro: str, span: Span) -> Diagnostic:
    hint = f"write `{macro}(x, …)` with a plain name"
    return _error("P0009", f"`{macro}` needs a variable name here", span, hint)


def same_variable_twice(name: str, span: Span) -> Diagnostic:
    return _error("P0009", f"`{name}` names two variables", span, "rename the second variable")


def too_large(what: str, size: int, limit: int) -> Diagnostic:
    message = f"the text has {size:,} {what}, more than {limit:,}"
    return _error("P0010", message, Span(0, 0), "split the policy")


def too_deep(limit: int, span: Span) -> Diagnostic:
    message = f"this is nested more than {limit} levels deep"
    return _error("P0011", message, span, "name a part of it with `let`")


def deep_definition(name: str, limit: int, span: Span) -> Diagnostic:
    message = f"`{name}` and the definitions it uses are nested more than {limit} levels deep"
    return _error("P0011", message, span, "make fewer definitions use each other")


def bad_hole(reason: str, span: Span) -> Diagnostic:
    return _error("P0012", reason, span, "write `{{` or `}}` for a brace in the text")


def empty_hole(found: str, span: Span) -> Diagnostic:
    hint = "write an expression such as `{pod.name}`, or `{{}}` for the braces"
    return _error("P0012", f"nothing is in `{found}`", span, hint)


# ---- P02xx: clauses


def twice(part: str, where: str, span: Span) -> Diagnostic:
    message = f"`{part}` is given twice in {where}"
    hint = "keep one of them"
    if part == "bound":
        hint = "write a second clause for it, with a name of its own"
    return _error("P0201", message, span, hint, label="second one")


# What to write for a part that is missing, and how a message names a part that has no keyword.
_LACKING = {
    "from": "`from metrics`",
    "require": "`require` and a condition, such as `require node.ready`",
    "value": "`value` and a number or a condition, such as `value node.ready`",
    "of": "`of replicas`, or `of pods where` and a condition",
    "on": "`on nodes where` and a condition",
    "bound": "`at most 3`, `at least 3` or `exactly 3`",
    "strength": "`strict`, or `best effort weight 10`",
    "over": "`over node.zone`",
    "skew": "`skew at most 1`",
    "on node": '`on node 4 of {"milli": 1000}`, or a list of cards',
    "take": '`take 1 of {"milli": 500}`',
    "at least": '`at least 8`, or `at least int(pod.annotations["example.com/members"])`',
    "per": "`per node`, `per domain node.zone` or `per cluster`",
}
_NAMELESS = {"strength": "a strength", "bound": "a bound"}


def lacking(parts: Sequence[str], where: str, span: Span) -> Diagnostic:
    named = listed((_NAMELESS.get(p, f"`{p}`") for p in parts), "and")
    hint = f"write {listed((_LACKING[p] for p in parts), 'and')}"
    return _error("P0202", f"{where} needs {named}", span, hint)


def bad_word(word: str, part: str, allowed: Sequence[str], span: Span) -> Diagnostic:
    hint = f"write {listed(f'`{a}`' for a in allowed)}"
    close = only_nearest(word, allowed)
    fix = Fix(span, close) if close else None
    found = _error("P0203", f"`{word}` is not a {part}", span, hint, fix=fix)
    row = habits.find(habits.CHOICES.get(part, ()), word)
    if row is None or row.here not in allowed:
        return found
    return replace(found, hint=f"write `{row.here}`", remedy=Fix(span, row.here))


def bad_number(number: str, what: str, allowed: str, span: Span) -> Diagnostic:
    found = _error("P0204", f"`{number}` is not a {what}", span, f"write {allowed}")
    if what != "number of pods" or not re.fullmatch(r"0?\.\d+", number):
        return found
    edit = Fix(span, f"{float(number) * 100:g}%")
    return replace(found, hint=f"write `{edit.text}` for a part of the pods", remedy=edit)


def selects_everything(name: str, span: Span) -> Diagnostic:
    hint = 'write `for pods where …`, or `in namespace "…"` after its name'
    return _error("P0206", f"policy `{name}` would apply to every pod", span, hint)


def missing_rule(rule: str, where: str, allowed: str, span: Span) -> Diagnostic:
    return _error("P0207", f"`missing {rule}` is not allowed in {where}", span, f"write {allowed}")


def gang_without_number(span: Span) -> Diagnostic:
    hint = f"write {_LACKING['at least']}"
    return _error(
        "P0202", "the gang needs `at least`: these pods have no wanted number", span, hint
    )


def unfit_for_gang(message: str, span: Span, hint: str) -> Diagnostic:
    """A part that a gang does not have, or that does not fit its other parts."""
    return _error("P0214", message, span, hint)


def no_gangs(why: str, span: Span, severity: Severity = "warning") -> Diagnostic:
    """A value that tells no gangs apart, or each pod from the others."""
    hint = 'write what the pods of a gang share, such as `peer.labels["job"]`'
    return Diagnostic("P0341", severity, f"{why}, so it names no gang", span, hint=hint)


def two_gangs(other: str, span: Span, severity: Severity) -> Diagnostic:
    """A gang of pods that another gang of the policy has, or may have."""
    verb = "has" if severity == "error" else "can have"
    hint = "write a `when` for each, of which only one is true for a pod"
    return Diagnostic("P0342", severity, f"gang `{other}` {verb} the same pods", span, hint=hint)


def no_length(written: str, span: Span, seconds: float | None = None) -> Diagnostic:
    """A length of time that is not written as one; `seconds` if it is clear which is meant."""
    message = f"`{written}` is not a length of time"
    if seconds is None:
        return _error("P0215", message, span, "write a number with `s`, `m` or `h`, such as `90s`")
    meant = print_length(min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT))
    return replace(_error("P0215", message, span, f"write `{meant}`"), remedy=Fix(span, meant))


def bad_length(
    written: str, seconds: float, span: Span, what: str, longest: float = LONGEST_WAIT
) -> Diagnostic:
    """A length of time that is too short or too long for `what`, as in `a binding cannot wait`."""
    is_short = seconds < SHORTEST_WAIT
    message = f"{what} for {'less' if is_short else 'more'} than "
    meant = print_length(SHORTEST_WAIT if is_short else longest)
    found = _error("P0215", f"{message}`{meant}`", span, f"write `{meant}`", label=f"`{written}`")
    return replace(found, remedy=Fix(span, meant))


def range_type(edge: Type, value: Type, span: Span, written: str) -> Diagnostic:
    """The error for an end of a range, which is written so, and of another type."""
    message = f"the value is {an(value)}, but this end of the range is {an(edge)}"
    unit = {"duration": "s", "quantity": ""}.get(value.name)
    if unit is None or not written.isdigit():
        return _error("P0208", message, span)
    edit = Fix(span, f'"{written}{unit}"')
    return replace(_error("P0208", message, span, f"write `{edit.text}`"), remedy=edit)


def range_of_bool(span: Span) -> Diagnostic:
    hint = "leave out the range: true counts as 100, false as 0"
    return _error("P0208", "a bool cannot have a range", span, hint)


def empty_range(span: Span) -> Diagnostic:
    return _error("P0208", "both ends of the range are equal", span, "write two different values")


def needs_range(found: Type, span: Span) -> Diagnostic:
    message = f"{an(found)} needs a range to become a score"
    hint = 'write `range "…" .. "…"`, or `range minmax` to compare the nodes'
    edit = Fix(Span(span.end, span.end), " range minmax")
    return replace(_error("P0209", message, span, hint), remedy=edit)


def bad_name(kind: str, name: str, limit: int, span: Span) -> Diagnostic:
    """The error for a name that is too long, or that a log or a metric could not show."""
    if len(name) > limit:
        message = f"the name of {kind} has {len(name):,} characters; the limit is {limit}"
        return _error("P0211", message, span, "shorten it")
    found = next(c for c in name if not c.isprintable())
    message = f"the name of {kind} contains `{escaped(found)}`, which cannot be printed"
    return _error("P0211", message, span, "remove this character")


def message_varies(what: str, span: Span) -> Diagnostic:
    hint = "put it into `detail`; a message may read the pod's name, namespace, labels and spec"
    message = f"a message cannot read `{what}`"
    return _error("P0210", message, span, hint, label="can change between calls")


# ---- P01xx: names and types


def unknown_name(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    names = tuple(candidates)
    more = similar(name, names, span)
    if not more and name.isidentifier():
        more = {"hint": f'define it with `let {name} = …`, or write the text `"{name}"`'}
    return _error("P0101", f"unknown name `{name}`", span, **more)


def unknown_field(record: Type, name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    names = tuple(candidates)
    more = similar(name, names, span)
    if not more and record.name.startswith((ROW, GROUP)):
        more = {"hint": f"it has {listed((f'`{each}`' for each in names), 'and')}"}
    elif not more:
        more = {"hint": f"`placet schema {record}` lists its fields"}
    return _error("P0102", f"{record} has no field `{name}`", span, label="unknown field", **more)


def unknown_function(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    more = similar(name, candidates, span)
    if name == "not":
        more = {"hint": "write `!`", "fix": Fix(span, "!")}
    return _error("P0103", f"unknown function `{name}`", span, **more)


def no_overload(what: str, found: Sequence[Type], span: Span) -> Diagnostic:
    message = f"`{what}` needs arguments"
    if found:
        message = f"`{what}` does not accept {listed((str(t) for t in found), 'and')}"
    return _error("P0104", message, span, _conversion_hint(found))


def wrong_type(found: Type, expected: str, span: Span, hint: str | None = None) -> Diagnostic:
    return _error("P0105", f"this is {an(found)}, not {expected}", span, hint, label=str(found))


def bad_constant(
    text: str, kind: Type, reason: str, span: Span, corrected: str | None = None
) -> Diagnostic:
    fix = None
    if corrected is not None and "did you mean" not in reason:
        reason = f'write `"{corrected}"`; {reason.removeprefix("write ")}'
    if corrected is not None and span.end - span.start == len(text) + 2:
        # Between the quotes, whichever they are: what stands there is the text itself.
        fix = Fix(Span(span.start + 1, span.end - 1), corrected)
    return _error("P0106", f"`{text}` is not {an(kind)}", span, reason or None, fix=fix)


def bad_pattern(reason: str, span: Span, meant: str | None = None) -> Diagnostic:
    """`meant` is the literal of the regular expression for what looks like a glob."""
    if meant is not None:
        found = _error("P0119", reason, span, f"write `{meant}`", label="bad pattern")
        return replace(found, remedy=Fix(span, meant))
    hint = "use the syntax of RE2: no lookaround, no backreferences, at most 1,000 repetitions"
    return _error("P0119", reason, span, label="bad pattern", hint=hint)


def unknown_zone(name: str, hint: str, span: Span) -> Diagnostic:
    return _error("P0156", f"`{name}` is not a time zone", span, hint)


def one_domain(hint: str, span: Span) -> Diagnostic:
    message = "this is the same for all nodes, so there is only one domain"
    return _error("P0157", message, span, hint)


def no_fields(found: Type, name: str, span: Span) -> Diagnostic:
    hint = f'write `["{name}"]` for a key of a map' if found.name == "map" else None
    label = f"`.{name}` of {an(found)}"
    return _error("P0107", f"{an(found)} has no fields", span, hint, label=label)


def key_as_field(found: str, span: Span) -> Diagnostic:
    message = f"`{found}` has a key of a map in it, which is no field"
    return _error("P0107", message, span, label="a key")


def no_keys(found: Type, span: Span) -> Diagnostic:
    hint = "only lists and maps can be indexed"
    return _error("P0108", f"{an(found)} cannot be indexed", span, hint)


def not_iterable(found: Type, macro: str, span: Span) -> Diagnostic:
    return _error("P0109", f"`{macro}` needs a list or a map, not {an(found)}", span)


def recursion(names: Sequence[str], span: Span) -> Diagnostic:
    path = " → ".join(f"`{n}`" for n in names)
    hint = "a `let`, `def`, `count` or policy cannot use itself"
    return _error("P0110", f"the definition is circular: {path}", span, hint)


def unavailable(name: str, where: str, span: Span) -> Diagnostic:
    return _error("P0111", f"`{name}` is not available in {where}", span)


def not_kept(record: Type, name: str, span: Span, kept: Iterable[str]) -> Diagnostic:
    hint = f"the cache keeps {listed(sorted(kept), 'and')}"
    return _error("P0112", f"the cache does not keep `{name}` of {an(record)}", span, hint)


def unknown_type(name: str, candidates: Iterable[str], span: Span, whole: Type) -> Diagnostic:
    """The error for a name in a declared type, which is `whole` at the span."""
    more = similar(name, candidates, span)
    if whole.args and more:
        more["fix"] = None
    return _error("P0113", f"unknown type `{name}`", span, **more)


def wrong_count(name: str, wanted: int, given: int, span: Span) -> Diagnostic:
    arguments = "1 argument" if wanted == 1 else f"{wanted} arguments"
    return _error("P0114", f"`{name}` takes {arguments}, not {given}", span)


def must_index(name: str, span: Span) -> Diagnostic:
    return _error("P0115", f"`{name}` needs a key", span, f'write `{name}["cpu"]`')


def branches_differ(then: Type, otherwise: Type, span: Span) -> Diagnostic:
    hint = "give both the same type, or write `dyn(…)` around one of them"
    return _error("P0116", f"one branch is {an(then)}, the other is {an(otherwise)}", span, hint)


def literal_differs(what: str, first: Type, found: Type, span: Span) -> Diagnostic:
    message = f"the {what} differ in type: here is {an(found)}, before it {an(first)}"
    hint = "give all the same type, or write `dyn(…)` around those of another type"
    return _error("P0150", message, span, hint, label=str(found))


def bad_format(reason: str, span: Span) -> Diagnostic:
    hint = (
        "%s takes any value; %d %f %e a number; %b %o a whole number; %x a whole number or a text"
    )
    return _error("P0151", reason, span, hint)


def unknown_parameter(name: str, policy: str, known: Iterable[str], span: Span) -> Diagnostic:
    names = tuple(known)
    shown = listed((f"`{n}`" for n in names), "and") if names else ""
    hint = f"it has {shown}" if names else "remove it: the policy has no parameters"
    if (close := nearest(name, names)) is not None:
        hint = f"a similar name exists: `{close}`"
    return _error("P0126", f"policy `{policy}` has no parameter `{name}`", span, hint)


def unused_value(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    """The error for a value on an object that none of its `use`s takes."""
    names = sorted(candidates)
    shown = listed((f"`{n}`" for n in names), "and") if names else ""
    hint = f"they have {shown}" if names else "remove it, or `use` a policy that has it"
    message = f"no policy that the rules use has a parameter `{name}`"
    return _error("P0126", message, span, hint)


def lacking_parameter(name: str, policy: str, example: str, span: Span) -> Diagnostic:
    hint = f"set it in the `use`, as in `({name}: {example})`"
    return _error("P0127", f"policy `{policy}` needs a value for `{name}`", span, hint)


def no_default(name: str, span: Span) -> Diagnostic:
    hint = "write a default behind `=`; only a policy with `for pods where false` needs none"
    return _error("P0127", f"the parameter `{name}` has no value", span, hint)


def wrong_parameter(name: str, wanted: Type, found: Type, example: str, span: Span) -> Diagnostic:
    message = f"`{name}` must be {an(wanted)}, not {an(found)}"
    return _error("P0128", message, span, f"write {an(wanted)}, such as `{example}`")


def not_constant(name: str, span: Span) -> Diagnostic:
    hint = "write a number, a text, `true` or `false`, a list or map of them, or a parameter"
    return _error("P0212", f"the value of `{name}` is not a constant", span, hint)


def large_value(name: str, limit: int, span: Span) -> Diagnostic:
    message = f"the value of `{name}` has more than {limit - 1} items"
    return _error("P0212", message, span, "shorten it")


def bad_filling(policy: str, reason: Diagnostic, span: Span) -> Diagnostic:
    message = f"policy `{policy}` does not accept these values: {reason.message}"
    return _error("P0213", message, span, reason.hint)


def odd_filling(policy: str, reason: Diagnostic, span: Span) -> Diagnostic:
    message = f"policy `{policy}` with these values: {reason.message}"
    return Diagnostic(reason.code, "warning", message, span, hint=reason.hint)


def needs_type(name: str, span: Span) -> Diagnostic:
    hint = f'declare the type, as in `def f(x: Node): …`; for a key of a map write `["{name}"]`'
    return _error("P0129", f"`{name}` needs an object whose type is known", span, hint, label="dyn")


def unknown_policy(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    close = nearest(name, candidates)
    hint = f"a similar name exists: `{close}`" if close else "write its address: `namespace/name`"
    return _error("P0117", f"unknown policy `{name}`", span, hint)


def broken_use(name: str, span: Span) -> Diagnostic:
    return _error("P0118", f"policy `{name}` has errors", span, "fix them first")


def closed_field(what: str, span: Span, hint: str) -> Diagnostic:
    message = f"a policy of a namespace cannot read {what}"
    return _error("P0120", message, span, hint, label="not open to it")


def closed_use(name: str, what: str, span: Span) -> Diagnostic:
    message = f"policy `{name}` reads {what}, which a policy of a namespace cannot"
    return _error("P0120", message, span, "write the clauses that are needed in this policy")


def reads_more(what: str, span: Span, *, cluster: bool) -> Diagnostic:
    kind = "cluster policy" if cluster else "policy"
    message = f"this {kind} reads {what}"
    hint = "whoever sees its messages or its effects learns about them"
    return Diagnostic("P0316", "warning", message, span, "no policy of a namespace may", hint)


def too_many_uses(most: int, span: Span) -> Diagnostic:
    message = f"this uses more than {most} policies, directly or through others"
    return _error("P0121", message, span, "use each policy once, or put their clauses into one")


def percentage_of_nothing(span: Span) -> Diagnostic:
    hint = "write a number of pods, or a `share`, which has a percentage of its pods"
    return _error("P0122", "a limit cannot be a percentage", span, hint)


def sum_of_pods(keyword: str, span: Span) -> Diagnostic:
    """A sum in a share or a spread, which are about numbers of pods."""
    if keyword == "share":
        message = "a share is a part of the pods, and has no sum"
        return _error("P0124", message, span, "write a `limit` with this sum, or no `sum`")
    message = "a skew is a number of pods, and has no sum"
    return _error("P0125", message, span, "write a `limit … per domain` with this sum, or no `sum`")


def bound_of_nodes(scope: str, kind: str, span: Span) -> Diagnostic:
    """A bound that cannot say how many nodes may be used, or must stay empty."""
    message = f"the bound of `{scope}` is `{kind}` so many, or so much"
    return _error("P0130", message, span, f"write `{kind}` and a number")


def sum_of_nodes(scope: str, span: Span) -> Diagnostic:
    """A sum in a limit that counts nodes."""
    hint = f"write `per node`, `per domain …` or `per cluster`, or a `sum … over {scope}`"
    return _error("P0130", f"a limit of `{scope}` has no sum of pods", span, hint)


def unknown_cards(name: str, known: Iterable[str], span: Span) -> Diagnostic:
    """The name of a `cards` clause that the policy does not have."""
    names = [f'"{each}"' for each in known]
    hint = f"write {listed(f'`{n}`' for n in names)}" if names else "add a `cards` clause"
    close = only_nearest(name, names)
    fix = Fix(span, close) if close else None
    return _error("P0132", f"`{name}` is not a cards clause of this policy", span, hint, fix=fix)


def cards_of_namespace(span: Span) -> Diagnostic:
    """A `cards` clause in a policy of a namespace."""
    hint = "move it to a policy of all namespaces: cards are shared by pods of all of them"
    return _error("P0133", "a policy of a namespace cannot have a `cards` clause", span, hint)


def bad_annotation(key: str, why: str, span: Span) -> Diagnostic:
    """The key of an annotation that cannot be written."""
    return _error("P0134", f"`{key}` {why}", span, "write a key such as `example.com/gpu-index`")


def bad_data(message: str, span: Span, hint: str) -> Diagnostic:
    """A part of a data block that is wrong, or that it lacks."""
    return _error("P0135", message, span, hint)


def data_of_namespace(message: str, span: Span, hint: str) -> Diagnostic:
    """Data that a policy of a namespace may not declare."""
    return _error("P0136", message, span, hint)


def unknown_table(name: str, tables: Iterable[str], span: Span) -> Diagnostic:
    """`data.NAME` of which the policy has no block."""
    more = similar(name, tuple(tables), span)
    declared: Similar = {"hint": f'declare it with `data "{name}" {{ from … }}`'}
    return _error("P0137", f"there is no data `{name}`", span, **(more or declared))


def unknown_group(name: str, groups: Iterable[str], span: Span) -> Diagnostic:
    """`per group NAME` of which the policy has no group."""
    more = similar(name, tuple(groups), span)
    declared: Similar = {"hint": f"declare it with `group {name} by` and a value of the node"}
    return _error("P0138", f"there is no group `{name}`", span, **(more or declared))


def pending_nowhere(span: Span, better: str = "") -> Diagnostic:
    """Pending pods by node, or in a limit."""
    if better:
        message = "pending pods are on no node, so they are counted for the whole cluster"
        return _error("P0139", message, span, f"write `{better}`")
    message = "pending pods are on no node, so no bound of a place counts them"
    hint = "give them a name with `count NAME = pending pods where …`, and read it in a rule"
    return _error("P0139", message, span, hint)


def state_of_spread(state: str, span: Span) -> Diagnostic:
    message = f"a spread compares numbers of pods that are placed, and not of {state} ones"
    return _error("P0139", message, span, f"leave out `{state}`")


def many_counts(most: int, span: Span) -> Diagnostic:
    """A strict bound that would have to be worked out very often."""
    message = f"a strict bound reads at most {most} counts"
    return _error("P0139", message, span, "add them up in one `count`, or make it `best effort`")


def not_mutual(reason: str, span: Span, hint: str) -> Diagnostic:
    """A limit that cannot work both ways."""
    return _error("P0130", f"a mutual limit {reason}", span, hint)


def not_kept_there(what: str, span: Span, kept: Iterable[str]) -> Diagnostic:
    """A read of a mutual limit that needs more of a pod that is there than is kept of it."""
    message = f"a mutual limit cannot read {what}: it is not known of the pods that are there"
    hint = f"of its `pod`, it and the `for` of its policy can read {listed(kept, 'and')}"
    return _error("P0131", message, span, hint)


def changes_there(what: str, span: Span) -> Diagnostic:
    """A read of a mutual limit of what a pod that comes to a node does not have yet."""
    message = f"a mutual limit cannot read {what}: it changes when the pod comes to its node"
    return _error("P0131", message, span, "read what stays, such as `labels` or `namespace`")


def uses_mutual(name: str, what: str, span: Span) -> Diagnostic:
    message = f"policy `{name}` has a mutual limit, but this policy's `for` reads {what}"
    hint = "write a `for` about what is known of the pods that are there, such as their labels"
    return _error("P0131", message, span, hint)


def wanted_hint(wanted: Type, found: Type) -> str | None:
    """Advice on how to get from one type to the other."""
    if wanted == BOOL:
        return "compare it with something: `== …`, `< …`, or `has(…)`"
    if loses_record(wanted, found):
        return "give the object itself, or declare `dyn`"
    if wanted == STRING:
        return "convert it to a string: `string(…)`"
    return _conversion_hint((wanted, found))


def _conversion_hint(found: Sequence[Type]) -> str | None:
    """Advice for the pairs of types that people mix."""
    names = {t.name for t in found}
    if names == {"int", "double"}:
        return "convert the int: `double(…)`"
    if names == {"quantity", "double"}:
        return 'write the number as a quantity: `"500m"` or `"1.5Gi"`'
    if "optional" in names and len(names) > 1:
        return "get the value of the optional: `.orValue(…)`"
    if "string" in names and len(names) == 2:
        other = next(iter(names - {"string"}))
        if other in ("int", "double", "quantity", "duration", "timestamp", "semver"):
            return f"convert the string: `{other}(…)`"
    return None


def duplicate_name(kind: str, name: str, span: Span) -> Diagnostic:
    message = f"{kind} `{name}` is defined twice"
    return _error("P0205", message, span, "rename one of them", label="second one")


def an(found: Type) -> str:
    """The type with its article: `an int`."""
    return f"{'an' if str(found)[0] in 'aeiouAEIOU' else 'a'} {found}"
