"""Expressions of `eval`, the REPL and editors: checked, evaluated and shown like those of a policy.

An expression is asked about a subject: a cluster, or none, with a pod and a node of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice

from cli.command import Exit
from cli.console import put_document, show, table
from cli.render import put_findings
from cli.written_objects import to_json
from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.cache.informers import Needs
from engine.enforced import EnforcedPolicies, needs
from engine.errors import BadObjectError
from engine.explanation.written import Tracer, Values
from engine.objects.request_pod import ObjectCodec
from engine.offline import question_frame, tables_of
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from engine.program.tables import Tables
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES, Checked, check_policy
from grammar.meaning.schema import load_schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, UserError
from grammar.syntax.formatter import print_data
from grammar.syntax.parser import parse_expression, parse_rules
from grammar.tree.ast import Expr
from grammar.tree.policy import COUNT_OF_NODES, ForPods, Policy
from grammar.tree.source import Source
from grammar.tree.walk import reads
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.editor.completion import Samples

NAME = "expression"
# The variables that only some clauses have, each with a hint.
ONLY_IN_CLAUSES: Mapping[str, str] = dict.fromkeys(
    ("peer", "victim", "victims"), "it exists only in `preempt` and `pods where` clauses"
)


class Expression:
    """An expression with its types and its source, compiled for any number of evaluations.

    `names` are the variables that it reads, and `definitions` the items that it can use.
    """

    def __init__(
        self, source: Source, expr: Expr, names: frozenset[str], definitions: Checked
    ) -> None:
        self.source = source
        self.expr = expr
        self.names = names
        self.definitions = definitions
        self._environment = definitions.environment
        compiler = Compiler(self._environment)
        self._run = compiler.compile(expr)
        self._slots = compiler.slots

    @property
    def needs(self) -> Needs:
        """The needs of the expression and its definitions."""
        policy, asked = self.definitions.policy, ForPods(self.expr)
        return needs([replace(policy, items=(*policy.items, asked))])

    def evaluate(self, frame: Frame) -> object | Diagnostic:
        """The value, or the error at the innermost part that it comes from, without a code."""
        frame.locals = [None] * self._slots
        try:
            return self._run(frame)
        except EvaluationError:
            # A traced second evaluation finds the failing part.
            steps = Tracer(self._environment).trace(self.expr, frame)
            error = steps[0].outcome
            assert isinstance(error, EvaluationError), "evaluation is deterministic"
            innermost = max((s for s in steps if s.outcome is error), key=lambda s: s.depth)
            return Diagnostic("", "error", str(error), innermost.expr.span)


def check(
    text: str, hidden: Mapping[str, str], definitions: str = ""
) -> tuple[Expression | None, list[Diagnostic], Source]:
    """What `_checked` gives; an expression with a mistake is checked again for hints."""
    checked = _checked(text, hidden, definitions)
    if checked[0] is not None:
        return checked
    # Only a mistake needs them.
    from policies.hints import with_hints  # noqa: PLC0415

    return with_hints(lambda: _checked(text, hidden, definitions))


def _checked(
    text: str, hidden: Mapping[str, str], definitions: str
) -> tuple[Expression | None, list[Diagnostic], Source]:
    """The checked expression, or None; its diagnostics; and its source.

    `hidden` are the variables that cannot be read here, each with a hint or "". `definitions` are
    valid items of a policy that the expression can use. The source has them after the expression,
    so that no two parts have the same place.
    """
    source = Source(NAME, f"{text}\n{definitions}" if definitions else text)
    parsed, found = parse_expression(Source(NAME, text))
    if parsed is None:
        return None, found, source
    # Spaces instead of the expression keep the places of the definitions.
    items, _ = parse_rules(Source(NAME, f"{' ' * len(text)}\n{definitions}"))
    defined = check_policy(Policy("", items, cluster=True), load_schema())
    environment = defined.environment
    checker = Checker(environment)
    expr = checker.check(parsed)
    found = list(checker.found)
    names = set()
    for read in reads(expr, environment.definitions):
        name = read.path[0]
        if name in VARIABLES:
            names.add(name)
        count = environment.counts.get(name)
        if name in environment.groups or (count and count.stands_for == COUNT_OF_NODES):
            # It is that of a node.
            names.add("node")
        if name in hidden or (count and "pod" in hidden):
            problem = catalogue.unavailable(name, "this expression", read.span)
            found.append(replace(problem, hint=hidden.get(name, hidden.get("pod")) or None))
    if any(d.severity == "error" for d in found):
        return None, found, source
    return Expression(source, expr, frozenset(names), defined), found, source


def data_declared(policies: EnforcedPolicies) -> str:
    """The `data` of policies, as definitions of an expression."""
    every = (c.environment.tables.items() for c in policies.validation.policies)
    return "\n".join({name: print_data(data) for each in every for name, data in each}.values())


def tables_at(
    cluster: ClusterCopy | None, policies: EnforcedPolicies, data: Mapping[str, DataText]
) -> Tables:
    """The tables of the policies, as of the time of the cluster. Raises UserError."""
    now = cluster.now if cluster is not None else Timestamp.now()
    return tables_of(policies.registry, data, now)


# ---- what an expression is asked about


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an expression: a cluster, a pod, and the name of a node of the cluster."""

    cluster: ClusterCopy | None
    codec: ObjectCodec
    pod: NamedPod | None = None
    node: str | None = None
    tables: Tables = field(default_factory=dict)

    @contextmanager
    def frame(self, definitions: Checked) -> Iterator[Frame]:
        """The values that an expression reads. Raises UserError."""
        cluster, pod = self.cluster, self.pod
        with nullcontext() if cluster is None or pod is None else cluster.asking(pod):
            frame = question_frame(pod, cluster, self.codec, definitions)
            frame.tables = self.tables
            if self.node is not None and cluster is not None:
                frame.node = cluster.node(self.node)
            yield frame


def put_value(expression: Expression, subject: Subject, form: str | None = None) -> Exit:
    """Prints `value : type`, or the value as JSON or YAML.

    An expression that reads the node has a row for each one, if none is chosen.
    """
    if "node" in expression.names and subject.node is None and subject.cluster is not None:
        return _put_values(expression, subject, subject.cluster, form)
    with subject.frame(expression.definitions) as frame:
        found = expression.evaluate(frame)
    if isinstance(found, Diagnostic):
        put_findings([(found, expression.source)])
        return Exit.FINDINGS
    values, type_ = Values(load_schema()), expression.expr.type
    if form is None:
        print(values.typed(found, type_))
    else:
        put_document(_document(found, expression, values), form)
    return Exit.OK


def _put_values(
    expression: Expression, subject: Subject, cluster: ClusterCopy, form: str | None
) -> Exit:
    """Prints the value on each node; a node without a value is a finding."""
    values, type_ = Values(load_schema()), expression.expr.type
    rows: list[tuple[str, str]] = []
    document: dict[str, object] = {}
    failed = False
    with subject.frame(expression.definitions) as frame:
        for name, node in sorted(cluster.snapshot().nodes.items()):
            frame.node = node
            found = expression.evaluate(frame)
            if isinstance(found, Diagnostic):
                failed = True
                rows.append((name, f"error: {found.message}"))
                document[name] = {"error": found.message}
            else:
                rows.append((name, values.line(found, type_)))
                document[name] = {"value": _document(found, expression, values)}
    if form is None:
        show(table("node", f"value : {type_}", rows=rows))
    else:
        put_document(document, form)
    return Exit.FINDINGS if failed else Exit.OK


def _document(found: object, expression: Expression, values: Values) -> object:
    """A value as plain JSON, or its text in the language if JSON has no such value."""
    try:
        return to_json(found)
    except TypeError:
        return values.line(found, expression.expr.type)


# ---- samples for completion

# The number of evaluations for one completion, for which the user waits.
_MOST_SAMPLES = 1000


@dataclass(frozen=True, slots=True)
class ClusterSamples(Samples):
    """Samples of a cluster: the values of an operand on every node, or for every pod or peer."""

    subject: Subject
    definitions: str = ""

    def keys(self, operand: str) -> list[str]:
        """The keys of a map, in order."""
        maps = (found for found in self._samples(operand) if isinstance(found, Mapping))
        return sorted({key for each in maps for key in each if isinstance(key, str)})

    def values(self, operand: str) -> list[str]:
        """The texts that an expression is, the most frequent one first."""
        texts = Counter(found for found in self._samples(operand) if isinstance(found, str))
        return [text for text, _ in texts.most_common()]

    def _samples(self, operand: str) -> Iterator[object]:
        cluster = self.subject.cluster
        if not operand or cluster is None:
            return
        expression, _, _ = check(operand, {}, self.definitions)
        if expression is None or {"node", "pod"} <= expression.names:
            return
        try:
            with self.subject.frame(expression.definitions) as frame:
                for _ in islice(self._vary(expression, cluster, frame), _MOST_SAMPLES):
                    found = expression.evaluate(frame)
                    if not isinstance(found, Diagnostic):
                        yield found
        except UserError:
            return

    def _vary(self, expression: Expression, cluster: ClusterCopy, frame: Frame) -> Iterator[None]:
        if "node" in expression.names:
            for frame.node in cluster.snapshot().nodes.values():
                yield
        elif "pod" in expression.names:
            for body in cluster.pod_bodies.values():
                try:
                    frame.pod, frame.memo = self.subject.codec.pod(body), {}
                except BadObjectError:
                    continue
                yield
        elif expression.names & {"peer", "victim"}:
            for peer in cluster.snapshot().pods().values():
                frame.peer = frame.victim = peer
                yield
