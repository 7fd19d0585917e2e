"""The language reference: all examples are executed, and every keyword has one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import yaml

from engine.cache.ended_pods import lately
from engine.cache.node_table import Snapshot
from engine.clauses.programs import compile_policy
from engine.data import rows_of_text
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible, HeldBack, message_of
from engine.engine import Engine
from engine.objects.pod_group import KUBERNETES, GroupName, PodGroup
from engine.objects.request_pod import ObjectCodec
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from engine.program.policy_time import DecisionTime
from engine.program.tables import Table
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.clauses import KINDS
from grammar.meaning.environment import FUNCTIONS, Environment
from grammar.meaning.evaluator import evaluate
from grammar.meaning.schema import Schema, load_schema
from grammar.syntax.expression_builder import MACRO_VARIABLES, RESERVED
from grammar.syntax.parser import parse_expression, parse_file
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause
from grammar.tree.policy import File, Setting
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.kinds import TypeValue, kind
from grammar.values.maps import key_values
from grammar.values.optional import Optional
from grammar.values.time import Duration, Timestamp
from policies.validation import Validator
from tests.conformance.cases import SUITE, read
from tests.support.books import DOCS, book, section
from tests.support.engines import Fixed, Silent, read_files

BOOK = book("language")
COMING_FROM = (DOCS / "coming-from.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"(?ms)^```([a-z ]*)\n(.*?)^```$")
_LINE = re.compile(r"^(.*?\S)\s{2,}# (.+)$")
_OUTCOME = re.compile(r"(?m)^# (node-\d): (.+)$")
_WARNING = re.compile(r"(?m)^# warning\[(P\d{4})\]: (.+)$")
_CODE = re.compile(r"P\d{4}")
_WHOLE = re.compile(r"(?:#[^\n]*\n)*(?:policy|cluster policy|test) ")
_CALLED = re.compile(r"(?<!\w)((?:[a-z]\w*\.)?[A-Za-z]\w*)\(")
# The parts of a file: a policy's settings and items, and its clauses by their words.
_ITEMS = (
    *(
        "description",
        "weight",
        "mode",
        "missing",
        "portable",
        "ForPods",
        "Let",
        "Def",
        "Use",
        "Data",
        "Group",
        "Test",
    ),
    *KINDS,
)


@dataclass(frozen=True, slots=True)
class Example:
    """An expression and the result that the page shows."""

    text: str
    said: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The pod and the nodes of the examples, as `--cluster` reads them."""

    schema: Schema
    codec: ObjectCodec
    snapshot: Snapshot
    pod: bytes
    group: PodGroup
    now: Timestamp

    @property
    def variables(self) -> Mapping[str, Any]:
        pod = self.codec.pod(self.pod)
        controller = pod.workload.uid if pod.workload is not None else ""
        node = self.snapshot.nodes["node-1"]
        assert node.pods is not None
        return {
            "pod": replace(
                pod,
                workload=self.snapshot.workloads[controller],
                group=self.group,
                failures=lately(self.snapshot.failures[controller], self.now.nanos),
            ),
            "node": node,
            "namespaceObject": self.snapshot.namespaces[pod.namespace],
            "now": self.now,
            "peer": node.pods[0],
            "victim": node.pods[0],
            "victims": tuple(node.pods),
        }


def fences(page: str, info: str) -> list[str]:
    return [text for found, text in _FENCE.findall(page) if found == info]


def expressions() -> Iterator[Example]:
    for block in fences(BOOK, "cel"):
        for line in block.splitlines():
            if line and not line.startswith("//"):
                match = _LINE.match(line)
                assert match is not None, f"`{line}` does not show its value"
                yield Example(match[1], match[2])


EXPRESSIONS = tuple(expressions())
POLICIES = tuple(
    text
    for page in (BOOK, COMING_FROM)
    for info, text in _FENCE.findall(page)
    if info == "placet example" or (info in ("", "placet") and _WHOLE.match(text))
)
# The rows of the tables of data, by their names.
TABLES = {
    name: json.dumps(rows).encode() for name, rows in json.loads(*fences(BOOK, "json")).items()
}
DIFFERENCES = re.findall(r"(?m)^\| `(\w+/.+?)` \| `(.+?)` \| (.+?) \| (P\d{4}): .+\|$", BOOK)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    (text,) = fences(BOOK, "yaml")
    path = tmp_path_factory.mktemp("reference") / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    schema = load_schema()
    codec = ObjectCodec(schema)
    objects = yaml.safe_load(text)["items"]
    (pod,) = (o for o in objects if o["metadata"]["name"] == "web-1")
    (said,) = re.findall(r"`now` is `(.+?)`", BOOK)
    cache = read_files(codec, [path]).cache
    group = cache.group("shop", GroupName(KUBERNETES, "render"))
    assert group is not None
    body, now = json.dumps(pod).encode(), Timestamp.parse(said)
    return Scene(schema, codec, cache.snapshot(), body, group, now)


# ---- expressions


@pytest.mark.parametrize("example", EXPRESSIONS, ids=lambda e: e.text)
def test_expression_comes_to_what_is_said(scene: Scene, example: Example) -> None:
    """In the plain evaluator and compiled."""
    assert set(outcomes(scene, example.text)) == {example.said}


def outcomes(scene: Scene, text: str) -> Iterator[str]:
    """The results of the evaluator and the compiler, or the code of the checker's first error."""
    environment = Environment(variables=VARIABLES, schema=scene.schema, uniform_literals=True)
    expr, found = parse_expression(Source("example", text))
    checked: Expr | None = None
    if expr is not None:
        checker = Checker(environment)
        checked = checker.check(expr)
        found = checker.found
    if found or checked is None:
        yield found[0].code
        return
    variables = scene.variables
    compiler = Compiler(environment)
    run = compiler.compile(checked)
    frame = Frame(variables["pod"], scene.now, slots=compiler.slots)
    for name, value in variables.items():
        setattr(frame, name, value)
    evaluations: tuple[Callable[[], object], ...] = (
        partial(evaluate, checked, variables, environment),
        partial(run, frame),
    )
    for evaluation in evaluations:
        try:
            yield literal(evaluation())
        except MissingError as error:
            yield f"missing: {error}"
        except EvaluationError as error:
            yield f"error: {error}"


def literal(value: object) -> str:
    """A value as the language writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return f'double("{value}")'
        case int() | TypeValue():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case Mapping():
            pairs = (f"{literal(k)}: {literal(v)}" for k, v in key_values(value))
            return f"{{{', '.join(pairs)}}}"
        case Optional(value=held, present=present):
            return f"optional.of({literal(held)})" if present else "optional.none()"
        case Duration():
            return f'duration("{value}")'
        case _:
            return f'{kind(value)}("{value}")'


# ---- policies and their clauses


@pytest.mark.parametrize("text", POLICIES, ids=lambda t: t.strip().splitlines()[0])
def test_policy_does_what_is_said(scene: Scene, text: str) -> None:
    """It is legal, it compiles, and each node has the result that its last lines show."""
    validation = Validator(scene.schema).validate([Source("example", whole(text))])
    found = [(d.code, d.message) for d, _ in validation.findings()]
    assert found == _WARNING.findall(text)
    programs = [compile_policy(c) for c in validation.policies]
    assert programs or validation.files[0].tests
    registry = Registry(programs)
    engine = Engine(
        registry,
        Fixed(scene.snapshot),
        scene.codec,
        Silent(),
        time=DecisionTime(now=lambda: scene.now),
    )
    engine.take_tables(
        {
            digest: Table(spec, rows_of_text(spec, TABLES[spec.name], "yaml", at).rows)
            for at in (scene.now.nanos,)
            for digest, spec in registry.tables.items()
            if spec.name in TABLES
        }
    )
    said = dict(_OUTCOME.findall(text))
    scored = any(fare.isdigit() for fare in said.values())
    assert said == {n: f for n, f in fares(engine, scene, scored=scored).items() if n in said}


def whole(text: str) -> str:
    """A whole file: the parts of a policy are put into one."""
    return text if _WHOLE.match(text) else f'policy example in namespace "shop" {{\n{text}}}\n'


def fares(engine: Engine, scene: Scene, *, scored: bool) -> Mapping[str, str]:
    """The result of each node: `passes`, `rejected, "REASON"`, or a score from 0 to 10."""
    names = sorted(scene.snapshot.nodes)
    if scored:
        answer = engine.prioritize(scene.pod, names, None, math.inf)
        assert answer is not None
        return dict(zip(names, map(str, answer), strict=True))
    verdicts = engine.filter(scene.pod, names, None, math.inf)
    return {
        name: "passes" if isinstance(v, Feasible | HeldBack) else f'rejected, "{message_of(v)}"'
        for name, v in zip(names, verdicts, strict=True)
    }


# ---- nothing is left out


def test_every_function_has_an_example() -> None:
    called = {name for e in EXPRESSIONS for name in _CALLED.findall(e.text)}
    called |= {name.rpartition(".")[2] for name in called}
    names = {name for name in FUNCTIONS if name[0].isalpha() and name != "in"}
    assert names - called == set()


def test_every_operator_has_an_example() -> None:
    texts = " ".join(e.text for e in EXPRESSIONS)
    symbols = {name.removesuffix("_") for name in FUNCTIONS if not name[0].isalpha()} - {"[]"}
    assert [
        s for s in (*symbols, "in", "==", "!=", "&&", "||", "?", "[?", ".?") if s not in texts
    ] == []


def test_every_macro_has_an_example() -> None:
    texts = " ".join(e.text for e in EXPRESSIONS)
    macros = {"has", "cel.bind", *(name for name, _ in MACRO_VARIABLES)}
    assert [m for m in macros if f"{m}(" not in texts] == []


def test_every_clause_and_part_has_an_example() -> None:
    texts = map(whole, fences(BOOK, "placet example"))
    seen = {name for text in texts for name in names_in(parse_file(Source("example", text))[0])}
    assert [name for name in _ITEMS if name not in seen] == []


def test_every_kind_of_clause_has_its_row() -> None:
    page = (DOCS / "language" / "clauses.md").read_text(encoding="utf-8")
    missing = [f"docs/language/clauses.md needs the row `| [{w}](…) | … |`" for w in KINDS]
    missing = [text for text, w in zip(missing, KINDS, strict=True) if f"\n| [{w}](" not in page]
    assert not missing, "\n".join(missing)


def names_in(file: File) -> Iterator[str]:
    for block in file.blocks:
        yield type(block).__name__
        for item in block.items:
            match item:
                case Setting(name):
                    yield name
                case AnyClause():
                    yield item.keyword
                case _:
                    yield type(item).__name__


def test_every_word_of_a_clause_has_an_example() -> None:
    """The soft keywords are the terminals of the grammar."""
    grammar = (DOCS.parent / "grammar" / "syntax" / "policy.lark").read_text(encoding="utf-8")
    words = re.findall(r"(?m)^[A-Z]+\.5: /([a-z]+)\(\?!", grammar)
    texts = "\n".join([*fences(BOOK, "placet example"), *(e.text for e in EXPRESSIONS)])
    assert words
    assert [w for w in words if not re.search(rf"\b{w}\b", texts)] == []


def test_every_reserved_word_is_named() -> None:
    assert [word for word in RESERVED if f"`{word}`" not in BOOK] == []


def test_every_name_has_an_example() -> None:
    """Also short forms and computed members, and the fields of records outside of the API."""
    texts = " ".join(e.text for e in EXPRESSIONS)
    assert [n for n in VARIABLES if not re.search(rf"\b{n}\b", texts)] == []
    records = load_schema().records
    holders = {"Pod": "pod", "Node": "node", "Peer": "peer", "Namespace": "namespaceObject"}
    wanted = [
        f"{holder}.{field.name}"
        for record, holder in holders.items()
        for field in records[record].fields.values()
        if record in ("Peer", "Namespace") or field.native or field.derived is not None
    ]
    wanted += [f"pod.workload.{name}" for name in records["Workload"].fields]
    wanted += [f"pod.group.{name}" for name in records["PodGroup"].fields]
    texts += " ".join(fences(BOOK, "placet example"))
    of_groups = [name for name in records["NodeGroup"].fields if name != "value"]
    assert [n for n in of_groups if not re.search(rf"\b(rack|zone|region)\.{n}\b", texts)] == []
    assert [path for path in wanted if not re.search(rf"\b{re.escape(path)}\b", texts)] == []


# ---- differences from CEL


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row[0])
def test_difference_is_one(scene: Scene, row: tuple[str, str, str, str]) -> None:
    """The checker reports the code of the table for CEL's own case."""
    _, text, _, code = row
    assert _CODE.fullmatch(code)
    assert list(outcomes(scene, text.replace("\\|", "|"))) == [code]


def test_every_difference_is_read() -> None:
    table = section("language", "Differences from CEL")
    assert len(DIFFERENCES) == len(re.findall(r"(?m)^\| `", table)) > 0


@pytest.mark.skipif(not SUITE.exists(), reason="the conformance suite is not beside the project")
def test_cases_of_differences_are_those_of_the_suite() -> None:
    """A case has the expression of the suite; the file may lack cases that Placet cannot read."""
    cases = {case.name: case for case in read(SUITE)}
    known = [row for row in DIFFERENCES if row[0] in cases]
    assert known
    for name, text, value, _ in known:
        assert cases[name].fields["expr"] == text.replace("\\|", "|")
        assert cases[name].fields["expect"]["kind"] == "value", f"{name} must be {value}"
