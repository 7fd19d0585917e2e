"""Catalogue: the diagnostics of the parser and the type checker, most of them in a table.

A message is one sentence in lower case without a full stop; the user's text stands in backticks;
the hint says how to fix it. Codes are stable and documented in docs/diagnostics/: P00xx syntax,
P01xx names and types, P02xx clauses, P03xx conditions, P04xx cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from string import Formatter
from typing import Any

from grammar.messages.diagnostics import Diagnostic, Fix, Severity, Similar, nearest, similar
from grammar.messages.plain_words import DOMAINS
from grammar.messages.texts import counted, escaped
from grammar.tree.clause_parts import LONGEST_WAIT, SHORTEST_WAIT
from grammar.tree.policy import GROUP, ROW
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


class _Filler(Formatter):
    """A filler of texts; `_CONVERTED` has what stands behind a `!`, and None is nothing."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return _CONVERTED[conversion](value) if conversion else value

    def format_field(self, value: Any, format_spec: str) -> str:
        return "" if value is None else str(format(value, format_spec))


# The code and the name of a message, its text, its hint, and the label beside the caret.
_TEXTS = {
    row.split()[1]: [" ".join(part.split()) for part in f"{row} |  | ".split(" | ")]
    for row in """
    P0001 placeholder | nothing fills in `{}` here | write its value, or declare a parameter \
        | unexpected
    P0002 bad_character | `{}` is not a character of the language | {1}
    P0003 unclosed_string | the string is not closed | close it on the same line | starts \
        here
    P0004 bad_literal | {}
    P0006 int_out_of_range | `{}` does not fit in a 64-bit int | write `1e19` for a double
    P0007 reserved_word | `{}` is a reserved word | reserved words are allowed only after a \
        dot
    P0008 has_needs_selection | `has` takes a field or a key | write `has(pod.labels["app"])`
    P0009 macro_variable | `{0}` needs a variable name here | write `{0}(x, …)` with a plain \
        name
    P0009 same_variable_twice | `{}` names two variables | rename the second variable
    P0010 too_large | the text has {1:,} {0}, more than {2:,} | split the policy
    P0011 too_deep | this is nested more than {} levels deep | name a part of it with `let`
    P0011 deep_definition | `{}` and the definitions it uses are nested more than {} levels \
        deep | make fewer definitions use each other
    P0012 bad_hole | {} | write `{{{{` or `}}}}` for a brace in the text
    P0012 empty_hole | nothing is in `{}` | write an expression such as `{{pod.name}}`, or \
        `{{{{}}}}` for the braces
    P0105 wrong_type | this is {!a}, not {} | {2} | {0}
    P0107 key_as_field | `{}` has a key of a map in it, which is no field |  | a key
    P0108 no_keys | {!a} cannot be indexed | only lists and maps can be indexed
    P0109 not_iterable | `{1}` needs a list or a map, not {0!a}
    P0110 recursion | the definition is circular: {!p} | a `let`, `def`, `count` or policy \
        cannot use itself
    P0111 unavailable | `{}` is not available in {} | {2}
    P0112 not_kept | the cache does not keep `{1}` of {0!a} | the cache keeps {2!s}
    P0114 wrong_count | `{}` takes {!n}, not {}
    P0115 must_index | `{0}` needs a key | write `{1}["cpu"]`
    P0116 branches_differ | one branch is {!a}, the other is {!a} | give both the same type, \
        or write `dyn(…)` around one of them
    P0118 broken_use | policy `{}` has errors | fix them first
    P0120 closed_field | a policy of a namespace cannot read {} | {1} | not open to it
    P0120 closed_use | policy `{}` reads {}, which a policy of a namespace cannot | write the \
        clauses that are needed in this policy
    P0121 too_many_uses | this uses more than {} policies, directly or through others | use \
        each policy once, or put their clauses into one
    P0122 percentage_of_nothing | a limit cannot be a percentage | write a number of pods, or \
        a `share`, which has a percentage of its pods
    P0124 sum_of_pods | a {} is about numbers of pods, and has no sum | write a `limit` with \
        this sum, or no `sum`
    P0127 lacking_parameter | policy `{1}` needs a value for `{0}` | set it in the `use`, as \
        in `({0}: {2})`
    P0127 no_default | the parameter `{}` has no value | write a default behind `=`; only a \
        policy with `for pods where false` needs none
    P0128 wrong_parameter | `{}` must be {!a}, not {!a} | write {1!a}, such as `{3}`
    P0129 needs_type | `{}` needs an object whose type is known | declare the type, as in \
        `def f(x: Node): …`; for a key of a map write `["{}"]` | dyn
    P0130 bound_of_places | the bound of `{}` places is `{}` so many, or so much | write `{1}` and \
        a number
    P0130 sum_of_places | a limit of `{}` places has no sum of pods | write `per node`, `per zone` \
        or `per cluster`, or a `sum … over {} node`
    P0130 unfit_place | used and empty places are nodes, or places of nodes, and only nodes add an \
        amount | write `used node`, or `used zone` without a sum
    P0130 not_mutual | a mutual limit {} | {1}
    P0131 not_kept_there | a mutual limit cannot read {}: it is not known of the pods that \
        are there | of its `pod`, it and the `for` of its policy can read {1!l}
    P0131 changes_there | a mutual limit cannot read {}: it changes when the pod comes to its \
        node | read what stays, such as `labels` or `namespace`
    P0131 uses_mutual | policy `{}` has a mutual limit, but this policy's `for` reads {} | \
        write a `for` about what is known of the pods that are there, such as their labels
    P0133 cards_of_namespace | a policy of a namespace cannot have a `cards` clause | move it \
        to a policy of all namespaces: cards are shared by pods of all of them
    P0134 bad_annotation | `{}` {} | write a key such as `example.com/gpu-index`
    P0135 bad_data | {} | {1}
    P0136 data_of_namespace | {} | {1}
    P0139 not_counted | a {} counts no {} pods | write `count NAME = {1} pods where …`, and read \
        it in a rule
    P0139 many_counts | a strict bound reads at most {} counts | add them up in one `count`, \
        or write `weight 10`, which prefers
    P0150 literal_differs | the {0} differ in type: here is {2!a}, before it {1!a} | give all \
        the same type, or write `dyn(…)` around those of another type | {2}
    P0151 bad_format | {} | %s takes any value; %d %f %e a number; %b %o a whole number; %x a \
        whole number or a text
    P0156 unknown_zone | `{}` is not a time zone | {1}
    P0157 one_domain | this is the same for all nodes, so there is only one domain | {}
    P0202 gang_without_number | the gang needs `at least`: these pods have no wanted number | \
        write `at least 8`, or `at least int(pod.annotations["example.com/members"])`
    P0205 duplicate_name | {} `{}` is defined twice | rename one of them | second one
    P0206 selects_everything | policy `{}` would apply to every pod | write `for pods where \
        …`, or `in namespace "…"` after its name
    P0207 missing_rule | `missing {}` is not allowed in {} | write {2}
    P0208 range_of_bool | a bool cannot have a range | leave out the range: true counts as \
        100, false as 0
    P0208 empty_range | both ends of the range are equal | write two different values
    P0210 message_varies | a message cannot read `{}` | put it into `detail`; a message may \
        read the pod's name, namespace, labels and spec | can change between calls
    P0212 not_constant | the value of `{}` is not a constant | write a number, a text, `true` \
        or `false`, a list or map of them, or a parameter
    P0213 bad_filling | policy `{}` does not accept these values: {1.message} | {1.hint}
    P0214 unfit_for_gang | {} | {1}
    """.strip().splitlines()
}


def __getattr__(name: str) -> Callable[..., Diagnostic]:
    """A message of the table, whose texts take the arguments in their order, but for the span."""
    if name not in _TEXTS:
        raise AttributeError(name)

    def said(*told: object) -> Diagnostic:
        span = next((each for each in told if isinstance(each, Span)), Span(0, 0))
        words = [each for each in told if not isinstance(each, Span)] + [None]
        code, message, hint, label = (_Filler().vformat(t, words, {}) for t in _TEXTS[name][:4])
        return _error(code.split()[0], message, span, hint or None, label=label)

    return said


# ---- P00xx: syntax


def unexpected(
    found: str, span: Span, hint: str | None = None, fix: Fix | None = None
) -> Diagnostic:
    if not found:
        label = "more is needed here"
        return _error("P0001", "the text ends too early", span, hint, label=label)
    message = f"`{found}` is not allowed here"
    return _error("P0001", message, span, label="unexpected", hint=hint, fix=fix)


def unclosed_bracket(opener: str, span: Span) -> Diagnostic:
    closer = {"{": "}", "(": ")"}.get(opener, "]")
    message, hint = f"the `{opener}` is not closed", f"write `{closer}` where its contents end"
    return replace(_error("P0140", message, span, hint, label="opens here"), other_hint=hint)


def unknown_clause(word: str, span: Span) -> Diagnostic:
    hint = "write it before the `=`, as in `count NAME per node = …`" if word == "per" else None
    return _error("P0001", f"no clause begins with `{word}`", span, hint, label="unexpected")


def no_such_literal(kind: str, text: str, span: Span) -> Diagnostic:
    if kind == "UINT":
        hint = f"write `{text[:-1]}`: every whole number is a 64-bit int"
        fix = Fix(span, text[:-1])
        return _error("P0005", "unsigned numbers are not supported", span, hint, fix=fix)
    hint = "leave out the `b` for a string"
    return _error("P0005", "byte strings are not supported", span, hint)


# ---- P02xx: clauses


def twice(part: str, where: str, span: Span) -> Diagnostic:
    message = f"`{part}` is given twice in {where}"
    hint = "keep one of them"
    if part == "bound":
        hint = "write a second clause for it, with a name of its own"
    return _error("P0201", message, span, hint, label="second one")


# How a message names a part that has no keyword.
_NAMELESS = {"strength": "a strength", "bound": "a bound"}


def lacking(parts: Mapping[str, str], where: str, span: Span) -> Diagnostic:
    """An error for parts that are not there, each with what to write for it."""
    named = listed((_NAMELESS.get(p, f"`{p}`") for p in parts), "and")
    return _error("P0202", f"{where} needs {named}", span, f"write {listed(parts.values(), 'and')}")


def bad_word(word: str, part: str, allowed: Sequence[str], span: Span) -> Diagnostic:
    hint = f"write {listed(f'`{a}`' for a in allowed)}"
    fix = similar(word, allowed, span).get("fix")
    return _error("P0203", f"`{word}` is not a {part}", span, hint, fix=fix)


def bad_number(number: str, what: str, allowed: str, span: Span) -> Diagnostic:
    found = _error("P0204", f"`{number}` is not a {what}", span, f"write {allowed}")
    if what != "number of pods" or not re.fullmatch(r"0?\.\d+", number):
        return found
    edit = Fix(span, f"{float(number) * 100:g}%")
    return replace(found, hint=f"write `{edit.text}` for a part of the pods", remedy=edit)


def no_gangs(why: str, span: Span, severity: Severity = "warning") -> Diagnostic:
    """A value that tells no gangs apart, or each pod from the others."""
    hint = 'write what the pods of a gang share, such as `peer.labels["job"]`'
    return Diagnostic("P0341", severity, f"{why}, so it names no gang", span, hint=hint)


def two_gangs(other: str, span: Span, severity: Severity) -> Diagnostic:
    """A gang of pods that another gang of the policy has, or may have."""
    verb = "has" if severity == "error" else "can have"
    hint = "write a `when` for each, of which only one is true for a pod"
    return Diagnostic("P0342", severity, f"gang `{other}` {verb} the same pods", span, hint=hint)


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


# ---- P01xx: names and types


def unknown_name(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    names = tuple(candidates)
    more = similar(name, names, span)
    if name == "data":
        more = {"hint": "write `data.NAME[KEY]`, where NAME is that of a `data` of the policy"}
    elif not more and name.isidentifier():
        more = {"hint": f'define it with `let {name} = …`, or write the text `"{name}"`'}
    return _error("P0101", f"unknown name `{name}`", span, **more)


def unknown_field(record: Type, name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    names = tuple(candidates)
    more = similar(name, names, span)
    if not more and record.name.startswith((ROW, GROUP)):
        more = {"hint": f"it has {listed((f'`{each}`' for each in names), 'and')}"}
    elif not more:
        label = f'; a label is read as `labels["{name}"]`' if "labels" in names else ""
        more = {"hint": f"`placet schema {record}` lists its fields{label}"}
    return _error("P0102", f"{record} has no field `{name}`", span, label="unknown field", **more)


def unknown_function(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    return _error("P0103", f"unknown function `{name}`", span, **similar(name, candidates, span))


def no_overload(what: str, found: Sequence[Type], span: Span) -> Diagnostic:
    message = f"`{what}` needs arguments"
    if found:
        message = f"`{what}` does not accept {listed((str(t) for t in found), 'and')}"
    return _error("P0104", message, span)


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


def no_fields(found: Type, name: str, span: Span) -> Diagnostic:
    hint = f'write `["{name}"]` for a key of a map' if found.name == "map" else None
    label = f"`.{name}` of {an(found)}"
    return _error("P0107", f"{an(found)} has no fields", span, hint, label=label)


def unknown_type(name: str, candidates: Iterable[str], span: Span, whole: Type) -> Diagnostic:
    """The error for a name in a declared type, which is `whole` at the span."""
    more = similar(name, candidates, span)
    if whole.args and more:
        more["fix"] = None
    return _error("P0113", f"unknown type `{name}`", span, **more)


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


def large_value(name: str, limit: int, span: Span) -> Diagnostic:
    message = f"the value of `{name}` has more than {limit - 1} items"
    return _error("P0212", message, span, "shorten it")


def odd_filling(policy: str, reason: Diagnostic, span: Span) -> Diagnostic:
    message = f"policy `{policy}` with these values: {reason.message}"
    return Diagnostic(reason.code, "warning", message, span, hint=reason.hint)


def unknown_policy(name: str, candidates: Iterable[str], span: Span) -> Diagnostic:
    close = nearest(name, candidates)
    hint = f"a similar name exists: `{close}`" if close else "write its address: `namespace/name`"
    return _error("P0117", f"unknown policy `{name}`", span, hint)


def reads_more(what: str, span: Span, *, cluster: bool) -> Diagnostic:
    kind = "cluster policy" if cluster else "policy"
    message = f"this {kind} reads {what}"
    hint = "whoever sees its messages or its effects learns about them"
    return Diagnostic("P0316", "warning", message, span, "no policy of a namespace may", hint)


def unknown_cards(name: str, known: Iterable[str], span: Span) -> Diagnostic:
    """The name of a `cards` clause that the policy does not have."""
    names = [f'"{each}"' for each in known]
    hint = f"write {listed(f'`{n}`' for n in names)}" if names else "add a `cards` clause"
    fix = similar(name, names, span).get("fix")
    return _error("P0132", f"`{name}` is not a cards clause of this policy", span, hint, fix=fix)


def unknown_table(name: str, tables: Iterable[str], span: Span) -> Diagnostic:
    """`data.NAME` of which the policy has no block."""
    more = similar(name, tuple(tables), span)
    declared: Similar = {"hint": f'declare it with `data "{name}" {{ from … }}`'}
    return _error("P0137", f"there is no data `{name}`", span, **(more or declared))


def unknown_group(name: str, groups: Iterable[str], span: Span) -> Diagnostic:
    """A place of a name of which the policy has no group."""
    more = similar(name, tuple(groups), span)
    declared: Similar = {"hint": f"declare it with `group {name} by` and a value of the node"}
    if meant := DOMAINS.get(name.lower()):
        place = "node" if meant == "node.name" else meant
        declared = {"hint": f"write `{place}`", "fix": Fix(span, place)}
    return _error("P0138", f"there is no group `{name}`", span, **(more or declared))


def wanted_hint(wanted: Type, found: Type) -> str | None:
    """Advice on how to get from one type to the other."""
    if wanted == BOOL:
        return "compare it with something: `== …`, `< …`, or `has(…)`"
    if loses_record(wanted, found):
        return "give the object itself, or declare `dyn`"
    if wanted == STRING and found.is_record:
        return "read a field: `….name`"
    if wanted == STRING:
        return "convert it to a string: `string(…)`"
    if found == STRING and wanted.name in ("int", "double", "quantity"):
        return f"convert it to a number: `{wanted}(…)`"
    return None


def an(found: Type) -> str:
    """The type with its article: `an int`."""
    return f"{'an' if str(found)[0] in 'aeiouAEIOU' else 'a'} {found}"


_CONVERTED: Mapping[str, Callable[[Any], str]] = {
    "a": an,
    "l": lambda words: listed(words, "and"),
    "s": lambda words: listed(sorted(words), "and"),
    "p": lambda words: " → ".join(f"`{word}`" for word in words),
    "n": lambda number: counted(number, "argument"),
}
