"""Runner: collects the tests of policy files and runs them on the engine that serves.

A suite is one file with its tests. Each test gets an engine and a fixture of its own: the cluster
with the objects of its `cluster` files, and with the nodes and pods that it lists. Each of its
expectations is compared with the engine's answer.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal as OneOf
from typing import assert_never

import msgspec

from cli.render import Finding
from cli.world import undeclared
from cli.written_objects import (
    NAMESPACE,
    NOW,
    BadTestError,
    FieldReader,
    Object,
    ObjectBuilder,
    bad_test,
    namespace_object,
    namespace_of,
)
from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.cache.cluster_file import ClusterFileError, bodies, documents, read_cluster
from engine.clauses.programs import compile_policy
from engine.decision.part import demanded
from engine.decision.preemption import Victims
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible, HeldBack, Rejected, message_of
from engine.enforced import needs_of
from engine.engine import Engine
from engine.errors import BadObjectError, EngineError
from engine.explanation.inspection import Inspection
from engine.objects.request_pod import NO_EXEMPTIONS, ObjectCodec, decode_namespace
from engine.objects.workload_pods import ClusterDefaults, default_node, default_pod, defaults_in
from engine.offline import offline_engine
from engine.program.program import FilterProgram, PartProgram, Program
from engine.simulation.cycle import begin, waiting
from engine.work import finished
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, UserError, nearest
from grammar.tree.policy import ClusterFile, Expectation, Test, TestData, TestObject, TestTime
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.loader import (
    MANIFEST_SUFFIXES,
    SUFFIX,
    TEST_SUFFIX,
    UnreadFile,
    is_manifest,
    is_test_file,
    load,
)
from policies.manifest_text import GROUP
from policies.validation import Validator

_Document = tuple[Path, bytes]


@dataclass(frozen=True, slots=True)
class Fixture:
    """A fixture: a cluster at one time, the names of its nodes, and the pod of a test."""

    cluster: ClusterCopy
    pod: NamedPod
    nodes: Sequence[str]


class FixtureBuilder:
    """Builds the fixtures of tests, one after the other."""

    def __init__(self, schema: Schema, codec: ObjectCodec) -> None:
        self._schema = schema
        self._codec = codec

    def build(self, test: Test, file: Path) -> Fixture:
        """The fixture of a test in a file. Raises BadTestError."""
        _check_duplicates(test)
        snapshot = _snapshot(test, file.parent)
        now = self._now(test, snapshot)
        objects = ObjectBuilder(self._schema, now)
        items = [item for item in test.items if isinstance(item, TestObject)]
        given = ClusterDefaults(now=now.to_second())
        defaults = defaults_in((document for _, document in snapshot), given)
        built = [self._object(objects, item, defaults) for item in items]
        if not snapshot and not any(item.kind == "node" for item in items):
            raise bad_test("the test has no node", test.name_span, 'add one, as in `node "node-1"`')
        pods = (item.name for item in items if item.kind == "pod")
        namespaces = dict.fromkeys(map(namespace_of, pods))
        # Of two objects with one name the later counts: a namespace of the cluster file before one
        # that only a pod names, and an object that the test lists before one of the cluster file.
        contents = [
            *((file, msgspec.json.encode(namespace_object(name))) for name in namespaces),
            *snapshot,
            *((file, msgspec.json.encode(o)) for o in (*built, *objects.named)),
        ]
        cluster = self._cluster(contents, test, now)
        nodes = sorted(cluster.snapshot().table.rows)
        for item in items:
            if item.on is not None and item.on not in nodes:
                raise bad_test(f"there is no node `{item.on}` in this test", item.span)
        return Fixture(cluster, _tested_pod(test, cluster, snapshot), nodes)

    def _now(self, test: Test, snapshot: Sequence[_Document]) -> Timestamp:
        for item in test.items:
            if isinstance(item, TestTime):
                try:
                    return Timestamp.parse(item.time)
                except EvaluationError as error:
                    hint = "as in 2026-01-31T12:00:00Z"
                    raise bad_test(f"this is not a time: {error}", item.span, hint) from None
        return (self._cluster(snapshot, test).snapshot().newest() if snapshot else None) or NOW

    def _cluster(
        self, contents: Sequence[_Document], test: Test, now: Timestamp | None = None
    ) -> ClusterCopy:
        files = list(dict.fromkeys(file for file, _ in contents))
        try:
            reading = read_cluster(self._codec, files, contents)
        except ClusterFileError as error:
            spans = (item.span for item in test.items if isinstance(item, ClusterFile))
            raise bad_test(error.message, next(spans, test.name_span), error.hint) from None
        bodies = [document for _, document in contents]
        return ClusterCopy(reading.cache, bodies, files, now, self._data(test, now))

    def _data(self, test: Test, now: Timestamp | None) -> Mapping[str, DataText]:
        """The tables of the test, by their names. Raises BadTestError."""
        reader, found = FieldReader(self._schema, now or NOW), dict[str, DataText]()
        for item in test.items:
            if isinstance(item, TestData):
                rows = msgspec.json.encode(reader.json(item.body))
                found[item.name] = DataText(f"data {item.name}", rows, "yaml")
        return found

    def _object(
        self, objects: ObjectBuilder, item: TestObject, defaults: ClusterDefaults
    ) -> Object:
        built = objects.built(item)
        try:
            if item.kind == "node":
                default_node(built, defaults)
                self._codec.node(msgspec.json.encode(built))
            elif item.kind == "pod":
                default_pod(built, defaults)
                self._codec.pod(msgspec.json.encode(built))
            else:
                decode_namespace(msgspec.json.encode(built))
        except BadObjectError as error:
            raise bad_test(str(error), item.span) from None
        return built


def _check_duplicates(test: Test) -> None:
    """Raises BadTestError for two objects or tables with one name, and for two times."""
    seen: set[tuple[str, str]] = set()
    for item in test.items:
        match item:
            case TestTime():
                key = ("time", "")
            case TestObject():
                key = (item.kind, item.name)
            case TestData():
                key = ("data", item.name)
            case _:
                continue
        if key in seen:
            what = "the time" if isinstance(item, TestTime) else f"`{item.name}`"
            raise bad_test(f"{what} is given twice", item.span)
        seen.add(key)


def _snapshot(test: Test, folder: Path) -> list[_Document]:
    found: list[_Document] = []
    for item in test.items:
        if isinstance(item, ClusterFile):
            file = folder / item.path
            try:
                found.extend((file, document) for document in documents(file))
            except ClusterFileError as error:
                raise bad_test(error.message, item.span, error.hint) from None
    return found


def _tested_pod(test: Test, cluster: ClusterCopy, snapshot: Sequence[_Document]) -> NamedPod:
    """The last pod without a node: of the test, else of its `cluster` files."""
    objects = [item for item in test.items if isinstance(item, TestObject)]
    if pods := [each.name for each in objects if each.kind == "pod" and each.on is None]:
        return cluster.pod(key_in_test(pods[-1]))
    pending = cluster.snapshot().pending
    waiting = [k for k in bodies([d for _, d in snapshot], "Pod") if k in pending]
    if not waiting:
        hint = 'add a pod that is not `on` a node, as in `pod "shop/web-1"`'
        raise bad_test("the test has no pod to test", test.name_span, hint)
    return cluster.pod(waiting[-1])


def key_in_test(pod: str) -> str:
    """The `namespace/name` of a pod by its name in a test."""
    return pod if "/" in pod else f"{NAMESPACE}/{pod}"


Outcome = OneOf["passed", "failed", "error"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: the tests of one file, and the policies that decide in them.

    `errors` are those of the policies and of the file; with any of them no test can run.
    """

    source: Source
    tests: tuple[Test, ...]
    policies: tuple[Checked, ...]
    errors: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of suites with tests or errors, and unread paths."""

    suites: tuple[Suite, ...]
    problems: tuple[UnreadFile, ...]


def collect(paths: Sequence[Path], validator: Validator) -> Collection:
    """Reads the files of the paths, and the policies beside their test files."""
    loaded = load(paths)
    given = {source.name for source in loaded.sources}
    tested = (name for source in loaded.sources for name in _tested_files(source.name))
    beside = [Path(n) for n in dict.fromkeys(tested) if n not in given and Path(n).is_file()]
    # A YAML file beside a test file can be the cluster of its tests instead of a manifest.
    manifests = (s for s in load(beside).sources if not is_manifest(s.name) or GROUP in s.text)
    by_name = {
        file.source.name: file for file in validator.validate([*loaded.sources, *manifests]).files
    }
    suites: list[Suite] = []
    for name, file in by_name.items():
        if name not in given:
            continue
        files = [*(by_name[n] for n in _tested_files(name) if n in by_name), file]
        errors = tuple((d, f.source) for f in files for d in f.diagnostics if d.severity == "error")
        # The part of a file that was not understood can be a test. A file without tests is a matter
        # for `placet check`.
        if file.tests or (errors and not file.whole):
            policies = tuple(policy for f in files for policy in f.policies)
            suites.append(Suite(file.source, file.tests, policies, errors))
    return Collection(tuple(suites), loaded.problems)


def _tested_files(name: str) -> Sequence[str]:
    suffixes = (SUFFIX, *sorted(MANIFEST_SUFFIXES)) if is_test_file(name) else ()
    return [name.removesuffix(TEST_SUFFIX) + suffix for suffix in suffixes]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """The outcome of a test.

    `diagnostics` are the failed expectations, or the reason why the test could not run.
    """

    suite: Suite
    test: Test
    outcome: Outcome
    diagnostics: tuple[Diagnostic, ...]
    seconds: float

    @property
    def as_json(self) -> dict[str, object]:
        """The outcome as plain values."""
        names = {"file": self.suite.source.name, "name": self.test.name}
        return {**names, "outcome": self.outcome, "seconds": round(self.seconds, 3)}


class Runner:
    """A runner of the tests of a collection."""

    def __init__(self, collection: Collection, schema: Schema) -> None:
        policies = [p for suite in collection.suites for p in suite.policies]
        self._codec = ObjectCodec(schema, needs_of(policies).annotations)
        self._fixtures = FixtureBuilder(schema, self._codec)

    def run(self, suite: Suite, tests: Iterable[Test]) -> Iterator[TestOutcome]:
        """The result of each test, as soon as it has ended."""
        if suite.errors:
            for test in tests:
                yield TestOutcome(suite, test, "error", (), 0.0)
            return
        programs = [compile_policy(checked) for checked in suite.policies]
        registry = Registry(programs)
        for test in tests:
            started = time.perf_counter()
            outcome, found = self._run(suite, test, programs, registry)
            note = f'in the test "{test.name}"'
            said = tuple(replace(each, notes=(*each.notes, note)) for each in found)
            yield TestOutcome(suite, test, outcome, said, time.perf_counter() - started)

    def _run(
        self, suite: Suite, test: Test, programs: Sequence[Program], registry: Registry
    ) -> tuple[Outcome, list[Diagnostic]]:
        try:
            fixture = self._fixtures.build(test, Path(suite.source.name))
            declared = {table.name for table in registry.tables.values()}
            for item in test.items:
                if (
                    isinstance(item, TestData)
                    and (wrong := undeclared(item.name, declared)) is not None
                ):
                    raise bad_test(wrong.message, item.span, wrong.hint)
            expectations = _expectations(test, fixture, programs)
            engine = FixtureEngine(registry, fixture, self._codec)
            found = [f for e in expectations if (f := _failure(e, engine)) is not None]
        except BadTestError as error:
            return "error", [error.diagnostic]
        except EngineError as error:
            return "error", [bad_test(str(error), test.name_span).diagnostic]
        except UserError as error:
            return "error", [bad_test(error.message, test.name_span, error.hint).diagnostic]
        return ("failed" if found else "passed"), found


# ---- the engine of a test

# What filter says of one node alone.
Answer = Feasible | Rejected


class FixtureEngine:
    """The engine for one fixture, which is a new one for each question; answers are kept.

    Each node is filtered in a call of its own. Of several feasible nodes an engine may offer only
    one, to keep a bound exact; a test is about the rules. Of pods that are placed together, a node
    passes for one if all fit. For a binding they have their places first. In an engine no time
    passes, so the places of the others stay in flight.
    """

    def __init__(self, registry: Registry, fixture: Fixture, codec: ObjectCodec) -> None:
        self._fixture = fixture
        self._registry = registry
        self._codec = codec
        self._verdicts: dict[str, Answer] = {}

    def _made(self) -> Engine:
        return offline_engine(
            self._registry,
            self._fixture.cluster,
            self._codec,
            # A test is about the rules, also for pods about which a server would not ask them.
            exemptions=NO_EXEMPTIONS,
            clock=lambda: 0.0,
        )

    def verdict(self, node: str) -> Answer:
        """Raises EngineError."""
        if node not in self._verdicts:
            body = self._fixture.pod.body
            (found,) = self._made().filter(body, [node], None, math.inf)
            assert not isinstance(found, HeldBack), "one of the nodes is always offered"
            self._verdicts[node] = found
        return self._verdicts[node]

    def hold(self, node: str) -> Rejected | None:
        """What holds the binding of the pod to a node that passes; None if it is bound at once.

        Raises EngineError, also where it is not to be bound there.
        """
        engine, body = self._made(), self._fixture.pod.body
        engine.filter(body, [node], None, math.inf)
        pod = self._fixture.cluster.pods.pod(self._fixture.pod.key)
        # As the binder would find it.
        admission = engine.admit(body, node, math.inf)
        if admission.until and (waits_for := engine.looks.waits_for(body, node)) is not None:
            return waits_for
        for part in admission.waits:
            ended: list[str] = []
            part.hold(pod.uid if pod is not None else "", ended.append)
            if not ended:
                return part.says(engine.opened(body)[0])
        return None

    @cached_property
    def feasible(self) -> list[str]:
        """The nodes that pass. Raises EngineError."""
        return [n for n in self._fixture.nodes if isinstance(self.verdict(n), Feasible)]

    @cached_property
    def scores(self) -> Mapping[str, int] | None:
        """0..10 of each feasible node; None if no score applies. Raises EngineError."""
        nodes = self.feasible
        scores = self._made().prioritize(self._fixture.pod.body, nodes, None, math.inf)
        return None if scores is None else dict(zip(nodes, scores, strict=True))

    @cached_property
    def proposed(self) -> Mapping[str, Victims]:
        """The victims that kube-scheduler proposes on nodes without room for the pod."""
        pod = waiting(self._fixture.pod.body, self._codec)
        engine = self._made()
        simulation = finished(begin(engine, self._fixture.cluster.pods, ()))
        return simulation.proposed(replace(pod, beside=demanded(engine.parts, pod.body)))

    @cached_property
    def evicted(self) -> Mapping[str, Sequence[str]]:
        """The pods that would be evicted on each node that is kept. Raises EngineError."""
        kept = self._made().preempt(self._fixture.pod.body, self.proposed, math.inf)
        snapshot = self._fixture.cluster.snapshot()
        names = {pod.uid: key for key, pod in snapshot.pods().items()}
        return {node: sorted(names[uid] for uid in each.uids) for node, each in kept.items()}

    def inspection(self, names: Sequence[str]) -> Inspection:
        """The inspection of the pod on these nodes. Raises EngineError."""
        return Inspection(self._made(), self._fixture.pod.body, names)

    def rejecting(self, node: str) -> list[str]:
        """The clauses that reject a node, in order; empty if an error prevents the answer."""
        try:
            found = finished(self.inspection([node]).objections())
        except EngineError:
            return []
        return [objection.name for objection in found if objection.refused.any()]


# ---- expectations

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _expectations(test: Test, fixture: Fixture, programs: Sequence[Program]) -> list[Expectation]:
    """The expectations of a test. Raises BadTestError for one that no answer could meet."""
    if not programs:
        hint = "put it beside its policy, or into `NAME_test.policy` beside `NAME.policy`"
        raise bad_test("the test has no policy", test.name_span, hint)
    clauses = {f.name for p in programs for f in p.of(FilterProgram)}
    clauses |= {c.count.name for p in programs for c in p.counts} | {"for"}
    waiting_clauses = {c.name for p in programs for c in p.of(PartProgram)}
    clauses |= waiting_clauses
    waiting_clauses |= {f.name for p in programs for f in p.of(FilterProgram) if f.wait}
    found = [item for item in test.items if isinstance(item, Expectation)]
    if not found:
        hint = 'add one, as in `expect pass "node-1"`'
        raise bad_test("the test has no expectation", test.name_span, hint)
    for item in found:
        if item.node not in fixture.nodes:
            raise _unknown("node", item.node, fixture.nodes, item)
        if item.kind == "wait" and item.clause is not None and item.clause not in waiting_clauses:
            raise _unknown("waiting clause", item.clause, sorted(waiting_clauses), item)
        if item.clause is not None and item.clause not in clauses:
            raise _unknown("rejecting clause", item.clause, sorted(clauses), item)
        for victim in item.victims:
            if fixture.cluster.pods.pod(key_in_test(victim)) is None:
                pods = list(fixture.cluster.snapshot().pods())
                raise _unknown("pod", victim, pods, item)
    return found


def _unknown(kind: str, name: str, names: Sequence[str], item: Expectation) -> BadTestError:
    close = nearest(name, names)
    hint = f"a similar name exists: `{close}`" if close else None
    return bad_test(f"there is no {kind} `{name}` in this test", item.span, hint)


def _failure(item: Expectation, engine: FixtureEngine) -> Diagnostic | None:
    """The difference between an expectation and the answer; None if it is met."""
    try:
        if item.kind == "evict":
            return _evict_failure(item, engine)
        verdict = engine.verdict(item.node)
        match item.kind:
            case "pass":
                if isinstance(verdict, Feasible):
                    return None
                return _failed(item, f"`{item.node}` does not pass", _rejection(verdict))
            case "reject":
                return _reject_failure(item, verdict, engine)
            case "wait" | "bind":
                return _hold_failure(item, verdict, engine)
            case "score":
                return _score_failure(item, verdict, engine)
            case _:
                assert_never(item.kind)
    except EngineError as error:
        return _failed(item, f"`{item.node}` gets no answer", f"no answer: {error}")


def _reject_failure(item: Expectation, verdict: Answer, engine: FixtureEngine) -> Diagnostic | None:
    if isinstance(verdict, Feasible):
        return _failed(item, f"`{item.node}` is not rejected", "it passes")
    if verdict.clause == item.clause:
        return _message_failure(item, f"`{item.node}` is rejected", verdict)
    hint = None
    if item.clause in engine.rejecting(item.node):
        hint = f"`{item.clause}` rejects it too, but only the first, `{verdict.clause}`, is named"
    message = f"`{item.node}` is rejected by another clause"
    return _failed(item, message, _rejection(verdict), hint=hint)


def _hold_failure(item: Expectation, verdict: Answer, engine: FixtureEngine) -> Diagnostic | None:
    """What differs from `expect wait`, or from `expect bind`."""
    if not isinstance(verdict, Feasible):
        return _failed(item, f"`{item.node}` does not pass", _rejection(verdict))
    found = engine.hold(item.node)
    if found is None:
        is_expected = item.kind == "bind"
        text = f"the pod is not held on `{item.node}`"
        return None if is_expected else _failed(item, text, "it is bound at once")
    if found.clause == item.clause:
        return _message_failure(item, f"the pod is held on `{item.node}`", found)
    by_another = " by another clause" if item.kind == "wait" else ""
    message = f"the pod is held on `{item.node}`{by_another}"
    return _failed(item, message, f"held by `{found.clause}`: {message_of(found)}")


def _message_failure(item: Expectation, what: str, found: Rejected) -> Diagnostic | None:
    """The difference between the message that is expected and the one there is."""
    if item.message is None or item.message in found.reason:
        return None
    return _failed(item, f"{what} with another message", f"it is `{message_of(found)}`")


def _score_failure(item: Expectation, verdict: Answer, engine: FixtureEngine) -> Diagnostic | None:
    assert item.op is not None, "the grammar gives a score both"
    assert item.number is not None, "the grammar gives a score both"
    if not isinstance(verdict, Feasible):
        return _failed(item, f"`{item.node}` has no score", _rejection(verdict))
    if engine.scores is None:
        return _failed(item, f"`{item.node}` has no score", "no score applies to the pod")
    score = engine.scores[item.node]
    if _OPERATORS[item.op](score, item.number):
        return None
    index = engine.feasible.index(item.node)
    notes = tuple(
        f"{c.name}: {c.points[index]:.3g} of 100, weight {c.weight:g}"
        for c in finished(engine.inspection(engine.feasible).contributions())
    )
    return _failed(item, f"`{item.node}` has another score", f"it is {score}", notes=notes)


def _evict_failure(item: Expectation, engine: FixtureEngine) -> Diagnostic | None:
    if item.node not in engine.proposed:
        message = f"nobody would be evicted on `{item.node}`, whatever the policies say"
        hint = "leave too little room there, and let a pod with a lower priority take it"
        return _failed(item, message, "kube-scheduler proposes no victim", hint=hint)
    evicted = engine.evicted.get(item.node, ())
    if list(evicted) == sorted(map(key_in_test, item.victims)):
        return None
    if not evicted:
        return _failed(item, f"nobody may be evicted on `{item.node}`", "the policies forbid it")
    those = ", ".join(f"`{pod}`" for pod in evicted)
    what = "pods are" if not item.victims else "other pods are"
    return _failed(item, f"{what} evicted on `{item.node}`", f"these are: {those}")


def _rejection(verdict: Rejected) -> str:
    text = f"rejected by `{verdict.clause}`: {message_of(verdict)}"
    return f"{text} ({verdict.error})" if verdict.error else text


def _failed(
    item: Expectation,
    message: str,
    label: str,
    *,
    hint: str | None = None,
    notes: tuple[str, ...] = (),
) -> Diagnostic:
    return Diagnostic("", "error", message, item.span, label=label, hint=hint, notes=notes)
