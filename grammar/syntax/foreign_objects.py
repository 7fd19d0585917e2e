"""Foreign objects: whole objects and blocks of other tools, as clauses of this language.

A part of the foreign clauses: a ResourceQuota, patterns and preconditions of Kyverno, tests of Go
templates, selections of jq, functions of Python, blocks of Terraform, and clauses that are written
as JSON or YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.printer import print_string

# ---- a ResourceQuota

_HARD = re.compile(r"[\"']?([\w./-]+)[\"']?\s*:\s*[\"']?([\w.]+)[\"']?")
_COUNTED = ("pods", "count/pods")


def _quotas(body: str) -> Iterator[str]:
    """`hard: requests.cpu: "10" pods: "20"`, which is about the pods of a namespace together."""
    head = re.match(r"(?:spec\s*:\s*)?hard\s*[:=]?\s*\{?\s*", body)
    if head is None:
        return
    made = []
    for key, amount in _HARD.findall(body[head.end() :]):
        kind, _, resource = key.partition(".")
        if key in _COUNTED and amount.isdigit():
            made.append(f'limit "pods" {{ pods where true per cluster at most {amount} strict }}')
            continue
        if kind not in ("requests", "limits"):
            kind, resource = "requests", key
        if resource not in ("cpu", "memory", "ephemeral-storage") and "/" not in resource:
            return
        added = f"peer.{kind}[{print_string(resource)}]"
        made.append(
            f"limit {print_string(key)} {{ sum {added} of pods where true per cluster"
            f' at most "{amount}" strict }}'
        )
    if made:
        yield " ".join(made)


# ---- preconditions of Kyverno

_SIGNS = {
    "equals": "==",
    "equal": "==",
    "notequals": "!=",
    "notequal": "!=",
    "greaterthan": ">",
    "greaterthanorequals": ">=",
    "lessthan": "<",
    "lessthanorequals": "<=",
    "in": "in",
    "anyin": "in",
}
_TEST = re.compile(
    r"key\s*:\s*[\"']?\{\{\s*(?P<key>[^}]+?)\s*\}\}[\"']?[\s,]*"
    r"operator\s*:\s*[\"']?(?P<operator>\w+)[\"']?[\s,]*"
    r"value\s*:\s*(?P<value>\[[^\]]*\]|\"[^\"]*\"|[\w.-]+)"
)


def _preconditions(body: str) -> Iterator[str]:
    """`preconditions: all: - key: "{{ request.object.spec.priority }}" operator: … value: …`."""
    denies = re.match(r"(?:validate\W+)?deny\W+conditions\b", body) is not None
    if not denies and not re.match(r"preconditions\b", body):
        return
    made = []
    for found in _TEST.finditer(body):
        sign = _SIGNS.get(found["operator"].lower())
        if sign is None:
            return
        key = re.sub(r"^(?:request\.)?object\b", "pod", found["key"].partition("||")[0].strip())
        key = "pod.namespace" if key == "request.namespace" else key
        made.append(f"{key} {sign} {_value(found['value'])}")
    if made:
        is_any = re.search(r"conditions\W+any\b", body) is not None
        joined = (" || " if is_any else " && ").join(made)
        yield f'filter "deny" {{ require !({joined}) }}' if denies else f"for pods where {joined}"


def _value(text: str) -> str:
    """A value of YAML as one of this language."""
    if text.startswith("["):
        listed = (part.strip().strip("\"'") for part in text[1:-1].split(","))
        return f"[{', '.join(map(print_string, listed))}]"
    return text if text.isdigit() or text.startswith('"') else print_string(text)


_IMAGES = re.compile(
    r"containers\s*:\s*(?:-\s*)?(?:\(?name\)?\s*:\s*\S+\s*)?image\s*:\s*[\"']?([^\"'\s]+)"
)


def of_glob(text: str) -> str:
    """A text with wildcards as a regular expression, in quotes."""
    parts = (
        ".*" if part == "*" else "." if part == "?" else re.escape(part)
        for part in re.split(r"([*?])", text)
    )
    return print_string(f"^{''.join(parts)}$")


def _fields_of_spec(body: str) -> Iterator[str]:
    """`validate { pattern { spec { nodeName: "?*" } } }`: what the pod must have, with values."""
    found = re.search(
        r"\bpattern\W+(?P<of>metadata\W+(?:labels|annotations)|spec)\W+"
        r"(?P<fields>(?:=?\(?\"?[\w./-]+\"?\)?(?:\s*:\s*|\s+(?=\"))\"?[^\s\"{},]+\"?[,\s]*)+)[}\s]*\Z",
        body,
    )
    if found is None or not re.match(r"validate\b", body):
        return
    message = re.search(r'message\s*:?\s*("[^"{}]*")', body)
    owner = f"pod.{re.split(r'[^a-z]+', found['of'])[-1]}"
    made = []
    for field, quote, value in re.findall(
        r"([\w./-]+)\"?\)?(?:\s*:\s*|\s+(?=\"))(\"?)([^\s\"{},]+)", found["fields"]
    ):
        read = f"{owner}.{field}" if owner == "pod.spec" else f"{owner}[{print_string(field)}]"
        tested = f"{read}.matches({of_glob(value)})" if re.search(r"[*?]", value) else ""
        is_plain = not quote and re.fullmatch(r"true|false|\d+", value)
        equal = f"{read} == {value if is_plain else print_string(value)}"
        made.append(f"has({read})" if value in ("?*", "*") else tested or equal)
    said = f" message {message[1]}" if message is not None else ""
    yield f'filter "fields" {{ require {" && ".join(made)}{said} }}'


def _patterns(body: str) -> Iterator[str]:
    """`validate: message: "…" pattern: spec: containers: - image: "!*:latest"`."""
    found = _IMAGES.search(body) if re.match(r"validate\b", body) else None
    if found is None:
        return
    denies, glob = found[1].startswith("!"), found[1].removeprefix("!")
    pattern = of_glob(glob)
    message = re.search(r'message\s*:\s*("[^"{}]*")', body)
    said = f" message {message[1]}" if message is not None else ""
    tested = f"{'!' * denies}c.image.matches({pattern})"
    yield f'filter "images" {{ require pod.spec.containers.all(c, {tested}){said} }}'


def _namespaces(body: str) -> Iterator[str]:
    """`namespaceSelector: matchLabels: env: prod`, which is about the namespace of the pod."""
    found = re.search(
        r"namespaceSelector\s*:?\s*\{?\s*matchLabels\s*:?\s*\{?\s*(.+?)\s*\}*\Z", body
    )
    pairs = (
        re.findall(r"[\"']?([\w./-]+)[\"']?\s*:\s*[\"']?([\w.-]+)[\"']?", found[1]) if found else []
    )
    if pairs and not re.search(r"topologyKey|podAffinity|podAntiAffinity", body):
        said = (f"namespaceObject.labels[{print_string(k)}] == {print_string(v)}" for k, v in pairs)
        yield f"for pods where {' && '.join(said)}"


def _scopes(body: str) -> Iterator[str]:
    """`scopeSelector: … operator: In scopeName: PriorityClass values: ["high"]` of a quota."""
    found = re.search(r"scopeName\s*:\s*PriorityClass\s*values\s*:\s*(\[[^\]]*\])", body)
    if found is not None:
        yield f"for pods where pod.spec.priorityClassName in {_value(found[1])}"


# ---- Go templates, jq and Python

_GO_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_GO_TEST = re.compile(
    r"\(?\b(eq|ne|lt|le|gt|ge)\s+\$?((?:\.\w+|\b(?:node|pod)\b)(?:\.\w+)*)\s+(\"[^\"]*\"|[\w.]+)\)?"
)


def _go_tests(text: str) -> Iterator[str]:
    """`require eq .Node.Zone "a"`: in Go templates the operator stands first."""

    def test(found: re.Match[str]) -> str:
        names = (name[:1].lower() + name[1:] for name in found[2].split(".") if name)
        return f"{'.'.join(names)} {_GO_SIGNS[found[1]]} {found[3]}"

    made = re.sub(r'\(?\bindex (\w+(?:\.\w+)+) ("[^"]*")\)?', r"\1[\2]", text)
    made = _GO_TEST.sub(test, made)
    if made == text:
        return
    joined = re.search(r"\b(and|or)\s+(\S+ \S+ \S+)\s+(\S+ \S+ [^\s}]+)", made)
    if joined is not None:
        sign = "&&" if joined[1] == "and" else "||"
        made = made.replace(joined[0], f"{joined[2]} {sign} {joined[3]}")
    yield made


def _selections(text: str) -> Iterator[str]:
    """`node.pods[] | select(.labels.app == "db") | length` of jq."""
    found = re.search(
        r"\[?((?:[a-z]\w*\.)+\w+)\[\]\s*\|\s*select\(((?:[^()]|\([^()]*\))*)\)\]?\s*(\|\s*length)?",
        text,
    )
    if found is None:
        return
    said = re.sub(r"(?<![\w)\]\"])\.(?=[a-z])", "x.", found[2])
    made = f"{found[1]}.exists(x, {said})"
    if found[3]:
        made = f"size({found[1]}.filter(x, {said}))"
    yield f"{text[: found.start()]}{made}{' ' if found[3] else ''}{text[found.end() :].lstrip()}"


_OF_NODES = r"(?:free|allocatable|usage|requested|zone|region|ready|pods)"


def _functions(text: str) -> Iterator[str]:
    """`def big(n): return n.free["cpu"] > 32` of Python."""
    found = re.fullmatch(r"def (\w+)\((\w+)\)\s*(?:->\s*\w+\s*)?:\s*return (.+)", text)
    if found is not None and re.search(
        r"[<>]|[=!]=|\b(?:in|has|exists|matches|startsWith)\b", found[3]
    ):
        kind = "Node" if re.search(rf"\b{found[2]}\.{_OF_NODES}\b", found[3]) else "Pod"
        yield f"def {found[1]}({found[2]}: {kind}): bool = {found[3]}"


# ---- Terraform

_CONDITION = r"(?:condition|require|expression|expr|rule)\s*=\s*(?P<said>.+?)"


def _resources(text: str) -> Iterator[str]:
    """`resource "placet_filter" "x" { condition = node.ready }`, and `variable "zone" { … }`."""
    block = re.fullmatch(
        rf'resource "[^"]*?(?P<kind>filter|policy|rule|score)" (?P<name>"[^"]*") \{{ {_CONDITION} '
        r'(?:(?:error_)?message\s*=\s*(?P<message>"[^"]*") )?\}',
        text,
    )
    if block is not None:
        name, said = block["name"], re.sub(r'\A"(.*)"\Z', r"\1", block["said"])
        message = f" message {block['message']}" if block["message"] else ""
        yield (
            f"score {name} weight 10 {{ value {said} }}"
            if block["kind"] == "score"
            else f"filter {name} {{ require {said}{message} }}"
        )
    variable = re.match(r'variable "(\w+)" \{.*?\bdefault\s*=\s*("[^"]*"|[\w.]+|\[[^\]]*\])', text)
    if variable is not None:
        yield f"let {variable[1]} = {variable[2]}"
    held = re.fullmatch(r"locals \{ (.+) \}", text)
    if held is not None:
        pairs = re.findall(r'(\w+)\s*=\s*("[^"]*"|[\w.]+)(?=\s|\Z)', held[1])
        yield " ".join(f"let {name} = {value}" for name, value in pairs)


# ---- clauses as data

_TEXTS = frozenset({"message", "detail"})
_HEADS = ("weight", "when")


def _data(text: str) -> Iterator[str]:
    """`{"filter": {"name": "x", "require": "node.ready"}}`, and the same as YAML."""
    try:
        said = json.loads(text if text.startswith("{") else f"{{{text}}}")
    except ValueError:
        said = _of_yaml(text)
    if isinstance(said, Mapping) and said.keys() & {"require", "value"}:
        # The parts of a clause without its keyword.
        said = {"score" if "value" in said else "filter": {"name": "x", **said}}
    if isinstance(said, Mapping):
        made = [_clause(str(word), parts) for word, parts in said.items()]
        if made and None not in made:
            yield " ".join(each for each in made if each is not None)


def _of_yaml(text: str) -> Mapping[str, object] | None:
    """`filter: name: x require: node.ready`, on one line."""
    head = re.match(r"(?:-\s*)?(\w+)\s*:\s*\{?\s*(?=name\b|require\b|weight\b)", text)
    if head is None or head[1] not in CLAUSE_WORDS:
        return None
    words = r"(name|when|weight|require|value|message|detail|missing)"
    text = text.rstrip(" }")
    pairs = re.findall(rf"\b{words}\s*:\s*(.+?)[,\s]*(?=\b{words}\s*:|\Z)", text[head.end() :])
    return {head[1]: {key: re.sub(r'\A"(.*)"\Z', r"\1", said.strip()) for key, said, _ in pairs}}


def _called(text: str) -> Iterator[str]:
    """`filter("x", require=node.ready)`, as a call."""
    found = re.fullmatch(r"(\w+)\(\s*(?:name\s*=\s*)?(\"[^\"]*\")\s*,\s*(.+)\)", text)
    if found is None or found[1] not in CLAUSE_WORDS:
        return
    words = r"(when|weight|require|value|message|detail)"
    parts = re.findall(rf"\b{words}\s*=(?!=)\s*(.+?)\s*,?\s*(?=\b{words}\s*=(?!=)|\Z)", found[3])
    made = _clause(
        found[1], {"name": found[2][1:-1]} | {key: said.strip('"') for key, said, _ in parts}
    )
    if made is not None:
        yield made


def _clause(word: str, parts: object) -> str | None:
    """The clause that an object of its parts is; None for what is none."""
    if word not in CLAUSE_WORDS or not isinstance(parts, Mapping) or "name" not in parts:
        return None
    head = [word, print_string(str(parts["name"]))]
    head += [f"{key} {parts[key]}" for key in _HEADS if key in parts]
    if word == "score" and "weight" not in parts:
        head.insert(2, "weight 10")
    rest = [
        f"{key} {print_string(str(value)) if key in _TEXTS else value}"
        for key, value in parts.items()
        if key not in ("name", *_HEADS)
    ]
    return f"{' '.join(head)} {{ {' '.join(rest)} }}"


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (
    _resources,
    _data,
    _called,
    _go_tests,
    _selections,
    _functions,
)
OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (
    _quotas,
    _preconditions,
    _patterns,
    _fields_of_spec,
    _scopes,
    _namespaces,
)
