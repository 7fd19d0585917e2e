"""Directions: clauses that do the opposite of what their names say, or of what makes sense.

A clause has a name that its author chose, such as `no spot` or `one per zone`. Where the clause is
known to say the opposite, one of the two is a mistake. Other conditions are the wrong way round
whatever the name is. The checks look at policies that are written out, and know only a few words
and shapes: what they do not know they leave alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grammar.checker.policy_checker import Checked
from grammar.checks.conditions import conditions
from grammar.checks.known_words import compared, unwrapped
from grammar.checks.units import resource_of
from grammar.meaning.allowed import conjuncts
from grammar.meaning.folding import constant, literal
from grammar.meaning.schema import Schema, print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, write_instead
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.clauses import Filter, Limit, Preempt, Score, Share, Spread, of_kind
from grammar.tree.source import Span
from grammar.tree.types import QUANTITY
from grammar.tree.walk import walk

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TURNED = {"<": ">=", "<=": ">=", ">": "<=", ">=": "<="}
_OPPOSITE = {"==": "!=", "!=": "=="}

# ---- names

_PLACES = {
    "zone": ("zone", "domain node.zone", "node.zone"),
    "az": ("zone", "domain node.zone", "node.zone"),
    "region": ("region", "domain node.region", "node.region"),
    "rack": ("rack", 'domain node.labels["rack"]', 'node.labels["rack"]'),
    "node": ("node", "node", "node.name"),
    "host": ("node", "node", "node.name"),
    "machine": ("node", "node", "node.name"),
}
_FILLERS = r"(?:(?:on|in|at|to|the|a|an|any|run|runs|place|use|from|of)\s+)*"
_AGAINST = re.compile(
    rf"\b(?:no|not|never|avoid|avoids|without|away\s+from|off|except|exclude|keep\s+off)\s+{_FILLERS}"
)
_FOR = re.compile(rf"\b(?:only|must\s+be|prefer|prefers|preferred|favou?r|just)\s+{_FILLERS}")
# A message tells what a node lacks: `not on spot` denies nothing. What must be, it demands.
_MUST = r"(?:must|should|shall|has\s+to|have\s+to|needs?\s+to)\s+"
_PLACED = r"(?:(?:be|go|run|start|land|stay|have|use|placed|scheduled|pods?|node)\s+)*"
_TOLD_AGAINST = re.compile(
    r"\b(?:(?:must|should|may|shall|can)\s*not|cannot|can't|mustn't|never|do\s+not|don't|no\s+pods"
    rf"|not\s+allowed|forbidden|avoid|(?:keep|stay)\s+(?:off|out\s+of|away\s+from))\s+{_PLACED}{_FILLERS}"
)
_TOLD_FOR = re.compile(
    rf"\b(?:{_MUST}(?!not\b|never\b|avoid\b){_PLACED}|(?:requires|only)\s+(?=on\b|in\b|at\b)){_FILLERS}"
)
_DEMANDS = re.compile(rf"\b(?:{_MUST}|needs?\s+|requires?\s+|keep\s+|stay\s+)")
_EMPTIER = re.compile(
    r"\b(?:least\s+(?:loaded|used|busy|full|allocated|requested)|emptiest|empty|emptier|idle|idlest"
    r"|spread\s+out|fewest|fewer|less\s+(?:loaded|busy)|avoid\s+(?:hot|busy|full)|coolest|most\s+free)\b"
)
_FULLER = re.compile(
    r"\b(?:pack|packs|packing|bin\s*pack(?:ing)?|fullest|fuller|fill|fills|busiest|consolidate"
    r"|most\s+(?:loaded|used|busy|full|allocated|requested)|least\s+free)\b"
)


def contradicted_names(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0351) for each clause that does the opposite of what its name says."""
    items = checked.policy.items
    for limit in of_kind(items, Limit):
        domain = limit.per.domain
        if limit.per.scope == "node":
            yield from _other_place(limit.name, "node", "per", limit.name_span)
        elif limit.per.scope == "domain" and domain is not None:
            yield from _other_place(limit.name, _place_of(domain), "per", domain.span)
    for spread in of_kind(items, Spread):
        yield from _other_place(spread.name, _place_of(spread.over), "over", spread.over.span)
    for clause in of_kind(items, Filter):
        name, told = _Said("name", clause.name), _told(clause)
        yield from _opposed(name, clause.requires, None, checked)
        yield from _other_order(name, clause, checked)
        if told is not None:
            yield from _opposed(told, clause.requires, None, checked)
        if told is not None and _DEMANDS.search(_words(told.text)):
            yield from _other_order(told, clause, checked)
    for score in of_kind(items, Score):
        name = _Said("name", score.name)
        found = [*_opposed(name, (score.value,), score.weight, checked)]
        yield from found or _fullness_opposed(score, checked)


@dataclass(frozen=True, slots=True)
class _Said:
    """What an author says of a clause: its name, or its message."""

    what: str
    text: str

    @property
    def marks(self) -> tuple[re.Match[str] | None, re.Match[str] | None]:
        """What denies the words behind it, and what demands them."""
        words = _words(self.text)
        if self.what == "name":
            return _AGAINST.search(words), _FOR.search(words)
        return _TOLD_AGAINST.search(words), _TOLD_FOR.search(words)

    def opposite(self, does: str, shown: str) -> str:
        return f"the {self.what} `{self.text}` says the opposite: the clause {does} `{shown}`"

    def hint(self, meant: str) -> str:
        other = "give the clause another name" if self.what == "name" else "correct the message"
        return f"write `{meant}`, or {other}"


def _told(clause: Filter) -> _Said | None:
    """The message of a filter, without its expressions."""
    if clause.message is None:
        return None
    return _Said("message", "".join(p if isinstance(p, str) else "…" for p in clause.message.parts))


def _words(name: str) -> str:
    """A name in lower case, with blanks between its words."""
    return re.sub(r"[\s_:,.-]+", " ", name.lower())


def _other_place(name: str, known: str | None, word: str, span: Span) -> Iterator[Diagnostic]:
    """`limit "one per zone" { per node … }`: the name counts in other places than the clause."""
    words = (each.removesuffix("s") for each in re.findall(r"[a-z]+", name.lower()))
    said = {_PLACES[each] for each in words if each in _PLACES}
    if len(said) != 1 or known is None:
        return
    ((place, per, over),) = said
    if known != place:
        message = f"the name `{name}` is about a {place}, and this counts pods per {known}"
        meant = f"per {per}" if word == "per" else f"over {over}"
        hint = f"write `{meant}`, or give the clause another name"
        yield Diagnostic("P0351", "warning", message, span, hint=hint)


def _place_of(domain: ast.Expr) -> str | None:
    """`zone`, `region` or `node` for an expression that is known to be one."""
    match domain:
        case ast.Select(ast.Ident("node"), "zone" | "region" as name):
            return name
        case ast.Select(ast.Ident("node") | ast.Select(ast.Ident("node"), "metadata"), "name"):
            return "node"
        case ast.Index(_, ast.Literal("topology.kubernetes.io/zone")):
            return "zone"
        case ast.Index(_, ast.Literal("topology.kubernetes.io/region")):
            return "region"
        case ast.Index(_, ast.Literal("kubernetes.io/hostname")):
            return "node"
        case _:
            return None


def _opposed(
    said: _Said, parts: tuple[ast.Expr, ...], weight: float | None, checked: Checked
) -> Iterator[Diagnostic]:
    """`filter "no spot" { require … == "spot" }`: the name denies what the clause demands.

    A score has a `weight`; a negative one turns what it prefers round.
    """
    words, (against, favoured) = _words(said.text), said.marks
    marked = against or favoured
    if marked is None or (against is not None and favoured is not None):
        return
    is_negative = weight is not None and weight < 0
    wants = (against is None) is not is_negative
    for part in (each for whole in parts for each in conjuncts(whole)):
        demanded, value = _demanded(part)
        if value is None or demanded is wants or not _names(value, words[marked.end() :]):
            continue
        shown = print_as_written(part, checked.environment.schema)
        does = "demands" if weight is None else "avoids" if is_negative else "prefers"
        message = said.opposite(does, shown)
        meant, edit = f"weight {-(weight or 0):g}", None
        if weight is None:
            meant = _turned(part, checked.environment.schema)
            edit = Fix(part.span, meant)
        hint = said.hint(meant)
        yield Diagnostic("P0351", "warning", message, part.span, hint=hint, remedy=edit)
        return


_NUMBER = r"(?:of\s+|than\s+)?(?P<number>\d+)"
_UPPER = re.compile(
    rf"\b(?:at\s+most|no\s+more|not\s+more|max|maximum|below|under|less|fewer|up\s+to)\s+{_NUMBER}"
)
_LOWER = re.compile(rf"\b(?:at\s+least|no\s+less|min|minimum|above|over|more)\s+{_NUMBER}")


def _other_order(told: _Said, clause: Filter, checked: Checked) -> Iterator[Diagnostic]:
    """`filter "below 80% cpu" { require node.usage["cpu"] > 0.8 }`."""
    name = _words(told.text)
    upper, lower = _UPPER.search(name), _LOWER.search(name)
    # `no more than 3` has `more than 3` in it.
    lower = None if upper is not None and upper.end() == (lower and lower.end()) else lower
    said = upper or lower
    if said is None or (upper is not None and lower is not None):
        return
    number = float(said["number"])
    for part in (each for whole in clause.requires for each in conjuncts(whole)):
        if not isinstance(part, ast.Binary) or part.op not in _MIRRORED:
            continue
        op, constant_side = part.op, part.right
        if isinstance(part.left, ast.Literal):
            op, constant_side = _MIRRORED[op], part.left
        value = literal(constant_side, checked.environment)
        is_same = str(value).startswith(said["number"]) or value in (number, number / 100)
        if is_same and (op in (">", ">=")) == (upper is not None):
            schema = checked.environment.schema
            sides = (print_as_written(e, schema) for e in (part.left, part.right))
            meant = f" {_TURNED[part.op]} ".join(sides)
            shown = print_as_written(part, schema)
            message, hint = told.opposite("demands", shown), told.hint(meant)
            edit = Fix(part.span, meant)
            yield Diagnostic("P0351", "warning", message, part.span, hint=hint, remedy=edit)


def _demanded(part: ast.Expr) -> tuple[bool, str | None]:
    """Whether a condition wants a text or denies it, and the text."""
    match part:
        case ast.Unary("!", operand):
            wants, value = _demanded(operand)
            return not wants, value
        case ast.Binary("==" | "!=" as op, _, ast.Literal(str() as value)):
            return op == "==", value
        case ast.Binary("==" | "!=" as op, ast.Literal(str() as value), _):
            return op == "==", value
        case ast.Binary("in", _, ast.ListLiteral((ast.Literal(str() as value),))):
            return True, value
        case ast.Binary("in", ast.Literal(str() as key), ast.Select(_, "labels" | "allocatable")):
            return True, key.rpartition("/")[2]
        case _:
            return True, None


def _names(value: str, rest: str) -> bool:
    """Whether the words behind `no` or `only` begin with a value, in the singular or plural."""
    text = _words(value).strip()
    if text and re.match(rf"(?:\w+ )?{re.escape(text)}s?\b", rest) is not None:
        return True
    # `arm` is `arm64`, and `gpus` are `gpu-large`.
    first = re.match(r"\w{3,}", rest)
    return first is not None and text.startswith(first[0].removesuffix("s"))


def _turned(part: ast.Expr, schema: Schema | None) -> str:
    """The opposite of a condition, as an author writes it; what lacks the label passes it."""
    match part:
        case ast.Unary("!", operand):
            return print_as_written(operand, schema)
        case ast.Binary("==", ast.Index(ast.Select(_, "labels"), ast.Literal()) as read, value):
            assert isinstance(read, ast.Index), "the pattern says so"
            holder = print_as_written(read.operand, schema)
            key = print_as_written(read.index, schema)
            return f'{holder}[?{key}].orValue("") != {print_as_written(value, schema)}'
        case ast.Binary(op, left, right) if op in _OPPOSITE:
            sides = print_as_written(left, schema), print_as_written(right, schema)
            return f"{sides[0]} {_OPPOSITE[op]} {sides[1]}"
        case _:
            return f"!({print_as_written(part, schema)})"


def _fullness_opposed(clause: Score, checked: Checked) -> Iterator[Diagnostic]:
    """`score "least loaded" { value node.usage["cpu"] … }`, which prefers the fullest nodes."""
    name = _words(clause.name)
    emptier, fuller = _EMPTIER.search(name), _FULLER.search(name)
    if (emptier is None) == (fuller is None) or (sign := _fullness(clause.value)) == 0:
        return
    if (falls := _falls(clause, checked)) is None:
        return
    prefers_full = sign * (-1 if falls else 1) * clause.weight > 0
    if prefers_full == (fuller is not None):
        return
    does = "prefers the fullest nodes" if prefers_full else "prefers the emptiest nodes"
    message = f"the name `{clause.name}` says the opposite: the clause {does}"
    hint = f"write `weight {-clause.weight:g}`, or give the clause another name"
    if isinstance(clause.range, Bounds) and clause.weight > 0:
        low, high = (print_as_written(e, checked.environment.schema) for e in clause.ends)
        hint = f"write `range {high} .. {low}`, or give the clause another name"
    yield Diagnostic("P0351", "warning", message, clause.value.span, hint=hint)


def _fullness(value: ast.Expr) -> int:
    """1 for a value that is greater on fuller nodes, -1 on emptier ones, 0 if that is not known."""
    signs = set()
    for part in walk(value):
        match part:
            case ast.Select(ast.Ident("node"), "usage" | "requested" | "pods"):
                signs.add(1)
            case ast.Select(ast.Ident("node"), "free"):
                signs.add(-1)
            case ast.Binary("-" | "<" | "<=" | ">" | ">=" | "==" | "!=") | ast.Unary():
                return 0
            case ast.Conditional() | ast.Comprehension() | ast.Chain("&&" | "||"):
                return 0
            case _:
                continue
    return signs.pop() if len(signs) == 1 else 0


def _falls(clause: Score, checked: Checked) -> bool | None:
    """Whether the range of a score falls; None where that is not known."""
    if not isinstance(clause.range, Bounds):
        return False
    low, high = (_size(literal(end, checked.environment)) for end in clause.ends)
    return None if low is None or high is None else low > high


def _size(value: object) -> float | None:
    """A number, an amount or a duration as a number."""
    if isinstance(value, int | float):
        return float(value)
    nanos = getattr(value, "nanos", None)
    return float(nanos) if isinstance(nanos, int) else None


# ---- what is the wrong way round


def reversed_conditions(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0352) for each part of a clause that is the wrong way round."""
    for condition in conditions(checked.policy):
        for part in conjuncts(condition.expr):
            yield from _all_of_none(part, checked)
        if condition.word != "require":
            continue
        for part in conjuncts(condition.expr):
            yield from _too_small(part, checked)
            yield from _other_resource(part)
            yield from _whole_maps(part, checked)
            yield from _greatest_of_none(part, condition.expr, checked)
    for clause in of_kind(checked.policy.items, Score):
        if clause.weight < 0 and isinstance(clause.range, Bounds) and _falls(clause, checked):
            low, high = (print_as_written(e, checked.environment.schema) for e in clause.ends)
            message = f"a negative weight turns `range {low} .. {high}`, which falls, round again"
            hint = f"write `weight {-clause.weight:g}`, or `range {high} .. {low}`"
            yield Diagnostic("P0352", "warning", message, clause.value.span, hint=hint)
    for preempt in of_kind(checked.policy.items, Preempt):
        for protected in preempt.protect:
            yield from _lower_victims(protected, checked)


_HELD = ("free", "allocatable", "capacity")


def _too_small(part: ast.Expr, checked: Checked) -> Iterator[Diagnostic]:
    """`node.free["memory"] < pod.requests["memory"]`, which passes where the pod has no room."""
    if not isinstance(part, ast.Binary) or part.op not in _MIRRORED:
        return
    held, asked, op = part.left, part.right, part.op
    if _root(held) == "pod":
        held, asked, op = asked, held, _MIRRORED[op]
    match held, asked:
        case (
            ast.Index(ast.Select(kept, name), one),
            ast.Index(ast.Select(_, "requests"), other),
        ) if name in _HELD and one == other and held.type == QUANTITY:
            if _root(kept) != "node" or _root(asked) != "pod" or op not in ("<", "<="):
                return
        case _:
            return
    schema = checked.environment.schema
    shown = print_as_written(part, schema)
    sides = print_as_written(part.left, schema), print_as_written(part.right, schema)
    meant = f"{sides[0]} {_TURNED[part.op]} {sides[1]}"
    message = f"`{shown}` is true where the pod has no room"
    yield write_instead("P0352", message, part.span, meant)


def _root(expr: ast.Expr) -> str | None:
    while isinstance(expr, ast.Index | ast.Select):
        expr = expr.operand
    return expr.name if isinstance(expr, ast.Ident) else None


# Lists that many nodes and pods have nothing in, and what tells their items apart.
_OFTEN_EMPTY = frozenset(
    "addresses conditions hostPorts ownerReferences pods taints tolerations volumes".split()
)
_TELLS_APART = frozenset({"key", "kind", "name", "type"})


def _tells_apart(read: ast.Expr, item: str, listed: str) -> bool:
    """Whether a text is what some items of a list are known by; pods have names and labels."""
    match read:
        case ast.Index(ast.Select(ast.Ident(found), "labels")) | ast.Select(
            ast.Select(ast.Ident(found), "labels")
        ):
            return found == item and listed == "pods"
        case ast.Select(ast.Ident(found), field):
            known = {"name"} if listed == "pods" else _TELLS_APART
            return found == item and field in known
        case _:
            return False


def _all_of_none(part: ast.Expr, checked: Checked) -> Iterator[Diagnostic]:
    """`node.spec.taints.all(t, t.key == "gpu")`, which is true of nodes without taints."""
    match part:
        case ast.Comprehension("all", ast.Select(_, name) as listed, (item,), (said,)) if (
            name in _OFTEN_EMPTY
        ):
            pass
        case _:
            return
    for each in conjuncts(said):
        found = [unwrapped(read) for read, _ in compared(each, checked.environment)]
        match each, found:
            case ast.Binary("=="), [read] if _tells_apart(read, item, name):
                schema = checked.environment.schema
                head, body = print_as_written(listed, schema), print_as_written(said, schema)
                meant = f"{head}.exists({item}, {body})"
                message = f"this is true where `{head}` is empty, and false where others are in it"
                yield write_instead("P0352", message, part.span, meant)
                return
            case _:
                continue


def _other_resource(part: ast.Expr) -> Iterator[Diagnostic]:
    """`node.free["memory"] >= pod.requests["cpu"]`: bytes are compared with cores."""
    if not isinstance(part, ast.Binary) or part.op not in (*_MIRRORED, "==", "!="):
        return
    left, right = resource_of(part.left), resource_of(part.right)
    if left is None or right is None or left == right:
        return
    if not {left, right} <= {"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"}:
        return
    message = f"this compares `{left}` with `{right}`"
    hint = "write the same resource on both sides"
    yield Diagnostic("P0352", "warning", message, part.span, hint=hint)


_SELECTED = frozenset({"labels", "nodeSelector"})


def _whole_maps(part: ast.Expr, checked: Checked) -> Iterator[Diagnostic]:
    """`pod.spec.nodeSelector == node.labels`: a node has more labels than any selector."""
    match part:
        case ast.Binary("==", ast.Select(_, one) as left, ast.Select(_, other) as right) if (
            one in _SELECTED and other in _SELECTED and _root(left) != _root(right)
        ):
            schema = checked.environment.schema
            few, many = (left, right) if _root(left) == "pod" else (right, left)
            inner, outer = print_as_written(few, schema), print_as_written(many, schema)
            meant = f"{inner}.all(k, {outer}[?k] == {inner}[?k])"
            message = "two maps are equal only if all their keys are"
            yield write_instead("P0352", message, part.span, meant)
        case _:
            return


def _greatest_of_none(part: ast.Expr, whole: ast.Expr, checked: Checked) -> Iterator[Diagnostic]:
    """`node.pods.map(p, p.priority).max()`, which fails on a node without pods."""
    schema = checked.environment.schema
    for found in walk(part):
        match found:
            case ast.Call("max" | "min", ast.Comprehension("map" | "filter", listed)):
                pass
            case _:
                continue
        shown = print_as_written(listed, schema)
        guards = (f"size({shown})", f"{shown}.exists")
        text = print_as_written(whole, schema)
        if shown != "node.pods" or any(guard in text for guard in guards):
            continue
        message = f"this fails on a node without pods: `{found.function}()` of nothing is an error"
        hint = f"write `size({shown}) == 0 || {print_as_written(part, schema)}`"
        yield Diagnostic("P0352", "warning", message, found.span, hint=hint)


_PRIORITIES = ["victim.priority", "pod.priority"]


def _lower_victims(protected: ast.Expr, checked: Checked) -> Iterator[Diagnostic]:
    """`protect victim where victim.priority < pod.priority`: every victim has a lower one."""
    for part in conjuncts(protected):
        if not isinstance(part, ast.Binary) or part.op not in _MIRRORED:
            continue
        left, right, op = part.left, part.right, part.op
        if any(isinstance(e, ast.Ident) and e.name == "pod" for e in walk(left)):
            left, right, op = right, left, _MIRRORED[op]
        schema = checked.environment.schema
        if [print_as_written(e, schema) for e in (left, right)] == _PRIORITIES:
            is_always = op in ("<", "<=")
            who = "every victim" if is_always else "no victim"
            message = f"kube-scheduler evicts only pods of a lower priority, so {who} is protected"
            hint = "compare with a number, as in `victim.priority >= 1000`"
            yield Diagnostic("P0352", "warning", message, part.span, hint=hint)


# A node has 110 pods by default, and no kubelet is run with as many as this.
_MOST_PODS = 500
_WHOLE = 100


def unreachable_bounds(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0353) for each bound that no number of pods breaks."""
    environment, items = checked.environment, checked.policy.items
    for clause in of_kind(items, Limit):
        amount, kind = constant(clause.bound.amount, environment), clause.bound.kind
        is_sum = clause.pods is not None and clause.pods.amount is not None
        if amount is None or is_sum:
            continue
        if clause.per.scope == "node" and kind == "at most" and amount > _MOST_PODS:
            message = f"no node has more than {amount:g} pods, so this limit never rejects one"
            hint = "write a smaller number, `per domain node.zone` or `per cluster`"
            yield Diagnostic("P0353", "warning", message, clause.bound.span, hint=hint)
        elif kind == "at least" and amount == 0:
            yield _always_kept("at least 0", "at least 1", clause.bound.span)
    for share in of_kind(items, Share):
        amount, kind = constant(share.bound.amount, environment), share.bound.kind
        if kind == "at least" and amount == 0:
            said = f"at least 0{'%' * share.bound.percent}"
            yield _always_kept(said, "at most 0%", share.bound.span)
        elif kind == "at most" and amount == _WHOLE and share.bound.percent:
            yield _always_kept("at most 100%", "at least 100%", share.bound.span)


def _always_kept(said: str, meant: str, span: Span) -> Diagnostic:
    message = f"`{said}` is kept wherever the pods are"
    hint = f"write another number, or `{meant}` if that is meant"
    return Diagnostic("P0353", "warning", message, span, hint=hint)
