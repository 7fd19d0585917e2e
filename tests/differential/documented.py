"""Documented: what docs/coming-from.md says of kube-scheduler's plugins, filled in for a pod.

The page and its file of plugins are the only source of policy text here: rows of tables are
templates, with places for what a pod says. So a comparison with the plugins is one of the page.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.differential.worlds import HOST, NAMESPACES
from tests.support.builders import Object

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
PLUGINS = PAGE.parent / "examples" / "coming-from" / "kube-scheduler.policy"
_ROW = re.compile(r"(?m)^\| (.+?) \| (.+?) \|$")
_CODE = re.compile(r"`([^`]+)`")
# The values that a label can have.
_LABEL = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
# The places in templates.
KEY, A, LIST, NAME, OF_KEY = '"k"', '"a"', '["a", "b"]', '"NAME"', 'node.labels["k"]'
DROPPED = (
    "a value that no label can have, or that is no number after `Gt` or `Lt`:"
    " the term matches no node"
)
# The rows of the nodes that a spread counts, by nodeAffinityPolicy and nodeTaintsPolicy.
_POLICIES = {
    ("Honor", "Ignore"): (
        "`nodeAffinityPolicy: Honor` and `nodeTaintsPolicy: Ignore`, the defaults"
    ),
    ("Honor", "Honor"): "both `Honor`",
    ("Ignore", "Ignore"): "both `Ignore`",
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Documented:
    """The templates of the page. A row that is not there fails with a KeyError that names it."""

    def __init__(self, page: str) -> None:
        section = page.partition("\n## Affinity and topology spread")[2].partition("\n## ")[0]
        rows = ((there, here.replace("\\|", "|")) for there, here in _ROW.findall(section))
        self._rows: Mapping[str, str] = dict(rows)
        self.plugins = PLUGINS.read_text(encoding="utf-8")

    def policies(self, pod: Object, nodes: list[Object]) -> str:
        """The policies that say what the pod says: of nodes, of spreads, and of other pods."""
        parts = {
            "NodeAffinity": self._node_affinity(pod),
            "preferred NodeAffinity": self._preferred(pod),
            "PodTopologySpread": self._spreads(pod),
            "InterPodAffinity": self._pod_affinity(pod, nodes),
        }
        written = {name: "\n  ".join(clauses) for name, clauses in parts.items()}
        return "\n".join(
            f'cluster policy "{name}" {{\n  {clauses}\n}}' for name, clauses in written.items()
        )

    def _code(self, there: str, *values: tuple[str, str]) -> str:
        """The first code of a row, with a text for each of its places."""
        text = str(_CODE.findall(self._rows[there])[0])
        for place, written in values:
            assert place in text, f"{text} has no {place}"
            text = text.replace(place, written)
        return text

    # ---- nodes

    def _node_affinity(self, pod: Object) -> Iterator[str]:
        for key, value in pod["spec"].get("nodeSelector", {}).items():
            test = self._code("`nodeSelector: {k: a}`", (KEY, _text(key)), (A, _text(value)))
            yield f'filter "select {key}" {{ require {test} }}'
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get(REQUIRED)
        if required is not None:
            terms = filter(None, map(self._term, required["nodeSelectorTerms"]))
            yield f'filter "required" {{ require {" || ".join(terms) or "false"} }}'

    def _preferred(self, pod: Object) -> Iterator[str]:
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        for number, each in enumerate(preferred):
            value = self._term(each["preference"])
            yield f'score "{number}" weight {each["weight"]} {{ value {value} }}'

    def _term(self, term: Object) -> str | None:
        """The condition of a term; None for one with a value that the page leaves out."""
        tests = []
        for each in term.get("matchExpressions", ()):
            if not _is_valid(each):
                assert DROPPED in self._rows
                return None
            tests.append(f"({self._requirement(each)})")
        for each in term.get("matchFields", ()):
            (name,) = each["values"]
            there = f"`matchFields: metadata.name {each['operator']} [n]`"
            tests.append(self._code(there, ('"n"', _text(name))))
        return f"({' && '.join(tests)})"

    def _requirement(self, each: Object) -> str:
        operator, values = each["operator"], each.get("values", [])
        key = (KEY, _text(each["key"]))
        match operator:
            case "In":
                return self._code("`In [a, b]`", key, (LIST, _text(values)))
            case "NotIn":
                there = "`NotIn [a, b]`, which an absent label satisfies"
                return self._code(there, key, (LIST, _text(values)))
            case "Gt" | "Lt":
                return self._code(f"`{operator} [5]`", key, ("5", values[0]))
            case _:
                return self._code(f"`{operator}`", key)

    # ---- pods

    def _spreads(self, pod: Object) -> Iterator[str]:
        constraints = pod["spec"].get("topologySpreadConstraints", ())
        for number, each in enumerate(constraints):
            key = each["topologyKey"]
            keys = each.get("matchLabelKeys", [])
            if not each["labelSelector"]:
                # kube-scheduler adds the keys to the selector that the pod has.
                keys = [key for key in keys if key in pod["metadata"]["labels"]]
            peers = self._peers(each["labelSelector"], keys)
            if peers is None:
                there = "`labelSelector: {}` of a spread constraint, which counts no pods"
                yield self._code(there, (NAME, f'"{number}"'), (KEY, _text(key)))
                continue
            over = self._over(key, [c["topologyKey"] for c in constraints if c is not each])
            text = self._code(
                "`topologySpreadConstraints`, `DoNotSchedule`",
                (NAME, f'"{number}"'),
                ("…", peers),
                (f"over {OF_KEY}", f"over {over}"),
                ("at most 1", f"at most {each['maxSkew']}"),
            )
            usual = self._code(_POLICIES["Honor", "Ignore"])
            asked = (
                each.get("nodeAffinityPolicy", "Honor"),
                each.get("nodeTaintsPolicy", "Ignore"),
            )
            text = text.replace(f" {usual} ", f" {self._code(_POLICIES[asked])} ")
            if "minDomains" in each:
                text = text.replace(" strict ", f" at least {each['minDomains']} strict ")
            yield text

    def _over(self, key: str, others: list[str]) -> str:
        if not others:
            return OF_KEY.replace(KEY, _text(key))
        (other,) = others
        there = "several constraints: a node without one of the labels counts for none of them"
        text = self._code(there, (KEY, _text(key)), ('"other"', _text(other)))
        return text.removeprefix("over ")

    def _pod_affinity(self, pod: Object, nodes: list[Object]) -> Iterator[str]:
        affinity = pod["spec"].get("affinity", {})
        terms = affinity.get("podAffinity", {}).get(REQUIRED, ())
        of_all = [self._of_term(each) for each in terms]
        for number, each in enumerate(terms):
            there = "`podAffinity`, `required…`"
            yield self._limit(there, f"near {number}", _all(of_all), each["topologyKey"], nodes)
        for number, each in enumerate(affinity.get("podAntiAffinity", {}).get(REQUIRED, ())):
            there = "`podAntiAffinity`, `required…`, to other pods"
            written = self._of_term(each)
            text = self._limit(there, f"away {number}", written, each["topologyKey"], nodes)
            if matches_itself(each, pod):
                same = self._code("the same, to pods of the same kind")
                text = text.replace("at most 0", same)
            yield text

    def _limit(self, there: str, name: str, peers: str, key: str, nodes: list[Object]) -> str:
        per = OF_KEY.replace(KEY, _text(key))
        per = f"per {per}"
        if key == HOST and all(HOST in node["metadata"]["labels"] for node in nodes):
            per = self._code("`topologyKey: kubernetes.io/hostname`")
        values = ((NAME, f'"{name}"'), ("pods where …", peers), (f"per {OF_KEY}", per))
        return self._code(there, *values)

    def _of_term(self, term: Object) -> str:
        """The pods of a term of affinity: `pods where …`, or `all pods where …`."""
        peers = self._peers(term["labelSelector"], [])
        if peers is None:
            peers = self._code("`labelSelector: {}` of affinity").removeprefix("pods where ")
        selector = term.get("namespaceSelector")
        if selector:
            ((key, value),) = selector["matchLabels"].items()
            there = "`namespaceSelector: {matchLabels: {k: a}}`"
            return self._code(there, (KEY, _text(key)), (A, _text(value)), ("…", peers))
        if selector is not None:
            return self._code("`namespaceSelector: {}`", ("…", peers))
        if "namespaces" in term:
            listed = (LIST, _text(term["namespaces"]))
            return self._code("`namespaces: [a, b]`", listed, ("…", peers))
        return self._code("the pod's namespace", ("…", peers))

    def _peers(self, selector: Object, keys: list[str]) -> str | None:
        """The condition of a selector; None for one that is empty."""
        tests = []
        for key, value in selector.get("matchLabels", {}).items():
            there = "`matchLabels: {k: a}`"
            tests.append(self._code(there, (KEY, _text(key)), (A, _text(value))))
        for each in selector.get("matchExpressions", ()):
            assert self._rows["`matchExpressions`"] == "as for nodes, with `peer.labels`"
            tests.append(f"({self._requirement(each).replace('node.labels', 'peer.labels')})")
        tests += [self._code("`matchLabelKeys: [k]`", (KEY, _text(key))) for key in keys]
        return " && ".join(tests) or None


def _text(value: object) -> str:
    """A text or a list as the language writes it."""
    return json.dumps(value)


def _is_valid(requirement: Object) -> bool:
    """Whether kube-scheduler keeps the term of a requirement."""
    values = requirement.get("values", [])
    if requirement["operator"] in ("Gt", "Lt") and not values[0].isdigit():
        return False
    return all(_LABEL.fullmatch(value) for value in values)


def _all(terms: list[str]) -> str:
    """The pods that are in each of some sets; `pods where` is the narrower head."""
    if len(terms) == 1:
        return terms[0]
    tests = " && ".join(f"({each.partition('where ')[2]})" for each in terms)
    everywhere = all(each.startswith("all ") for each in terms)
    return f"{'all ' if everywhere else ''}pods where {tests}"


def matches_itself(term: Object, pod: Object) -> bool:
    """Whether a term of affinity is also about the pod that has it."""
    metadata, selector = pod["metadata"], term.get("namespaceSelector")
    if selector is not None:
        known = NAMESPACES[metadata["namespace"]]
        wanted = selector.get("matchLabels", {})
        inside = all(known.get(key) == value for key, value in wanted.items())
    else:
        inside = metadata["namespace"] in term.get("namespaces", [metadata["namespace"]])
    return inside and _selects(term["labelSelector"], metadata["labels"])


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    if any(labels.get(k) != v for k, v in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", ()):
        value, values = labels.get(each["key"]), each.get("values", [])
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[each["operator"]]:
            return False
    return True


# ---- plugins: kube-scheduler's plugins in a process of their own, which judges worlds one by one


class Judgement(msgspec.Struct, frozen=True):
    """What each plugin says of each node: whether its Filter passes it, and its score 0..100.

    A plugin that has nothing to say of a pod passes every node, and has no scores.
    """

    filters: Mapping[str, Mapping[str, bool]]
    scores: Mapping[str, Mapping[str, int]]


class Plugins:
    """The running process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._decoder = msgspec.json.Decoder(Judgement)

    def judge(self, objects: Object) -> Judgement:
        """The judgement of a world: its namespaces, nodes, pods, and the pod to place."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(objects) + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the plugins ended with {process.wait()}; see above"
        return self._decoder.decode(line)


@contextmanager
def running(program: Path) -> Iterator[Plugins]:
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Plugins(process)
        finally:
            process.kill()
