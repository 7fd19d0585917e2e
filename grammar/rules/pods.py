"""Pods: conditions about other pods than their authors mean, mutual limits, and gangs.

Placet is asked about a pod before it has a node: its phase is `Pending`, and no kubelet has said
anything about it. A mutual limit is evaluated for pods on nodes, too. Of these the cache keeps a
part, under the names of the schema's Peer, so the limit, and the `for` of its policy, may read only
that of their `pod`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from grammar.checker.policy_checker import Checked
from grammar.clauses.filter import Filter
from grammar.clauses.gang import MOST_MEMBERS, Gang
from grammar.clauses.limit import Limit
from grammar.clauses.score import Score
from grammar.meaning.access import Path, kept
from grammar.meaning.environment import Environment
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.rules.ranges import PARTS_OF_TIME, exclude_each_other, includes
from grammar.rules.rule import Tree, conditions, finding, instead, on, rule, write_out
from grammar.rules.words import compared, reads_field, unwrapped
from grammar.tree import ast
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import STATES, ClauseThatRejects
from grammar.tree.policy import Count, Policy, of_kind
from grammar.tree.source import Span
from grammar.tree.walk import conjuncts, reads, walk

# ---- which pods

# What is the same for all nodes, and for all pods that are counted.
OF_POD = frozenset({"pod", "now", "namespaceObject"})
# `pod.labels["app"] == "web"`
_OF_ONE = re.compile(r'pod\.(?:name|namespace|labels\[.*) == "[^"]*"\Z')
_ONE_NAME = {"peer.workload.name", "pod.workload.name"}
_OR_WHEN = ", or a `when` if it is about the pod"
# What a condition is about, what it says if it reads the pod alone, and what its hint adds.
_ABOUT = {
    "pods where": ("peer", "it counts every pod or none", ", in which `peer` is a counted pod"),
    "on nodes where": ("node", "it is about all nodes or none", _OR_WHEN),
    "protect": ("victim", "it protects every victim or none", _OR_WHEN),
}


@rule("P0340")
def pods_that_never_count(tree: Tree) -> Iterator[Diagnostic]:
    """A `pods where` or a filter that reads the pod alone, or counts pods that never count."""
    counts = tree.clauses(Count)
    told = [(c.expr, c.word) for c in conditions(tree.policy)]
    told += [(c.pods.where, "pods where") for c in counts if c.pods.where is not None]
    for expr, word in told:
        if word in _ABOUT and "pod" in tree.read_by(expr) <= OF_POD:
            name, why, more = _ABOUT[word]
            meant = tree.shown(expr).replace("pod.", f"{name}.")
            message = f"this reads the pod alone, so {why}"
            yield finding(message, expr.span, f"write `{meant}`{more}")
    # The pods of each clause and count, and what it is called.
    counted = [(c.counted, c.keyword) for c in tree.policy.clauses]
    for each, word in (*counted, *((c.pods, c.keyword) for c in counts)):
        if each is None or each.where is None:
            continue
        yield from (_of_one_name if each.all else _of_other_namespaces)(each.where, tree)
        if not each.state:
            yield from _of_no_state(each.where, tree, STATES.get(word, frozenset()))


# The phases of pods that count in a state alone; on a node, a pod may be pending, too.
_STATES = {"Pending": "pending", "Failed": "ended", "Succeeded": "ended"}


def _of_no_state(where: Expr, tree: Tree, states: frozenset[str]) -> Iterator[Diagnostic]:
    """`pods where peer.phase == "Failed"`: without a state, no pod counts that has ended."""
    for part in (p for p in conjuncts(where) if getattr(p, "op", "") != "!="):
        for read, values in compared(part, tree.environment):
            state, *more = {_STATES.get(str(each.value), "") for each in values}
            if more or not reads_field(unwrapped(read), "phase", "Peer"):
                continue
            if state == "ended" or state in states:
                in_count = catalogue.not_counted("", state, part.span).hint
                hint = f"write `{state} pods where`" if state in states else in_count
                yield finding(f"{state} pods do not count here", part.span, hint)


def _of_other_namespaces(where: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """`pods where peer.namespace == "db"` without `all`: only the pod's namespace counts."""
    own = tree.policy.namespace
    for part in conjuncts(where):
        match part:
            case ast.Binary("==", read, ast.Literal(str() as name)) | ast.Binary(
                "==", ast.Literal(str() as name), read
            ) if name not in (own, *_chosen(tree)):
                found = tree.shown(read) == "peer.namespace"
            case ast.Binary("!=", left, right):
                sides = {tree.shown(side) for side in (left, right)}
                found = sides == {"peer.namespace", "pod.namespace"}
            case _:
                continue
        if found:
            message = "without `all` only pods of the pod's own namespace count, so none does"
            if own is None and part.op == "==":
                message = "without `all` this counts pods only for pods of the same namespace"
            yield finding(message, part.span, "write `all pods where`")


def _of_one_name(where: Expr, tree: Tree) -> Iterator[Diagnostic]:
    """`all pods where peer.workload.name == pod.workload.name`, of any namespace."""
    for part in conjuncts(where):
        if {*tree.shown(part).split(" == ")} == _ONE_NAME and "namespace" not in tree.shown(where):
            message = "workloads of several namespaces can have this name, and count as one"
            yield finding(message, part.span, "write `pods where` without `all`")


def _chosen(tree: Tree) -> Iterator[str]:
    """The namespaces that the `for` of a policy, or the `when` of a clause, chooses."""
    whens = (getattr(clause, "when", None) for clause in tree.policy.clauses)
    for condition in filter(None, (tree.policy.selector, *whens)):
        parts = [*walk(condition)]
        if any(isinstance(part, ast.Select) and part.name == "namespace" for part in parts):
            for part in parts:
                if isinstance(part, ast.Literal) and isinstance(part.value, str):
                    yield part.value


@rule("P0340")
def filter_of_one_pod(tree: Tree) -> Iterator[Diagnostic]:
    """A filter without a message that only asks for a label of the pod.

    It rejects every node for all other pods of the policy, which a `for` would leave alone.
    """
    for clause in tree.clauses(Filter):
        # A message tells the owners of the pods that they are meant.
        if clause.message is not None or clause.at_bind:
            continue
        parts = conjuncts(*clause.requires)
        is_of_pod = tree.read_by(*parts, clause.when) == {"pod"}
        is_one = (isinstance(p, ast.Binary) and _OF_ONE.match(tree.shown(p)) for p in parts)
        if is_of_pod and all(is_one):
            meant = tree.shown(parts[0]).replace("pod.name ", "pod.workload.name ")
            message = (
                "this reads nothing of the node, so every other pod of the policy stays pending"
            )
            hint = f"write `for pods where {meant}`, or a `when` and what it requires of the node"
            yield finding(message, parts[0].span, hint)


# What nearly all nodes have in common.
_ALIKE = frozenset({"node.ready", 'node.labels["kubernetes.io/os"]'})


@rule("P0350")
def equal_score(tree: Tree) -> Iterator[Diagnostic]:
    """A score or a domain that is the same for all nodes, or for nearly all."""
    for clause in of_kind(tree.written.items, Score):
        if tree.read_by(clause.value, *clause.ends) <= OF_POD:
            message = "this reads nothing of the node, so all nodes get the same score"
            hint = "write a value of the node, or a `when` if it is about the pod"
            yield finding(message, clause.value.span, hint)
    for domain in [clause.domain for clause in tree.policy.clauses]:
        if domain and tree.shown(unwrapped(domain)).replace("[?", "[") in _ALIKE:
            message = "this is the same for nearly all nodes, so they are in one domain"
            yield finding(message, domain.span, "write what differs, such as `node.zone`")


# ---- the pod that is being placed

_PENDING, _RUNNING = "Pending", ("Running", "Succeeded", "Failed")
_CONDITIONS = frozenset({"ContainersReady", "Initialized", "Ready"})
_AFTER_PLACEMENT = frozenset(
    {"startTime", "podIP", "podIPs", "hostIP", "hostIPs", "containerStatuses"}
)
_NO_NODE = "the pod that is being placed has no node yet"


@on("P0349", ast.Binary, ast.Call, ast.Has, ast.Select)
def state_after_placement(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A state that the pod which is being placed does not have yet."""
    match expr:
        case ast.Binary():
            yield from _comparison(expr, tree)
        case ast.Call(_, ast.Select() as target) if _is_node_name(target):
            yield instead(_NO_NODE, target.span, "node.name")
        case ast.Has(operand) if _is_node_name(operand):
            yield finding(f"{_NO_NODE}, so this is always false", expr.span, "leave it out")
        case ast.Select(ast.Select(ast.Ident("pod"), "status"), name) if name in _AFTER_PLACEMENT:
            message = f"the pod that is being placed has no `{name}` yet"
            yield finding(message, expr.span, "leave it out: only pods that run have it")


def _comparison(expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
    pairs = [*compared(expr, tree.environment)]
    for read, found in pairs:
        values = [each.value for each in found]
        if reads_field(unwrapped(read), "phase", "PodStatus"):
            yield from _phase(expr, values)
        if reads_field(read, "type", "PodCondition") and set(values) & _CONDITIONS:
            message = f"the pod that is being placed is not `{values[0]}` yet"
            yield finding(message, expr.span, "leave it out: only pods that run are")
        if _is_node_name(unwrapped(read)):
            yield _node(expr, values, tree)
    sides = (expr.left, expr.right)
    if expr.op in ("==", "!=") and any(map(_is_node_name, sides)) and not pairs:
        hint = "leave it out; `peer.nodeName` is the node of a pod that is there"
        yield finding(_NO_NODE, expr.span, hint)


def _node(expr: ast.Binary, values: Sequence[object], tree: Tree) -> Diagnostic:
    """`pod.spec.nodeName == "worker-1"`, where the node that is asked about is meant."""
    if not all(values):
        holds = "false" if expr.op == "!=" else "true"
        return finding(f"{_NO_NODE}, so this is always {holds}", expr.span, "leave it out")
    sides = (tree.shown(e) for e in (expr.left, expr.right))
    meant = f" {expr.op} ".join(sides).replace("pod.spec.nodeName", "node.name")
    return instead(_NO_NODE, expr.span, meant)


def _phase(expr: ast.Binary, values: Sequence[object]) -> Iterator[Diagnostic]:
    # That a pod is pending is true, and says what is meant.
    is_true = set(values) == {_PENDING} and expr.op != "!="
    if not is_true and all(value in (*_RUNNING, _PENDING) for value in values):
        holds = str((_PENDING in values) is (expr.op != "!=")).lower()
        message = f"the pod that is being placed is pending, so this is always {holds}"
        hint = "leave it out; `peer.phase` is that of a pod on a node"
        yield finding(message, expr.span, hint)


def _is_node_name(read: ast.Expr) -> bool:
    return reads_field(read, "nodeName", "PodSpec")


@rule("P0363")
def moved_each_day(tree: Tree) -> Iterator[Diagnostic]:
    """A `repair` of a clause that changes by the clock."""
    repair = tree.policy.repair
    if repair is None or repair.begins != repair.ends:
        return
    for clause in of_kind(tree.policy.clauses, ClauseThatRejects):
        for call in walk((clause.conditions, getattr(clause, "bound", None))):
            if getattr(call, "function", "") in PARTS_OF_TIME and "now" in tree.read_by(call):
                message = "this changes by the clock, and `repair` then moves the pods there"
                hint = 'write when they may move, as in `repair … within "22:00" .. "06:00"`'
                yield finding(message, call.span, hint)
                break


# ---- mutual limits

_FIELDS = (
    *("`name`", "`namespace`", "`uid`", "`labels`", "`annotations`", "`requests`", "`limits`"),
    *("`priority`", "`hostPorts`", "`workload.kind`", "`workload.name`"),
)
# The fields of a peer that change while it comes to a node, or by the time alone.
_CHANGING = frozenset({"nodeName", "phase", "age"})


@rule("P0130")
def mutual_parts(tree: Tree) -> Iterator[Diagnostic]:
    """A mutual limit without one of the parts that it needs."""
    for clause in _mutual(tree.written):
        for reason, span, hint in _parts(clause, tree):
            yield catalogue.not_mutual(reason, span, hint)


def _parts(clause: Limit, tree: Tree) -> Iterator[tuple[str, Span, str]]:
    """What a mutual limit does not do, where, and what to write."""
    bound, amount = clause.bound, tree.constant(clause.bound.amount)
    if clause.per.counted:
        hint = "write `per node`, `per zone` or `per cluster`, or remove `mutual`"
        yield "counts pods, not places", clause.name_span, hint
    elif clause.pods is not None and clause.pods.amount is not None:
        hint = "remove `sum … of`, or remove `mutual`"
        yield "counts pods, and has no sum", clause.pods.amount.span, hint
    elif bound.kind != "at most" or amount is None:
        hint = "write a number, or remove `mutual`"
        yield "has a bound `at most` a constant number", bound.span, hint
    if not clause.strength.strict:
        yield "is `strict`", clause.strength.span, "write `strict`, or remove `mutual`"
    if clause.pods is None:
        hint = "write `pods where …`: the pods of one workload have the same limits anyway"
        yield "says which pods it counts", clause.name_span, hint


@rule("P0131")
def mutual_reads(tree: Tree) -> Iterator[Diagnostic]:
    """A mutual limit that reads what is not known of pods on nodes, or what changes there."""
    policy, environment = tree.written, tree.environment
    limits = _mutual(policy)
    for clause in limits:
        where = clause.pods.where if clause.pods is not None else None
        for expr in (clause.when, where):
            for what, span in _not_known(expr, environment):
                yield catalogue.not_kept_there(what, span, _FIELDS)
            for path, span in _read(expr, environment):
                if path[0] == "peer" and (len(path) == 1 or path[1] in _CHANGING):
                    yield catalogue.changes_there(f"`{'.'.join(path)}`", span)
    for what, span in _not_known(policy.selector, environment) if limits else ():
        yield catalogue.not_kept_there(what, span, _FIELDS)


def has_mutual_limit(checked: Checked) -> bool:
    return bool(_mutual(checked.policy))


def _mutual(policy: Policy) -> list[Limit]:
    return [c for c in of_kind(policy.items, Limit) if c.mutual]


def unknown_of_selector(checked: Checked) -> str | None:
    """What the `for` of a policy reads that is not known of the pods that are there."""
    found = _not_known(checked.policy.selector, checked.environment)
    return next((what for what, _ in found), None)


def _not_known(expr: Expr | None, environment: Environment) -> Iterator[tuple[str, Span]]:
    """What an expression reads that is not known of the pods that are there, with its place."""
    for path, span in _read(expr, environment):
        match path:
            case ("now", *_):
                yield "the time", span
            case (name, *_) if name in environment.tables:
                yield f"the table `{name}`", span
            case (name, *_) if name in environment.counts:
                yield f"the count `{name}`", span
            case ("pod", *rest) if kept(tuple(rest)) is None:
                yield f"`{'.'.join(path)}`", span


def _read(expr: Expr | None, environment: Environment) -> Iterator[tuple[Path, Span]]:
    if expr is not None:
        for read in reads(expr, environment.definitions):
            yield read.path, read.span


# ---- gangs

# The fields of a peer of which each pod has its own.
_OWN = frozenset({("name",), ("uid",)})


@rule("P0341")
def value_of_no_gang(tree: Tree) -> Iterator[Diagnostic]:
    """A value that cannot tell gangs apart.

    Pods of one value that changes are not one gang for long, so that is an error.
    """
    for clause in tree.clauses(Gang):
        if (by := clause.by) is None:
            continue
        found = list(reads(by, tree.environment.definitions))
        changing = next((r for r in found if {*r.path[1:2]} & _CHANGING), None)
        if changing is not None:
            message = f"`{'.'.join(changing.path)}` changes when a pod is placed"
            yield catalogue.no_gangs(message, changing.span, "error")
        elif all(read.path[1:] == ("namespace",) for read in found):
            yield catalogue.no_gangs("this is the same for all pods of a namespace", by.span)
        elif isinstance(by, ast.Select) and found[0].path[1:] in _OWN:
            yield catalogue.no_gangs(f"each pod has a `{tree.shown(by)}` of its own", by.span)


@rule("P0362")
def gang_that_is_never_whole(tree: Tree) -> Iterator[Diagnostic]:
    """A number or a role that no gang can have, or that says nothing."""
    for clause in tree.clauses(Gang):
        roles, of_all = [each for each in clause.numbers if each.where is not None], clause.of_all
        known = [number for each in roles if (number := tree.constant(each.amount)) is not None]
        percent = of_all is None or of_all.percent
        least = tree.constant(of_all.amount) if of_all is not None and not percent else None
        if (most := max(least or 0, sum(known))) > MOST_MEMBERS:
            hint = f"write at most {MOST_MEMBERS}"
            at = of_all.span if of_all is not None and most == least else roles[-1].span
            yield finding(f"{most:g} members are never held at the same time", at, hint)
        elif of_all is not None and least is not None and sum(known) > least:
            better = f"at least {most:g}"
            message = f"the roles need {most:g} members, so this number says nothing"
            yield finding(message, of_all.span, f"write `{better}`", Fix(of_all.span, better))
        for number, each in enumerate(roles):
            assert each.where is not None, "it is a role"
            for read in reads(each.where, tree.environment.definitions):
                if {*read.path[1:2]} & _CHANGING:
                    message = f"`{'.'.join(read.path)}` changes when a member is placed"
                    hint = 'write what stays, such as `peer.labels["role"]`'
                    yield finding(f"{message}, so it says no role", read.span, hint)
            for other in roles[:number]:
                if other.where is not None and includes(other.where, each.where):
                    message = "no member has this role: those with it have an earlier one"
                    yield finding(message, each.where.span, "write this role before the other one")
                    break


@rule("P0342")
def two_gangs(tree: Tree) -> Iterator[Diagnostic]:
    """Two gangs of a policy that can have the same pods."""
    known: list[Gang] = []
    for clause in tree.clauses(Gang):
        for other in known:
            if (severity := together(other, clause)) is not None:
                yield catalogue.two_gangs(other.name, clause.name_span, severity)
                break
        known.append(clause)


def gangs_of(checked: Checked) -> tuple[Gang, ...]:
    """The gangs of a policy, with its definitions written out."""
    if not of_kind(checked.policy.items, Gang):
        return ()
    return of_kind(write_out(checked.policy, checked.environment).items, Gang)


def together(one: Gang, other: Gang) -> Severity | None:
    """Whether two gangs have the same pods (an error), or may have them (a warning)."""
    if one.when is None or other.when is None or one.when == other.when:
        return "error"
    return None if exclude_each_other(one.when, other.when) else "warning"
