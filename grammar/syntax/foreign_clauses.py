"""Foreign clauses: what other languages write for a clause, as a clause of this language.

Here are the blocks that people paste: selectors, affinities and spread constraints of pods,
constraints of Nomad, blocks of Kyverno, expressions of ClassAds, `CASE` of SQL, `if` with `else`.
Each reader gets the words of an item and gives whole clauses. Wishes in plain words are in
`grammar.syntax.wishes`, and single words of other languages in `grammar.messages.habits`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.syntax.clause_remedies import DOMAINS
from grammar.tree.printer import print_string

_ATTRIBUTES = {
    "node.datacenter": "node.zone",
    "node.region": "node.region",
    "node.unique.name": "node.name",
    "node.class": 'node.labels["node.kubernetes.io/instance-type"]',
    "attr.kernel.name": 'node.labels["kubernetes.io/os"]',
    "attr.cpu.arch": 'node.labels["kubernetes.io/arch"]',
    "attr.os.name": 'node.labels["kubernetes.io/os"]',
    "attr.unique.hostname": "node.name",
}
_KEY = r"[\"']?(?P<key>[\w./-]+)[\"']?"
_CONDITION_OF_KEY = re.compile(
    rf"key[\"']?\s*:\s*{_KEY}[,\s]+[\"']?operator[\"']?\s*:\s*[\"']?(?P<operator>\w+)[\"']?"
    r"(?:[,\s]+[\"']?values?[\"']?\s*:\s*(?P<values>\[[^\]]*\]|(?:-\s*[\w./-]+\s*)+|[\"'\w./-]+))?"
)
_OF_SELECTOR = re.compile(r"[\"']?([\w./-]+)[\"']?\s*:\s*[\"']?([\w.-]+)[\"']?")


def clauses(text: str, body: str) -> Iterator[str]:
    """The clauses that may be meant by an item, the likeliest first.

    `text` is the whole item on one line, `body` what of it stands in a clause of this language.
    """
    for read in _OF_ITEMS:
        yield from read(text)
    for read in _OF_BODIES:
        yield from read(body)


def _text(value: str) -> str:
    return print_string(value.strip().strip("\"'"))


def of_key(key: str, operator: str, values: list[str]) -> str | None:
    """The condition of a `matchExpressions`: `key: disktype, operator: In, values: [ssd]`."""
    known = DOMAINS.get(key)
    read = known or f"node.labels[{print_string(key)}]"
    texts = [_text(v) for v in values]
    match operator.lower():
        case "in" if len(texts) == 1:
            return f"{read} == {texts[0]}"
        case "in" if texts:
            return f"{read} in [{', '.join(texts)}]"
        case "notin" if texts:
            optional = f'node.labels[?{print_string(key)}].orValue("")'
            return f"!({known or optional} in [{', '.join(texts)}])"
        case "exists":
            return f"has({read})"
        case "doesnotexist":
            return f"!has({read})"
        case "gt" | "lt" if texts and texts[0].strip('"').isdigit():
            return (
                f"int({read}) {'>' if operator.lower() == 'gt' else '<'} {texts[0].strip(chr(34))}"
            )
        case _:
            return None


def _of_keys(body: str) -> Iterator[str]:
    found = []
    for match in _CONDITION_OF_KEY.finditer(body):
        values = re.findall(r"[\w./-]*\w", match["values"] or "")
        if (made := of_key(match["key"], match["operator"], values)) is None:
            return
        found.append(made)
    if found:
        yield " && ".join(found)


def _selectors(body: str) -> Iterator[str]:
    """`nodeSelector: disktype: ssd`, and the `matchExpressions` of a node affinity."""
    if re.search(r"topologyKey|podAffinity|podAntiAffinity|maxSkew", body):
        return
    keys = next(_of_keys(body), None)
    if keys is not None:
        yield f'filter "nodes" {{ require {keys} }}'
        return
    selector = re.search(r"nodeSelector[\"']?\s*[:=]\s*\{?\s*(.+)\Z", body)
    if selector is None:
        return
    pairs = _OF_SELECTOR.findall(selector[1])
    if pairs:
        conditions = (of_key(key, "In", [value]) or "" for key, value in pairs)
        yield f'filter "nodes" {{ require {" && ".join(conditions)} }}'


def _topology(body: str) -> Iterator[str]:
    """`maxSkew: 1 topologyKey: … whenUnsatisfiable: DoNotSchedule`, and pod (anti-)affinity."""
    key = re.search(r"topologyKey[\"']?\s*:\s*[\"']?([\w./-]+)", body)
    if key is None:
        return
    domain = DOMAINS.get(key[1], f"node.labels[{print_string(key[1])}]")
    is_soft = re.search(r"ScheduleAnyway|preferredDuring", body) is not None
    strength = "best effort weight 10" if is_soft else "strict"
    skew = re.search(r"maxSkew[\"']?\s*:\s*(\d+)", body)
    if skew is not None:
        yield f'spread "topology" {{ over {domain} skew at most {skew[1]} {strength} }}'
        return
    labels = re.search(r"matchLabels[\"']?\s*:\s*\{?\s*(.+?)(?:\}|topologyKey|\Z)", body)
    pairs = _OF_SELECTOR.findall(labels[1]) if labels is not None else []
    where = " && ".join(f"peer.labels[{_text(k)}] == {_text(v)}" for k, v in pairs)
    counted = f"pods where {where} " if where else ""
    per = "node" if domain == "node.name" else f"domain {domain}"
    if re.search(r"podAffinity", body) and not re.search(r"podAntiAffinity", body):
        yield f'limit "near" {{ {counted}per {per} at least 1 best effort weight 10 }}'
    elif where:
        yield f'limit "apart" {{ {counted}per {per} at most 0 {strength} }}'
        yield f'limit "apart" {{ {counted}per {per} at most 1 {strength} }}'
    else:
        yield f'limit "apart" {{ per {per} at most 1 {strength} }}'


def _nomad(body: str) -> Iterator[str]:
    """`constraint { attribute = "${node.datacenter}" value = "dc1" }`, and the other blocks."""
    if re.search(r"distinct_hosts", body):
        yield 'limit "distinct hosts" { per node at most 1 strict }'
        return
    attribute = re.search(r"(?:attribute|distinct_property)\s*=\s*\"\$\{([^}]+)\}\"", body)
    if attribute is None:
        return
    name = attribute[1]
    read = _ATTRIBUTES.get(name)
    if read is None:
        key = re.sub(r"^(?:meta|node\.meta|attr)\.", "", name)
        read = f"node.labels[{print_string(key)}]"
    word = re.match(r"\w+", body)
    if word is not None and word[0] == "spread":
        yield f'spread "{name}" {{ over {read} skew at most 1 best effort weight 10 }}'
        return
    if "distinct_property" in body:
        yield f'limit "{name}" {{ per domain {read} at most 1 strict }}'
        return
    value = re.search(r"value\s*=\s*(\"[^\"]*\")", body)
    if value is None:
        return
    operator = re.search(r"operator\s*=\s*\"([^\"]+)\"", body)
    sign = operator[1] if operator is not None else "="
    if sign in ("=", "==", "is"):
        made = f"{read} == {value[1]}"
    elif sign in ("!=", "not"):
        made = f"{read} != {value[1]}"
    elif sign == "regexp":
        made = f"{read}.matches({value[1]})"
    elif sign == "set_contains":
        made = f"{read}.contains({value[1]})"
    else:
        return
    if word is not None and word[0] == "affinity":
        yield f'score "{name}" weight 10 {{ value {made} }}'
    else:
        yield f'filter "{name}" {{ require {made} }}'


def _class_ads(body: str) -> Iterator[str]:
    """`rank = node.free["memory"]` and `requirements = …` of HTCondor."""
    found = re.match(r"(?i)(rank|requirements)\s*[=:]\s*(.+)\Z", body)
    if found is None:
        return
    if found[1].lower() == "requirements":
        yield f'filter "requirements" {{ require {found[2]} }}'
        return
    yield f'score "rank" weight 10 {{ value {found[2]} range minmax }}'
    yield f'score "rank" weight 10 {{ value {found[2]} }}'


def _cases(text: str) -> Iterator[str]:
    """`CASE WHEN a THEN b ELSE c END` of SQL."""
    found = re.search(r"(?i)\bcase\s+when\s+(.+?)\s+then\s+(.+?)\s+else\s+(.+?)\s+end\b", text)
    if found is not None:
        yield f"{text[: found.start()]}{found[1]} ? {found[2]} : {found[3]}{text[found.end() :]}"


def _counts(body: str) -> Iterator[str]:
    """`count(pods) < 3`, `pods.size() <= 3`: pods are counted by a limit."""
    found = re.match(
        r"(?:(?:count|size|len|sum|length)\(\s*pods\s*\)|pods\.(?:count|size|length|len)(?:\(\))?)"
        r"\s*(<=|<|==)\s*(\d+)\Z",
        body,
    )
    if found is not None:
        most = int(found[2]) - (found[1] == "<")
        yield f'limit "at most {most} per node" {{ per node at most {most} strict }}'


def _select(body: str) -> Iterator[str]:
    """`SELECT … FROM nodes WHERE …` of SQL."""
    found = re.match(r"(?i)select\b.*?\bwhere\s+(.+?)(?:\s+(?:order|limit|group)\b.*)?\Z", body)
    if found is not None:
        condition = re.sub(r"'([^']*)'", r'"\1"', found[1])
        condition = re.sub(r"(?i)\band\b", "&&", condition)
        condition = re.sub(r"(?i)\bor\b", "||", condition)
        condition = re.sub(r"(?<![=!<>])=(?!=)", "==", condition)
        condition = re.sub(r"(?<![\w.\"])(zone|region|name|ready|age)\b", r"node.\1", condition)
        yield f'filter "nodes" {{ require {condition} }}'


def _branches(text: str) -> Iterator[str]:
    """`if a { require b } else { require c }`, which are two values of one condition."""
    found = re.search(
        r"\bif\s+(.+?)\s*\{\s*(?:require\s+)?(.+?)\s*\}\s*else\s*\{\s*(?:require\s+)?(.+?)\s*\}",
        text,
    )
    if found is not None:
        head = text[: found.start()]
        require = "" if re.search(r"\b(?:require|value)\s*\Z", head) else "require "
        said = f"{require}{found[1]} ? {found[2]} : {found[3]}"
        if "{" not in head:
            yield f'filter "either" {{ {said} }}'
        else:
            yield f"{head}{said}{text[found.end() :]}"


def _kyverno(body: str) -> Iterator[str]:
    """`match { any { resources { kinds ["Pod"] } } }`, with a selector or a namespace in it."""
    if not re.match(r"(?:match|exclude)\b", body) or "resources" not in body:
        return
    names = re.search(r"namespaces?[\"']?\s*:?\s*\[?\s*[\"']?([\w-]+)", body)
    if names is not None:
        yield f'for pods where pod.namespace == "{names[1]}"'
    labels = re.search(r"matchLabels[\"']?\s*:?\s*\{?\s*(.+?)\}", body)
    pairs = _OF_SELECTOR.findall(labels[1]) if labels is not None else []
    if pairs:
        where = " && ".join(f"pod.labels[{_text(k)}] == {_text(v)}" for k, v in pairs)
        yield f"for pods where {where}"
    yield "for pods where true"


def _soft_filters(text: str) -> Iterator[str]:
    """`filter "x" best effort weight 10 { require … }`, which is a score."""
    found = re.match(r'filter ("(?:\\.|[^"\\])*")(.*?)\{(.*?)\}\s*\Z', text)
    if found is None:
        return
    outer = re.search(
        r"(?:best effort|preferred|soft)?\s*weight\s+(\d+)|best effort|preferred|soft", found[2]
    )
    inner = re.search(r"\s*(?:best effort(?:\s+weight\s+(\d+))?|preferred|soft)\s*", found[3])
    if outer is None and inner is None:
        return
    chosen = outer or inner
    weight = (chosen[1] if chosen is not None and chosen[1] else None) or "10"
    condition = found[3] if inner is None else found[3][: inner.start()] + found[3][inner.end() :]
    condition = re.sub(r"^\s*require\b", "", condition)
    yield f"score {found[1]} weight {weight} {{ value {condition.strip()} }}"


def _pods_on_nodes(text: str) -> Iterator[str]:
    """`limit "x" { per node at most 1 on nodes where … strict }`: a filter in a `when`."""
    found = re.search(
        r"\s*\b(?:on\s+)?nodes\s+where\s+(.+?)(?=\s+(?:strict|best|message|detail|per|at)\b|\s*\}\s*\Z)",
        text,
    )
    if found is None or not text.startswith("limit"):
        return
    rest = text[: found.start()] + text[found.end() :]
    bound = re.search(r"per node at most (\d+)", rest)
    if bound is not None:
        amount = f"{found[1]} ? {bound[1]} : 1000"
        yield rest.replace(bound[0], f"per node at most {amount}")


def _bare_labels(text: str) -> Iterator[str]:
    """`pods where app == "db"` and `pods where labels.app == "db"`, without the pod."""
    found = re.match(r"(limit|for|share)\b.*?\bpods where\s+", text)
    if found is None:
        return
    head, rest = text[: found.end()], text[found.end() :]
    owner = "pod" if found[1] == "for" else "peer"
    label = re.match(r"(?:labels\.)?([A-Za-z][\w-]*)\s*(==|!=)\s*(\"[^\"]*\")", rest)
    if label is not None and label[1] not in ("pod", "peer", "node", "now"):
        yield f'{head}{owner}.labels["{label[1]}"] {label[2]} {label[3]}{rest[label.end() :]}'


def reason(text: str, clause: str) -> str:
    """What a hint adds to a clause, where the change needs a reason."""
    if text.startswith("limit") and " ? " in clause:
        return ": the `when` of a limit reads only the pod, and its bound reads the node"
    return ""


_OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (
    _cases,
    _bare_labels,
    _branches,
    _soft_filters,
    _pods_on_nodes,
)
_OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (
    _nomad,
    _kyverno,
    _topology,
    _selectors,
    _class_ads,
    _counts,
    _select,
)
