"""Foreign rules: what the admission policies of others say, as clauses of this language.

A part of the foreign clauses: Kyverno, the rules of Rego, ValidatingAdmissionPolicy and Cedar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.messages.texts import filled
from grammar.syntax.wish_parts import negated
from grammar.syntax.wish_words import WORKLOADS
from grammar.tree.printer import print_string

OF_SELECTOR = re.compile(r"[\"']?([\w./-]+)[\"']?(?:\s*[:=]\s*|\s+(?=[\"']))[\"']?([\w.-]+)[\"']?")


def text_of(value: str) -> str:
    return print_string(value.strip().strip("\"'"))


# ---- Rego, and expressions of ValidatingAdmissionPolicy


def _rego(body: str) -> Iterator[str]:
    """`deny[msg] { input.node.zone == "a"; msg := "no" }`, whose body says what must not be."""
    body = re.sub(r"^(\w+)\s*\[[^\]]*\]", r"\1", body)
    body = re.sub(r"\{((?:\s*\"[^\"]*\"\s*,?)+)\}", r"[\1]", body)
    body = re.sub(r"\}\s*else\s*:?=?\s*(?:false|\{\s*false\s*\})\s*\Z", "}", body)
    plain = re.fullmatch(
        r"(deny|violation|allow)\b(?:\s+contains\s+\w+)?(?:\s*:?=\s*true)?\s+if\s+([^{}]+)", body
    )
    plain = plain or re.fullmatch(r"(allow|deny)\s*:?=\s*(?!true\b|false\b)([^{}=][^{}]*)", body)
    body = f"{plain[1]} {{ {plain[2]} }}" if plain is not None else body
    found = re.match(r"(deny|violation|allow)\b[^{]*?(?:\bif\b\s*)?\{\s*(.+?)\s*\}\s*\Z", body)
    if found is None:
        return
    said = re.search(r"msg\s*:?=\s*(?:sprintf\()?(\"[^\"]*\")(?:,\s*\[(.*?)\]\s*\))?", found[2])
    # On one line, another condition begins with another object.
    begins = r"(?<=[\w\"\])])(?<!\bin)(?<!\bnot)\s+(?=(?:not\s+)?(?:input|node|pod)\.|msg\s*:?=)"
    lines = [line.strip() for line in re.split(rf";|{begins}", found[2])]
    wanted = [_of_input(w) for w in lines if w and not re.match(r"msg\b", w)]
    made = " && ".join(wanted)
    made = made if found[1] == "allow" else f"!({made})"
    values = [_of_input(v) for v in re.split(r"\s*,\s*", (said[2] if said else "") or "")]
    # A message says the same of all nodes.
    part = "detail" if any(v.startswith("node") for v in values) else "message"
    message = f" {part} {filled(said[1], values)}" if said is not None else ""
    yield f'filter "{found[1]}" {{ require {made}{message} }}'


def _of_input(line: str) -> str:
    """A line of Rego: `input.node.zone == "a"`, `not input.review.object.spec.nodeSelector`."""
    line = re.sub(r"\binput\.(?:(?:review|request)\.)?(?:object\.)?(?=(?:pod|node)\b)", "", line)
    line = re.sub(r"\binput\.(?:(?:review|request)\.)?object\b", "pod", line)
    line = re.sub(r"\bcount\(", "size(", line)
    absent = re.fullmatch(r"not\s+([\w.]+(?:\[\"[^\"]*\"\])?)", line)
    if absent is not None:
        is_flag = absent[1].endswith((".ready", ".unschedulable"))
        return f"!{absent[1]}" if is_flag else f"!has({absent[1]})"
    return re.sub(r"^not\s+(.+)$", r"!(\1)", line)


def _expressions(body: str) -> Iterator[str]:
    """`validations: - expression: "object.spec.priority > 0"`, and `variables` of the same."""
    found = re.findall(r"expression[\"']?\s*:?\s*\"([^\"]+)\"", body)
    if not found:
        # Without quotes, up to the next key.
        found = re.findall(r"\bexpression\s*:\s*([^\"{}]+?)(?=\s+\w+:|\s+-\s|\s*\Z)", body)
    if not found:
        return
    found = [re.sub(r"\bobject\.spec\.replicas\b", "pod.workload.replicas", t) for t in found]
    texts = [re.sub(r"\bobject\.", "pod.", text).replace("variables.", "") for text in found]
    names = re.findall(r"name[\"']?\s*:?\s*\"?([A-Za-z_]\w*)\"?", body)
    if re.match(r"variables\b", body) and len(names) == len(texts):
        yield " ".join(f"let {n} = {t}" for n, t in zip(names, texts, strict=True))
    elif re.match(r"matchConditions\b", body):
        yield f"for pods where {' && '.join(texts)}"
    elif not body.startswith("variables"):
        said = re.findall(r"(?<!\w)message[\"']?\s*:\s*(\"[^\"{}]*\")", body)
        message = f" message {said[0]}" if len(said) == 1 else ""
        yield f'filter "rules" {{ require {" && ".join(texts)}{message} }}'


# ---- Kyverno: what pods are meant


def matched(read: str, pattern: str) -> str:
    """A text with the wildcards of Kyverno as a condition: `team-*`, `*-db`, `*`."""
    inner = pattern.strip("*")
    if pattern == inner and "?" not in pattern:
        return f"{read} == {text_of(pattern)}"
    if not inner:
        return "true"
    if re.search(r"[*?]", inner):
        return f"{read}.matches({of_glob(pattern)})"
    ends = pattern.startswith("*"), pattern.endswith("*")
    method = {(True, True): "contains", (True, False): "endsWith"}.get(ends, "startsWith")
    return f"{read}.{method}({text_of(inner)})"


def _kyverno(body: str) -> Iterator[str]:
    """`match { any { resources { kinds ["Pod"] } } }`, with a selector or a namespace in it."""
    is_match = (
        re.match(r"(?:match|exclude|matchConstraints)\b|(?:kinds|namespaces)\s*[:=\[]", body)
        is not None
    )
    if not is_match or not re.search(r"esource|\bkinds\b|^namespaces", body):
        return
    sign = "!=" if body.startswith("exclude") else "=="
    called = re.search(r"\bnames?\b[\"']?\s*[:=]?\s*(\[[^\]]*\]|[\"']?\w[\w*?-]*)", body)
    if called is not None and sign == "==":
        texts = re.findall(r"[\w*?][\w*?-]*", called[1])
        yield f"for pods where {' || '.join(matched('pod.name', text) for text in texts)}"
    names = re.search(
        r"namespaces?[\"']?\s*[:=]?\s*(\[[^\]]*\]|(?:-\s+[\"']?[\w*?-]+[\"']?\s*)+|[\"']?\w[\w*?-]*)",
        body,
    )
    if names is not None:
        texts = re.findall(r"[\w*?][\w*?-]*", names[1])
        made = " || ".join(matched("pod.namespace", text) for text in texts)
        if len(texts) > 1 and not re.search(r"[*?]", names[1]):
            made = f"pod.namespace in [{', '.join(map(text_of, texts))}]"
        plain = re.fullmatch(r'(pod\.namespace) == ("[^"]*")', made)
        denied = f"{plain[1]} != {plain[2]}" if plain is not None else f"!({made})"
        yield f"for pods where {made if sign == '==' else denied}"
    kinds = [k for k in re.findall(r"\w+", body) if k in WORKLOADS]
    if kinds:
        test = f'pod.workload.kind {"==" if sign == "==" else "!="} "{kinds[0]}"'
        listed = ", ".join(map(text_of, kinds))
        many = f"pod.workload.kind in [{listed}]"
        many = many if sign == "==" else f"!({many})"
        yield f"for pods where {test if len(kinds) == 1 else many}"
    if "namespaceSelector" in body:
        yield from _namespaces(body)
        return
    labels = re.search(r"matchLabels[\"']?\s*:?\s*\{?\s*(.+?)(?:\}|\Z)", body)
    pairs = OF_SELECTOR.findall(labels[1]) if labels is not None else []
    if pairs:
        where = " && ".join(f"pod.labels[{text_of(k)}] == {text_of(v)}" for k, v in pairs)
        yield f"for pods where {where}" if sign == "==" else f"for pods where !({where})"
    if sign == "==" and not re.search(r"elector|matchLabels|matchExpressions|names", body):
        yield "for pods where true"


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
    "allin": "in",
    **dict.fromkeys(("notin", "anynotin", "allnotin"), "not in"),
}
_TEST = re.compile(
    r"key[\s:=]+[\"']?\{\{\s*(?P<key>[^}]+?)\s*\}\}[\"']?[\s,]*"
    r"operator[\s:=]+[\"']?(?P<operator>\w+)[\"']?[\s,]*"
    r"value[\s:=]+(?P<value>\[[^\]]*\]|\"[^\"]*\"|[\w.-]+)"
)


def _preconditions(body: str) -> Iterator[str]:
    """`preconditions: all: - key: "{{ request.object.spec.priority }}" operator: … value: …`."""
    denies = (
        re.match(r"(?:validate\b.*?\b)?deny\W+(?:conditions\b|\{ ?(?:pod|node)\.)", body)
        is not None
    )
    is_alone = re.match(r"[\s\[{-]*key\b", body) is not None
    if not (denies or is_alone or re.match(r"preconditions\b", body)):
        return
    plain = re.search(
        r"(?:conditions|deny)\W+(?:(?:any|all)\W+)?((?:pod|node)\.[^{}]+?)[\s}]*\Z", body
    )
    made = [plain[1]] if plain is not None else []
    for found in _TEST.finditer(body):
        sign = _SIGNS.get(found["operator"].lower())
        if sign is None:
            return
        key = re.sub(r"^(?:request\.)?object\b", "pod", found["key"].partition("||")[0].strip())
        key = "pod.namespace" if key == "request.namespace" else key
        is_flag = found["value"] in ("true", "false") and "labels" not in key
        value = found["value"] if is_flag else value_of(found["value"])
        made.append(f"!({key} in {value})" if sign == "not in" else f"{key} {sign} {value}")
    if made:
        is_any = re.search(r"conditions\W+any\b", body) is not None
        joined = (" || " if is_any else " && ").join(made)
        wanted = negated(joined) if denies else joined
        is_filter = denies or is_alone
        said = re.search(r'\bmessage\W{1,3}("[^"{}]*")', body) if denies else None
        message = f" message {said[1]}" if said is not None else ""
        made_filter = f'filter "deny" {{ require {wanted}{message} }}'
        yield made_filter if is_filter else f"for pods where {joined}"


def value_of(text: str) -> str:
    """A value of YAML as one of this language."""
    if text.startswith("["):
        listed = (part.strip().strip("\"'") for part in text[1:-1].split(","))
        return f"[{', '.join(map(print_string, listed))}]"
    return text if text.isdigit() or text.startswith('"') else print_string(text)


_IMAGES = re.compile(r"containers\W+(?:\(?name\)?\s*:\s*\S+\s*)?image\s*:\s*[\"']?([^\"'\s]+)")


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


# ---- Cedar


def _cedar(text: str) -> Iterator[str]:
    """`forbid (principal, action, resource) when { … } unless { … };`, what must not be."""
    found = re.fullmatch(
        r"(permit|forbid)\s*\(([^()]*)\)\s*((?:(?:when|unless)\s*\{[^{}]*\}\s*)*);?", text
    )
    if found is None:
        return
    scopes = re.findall(r"\b(principal|resource)\s*==\s*\w+::(\"[^\"]*\")", found[2])
    parts = [("when", f"{owner}.name == {name}") for owner, name in scopes]
    parts += re.findall(r"(when|unless)\s*\{\s*([^{}]*?)\s*\}", found[3])
    if not parts:
        return
    said = " && ".join(said if word == "when" else negated(said) for word, said in parts)
    said = re.sub(r"\b(resource|principal) has (\w+)", r"has(\1.\2)", said)
    said = re.sub(r"\bresource\.", "node.", re.sub(r"\bprincipal\.", "pod.", said))
    yield f'filter "{found[1]}" {{ require {said if found[1] == "permit" else negated(said)} }}'


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (_cedar,)
OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (
    _kyverno,
    _rego,
    _expressions,
    _preconditions,
    _patterns,
    _fields_of_spec,
    _namespaces,
)
