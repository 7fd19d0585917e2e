"""Foreign clauses: what other languages write for a clause, as a clause of this language.

Here are the blocks that people paste: selectors, affinities and spread constraints of pods.
Admission policies are in `grammar.syntax.foreign_rules`, `if` and `switch` in
`grammar.syntax.foreign_conditions`, SQL is in `grammar.syntax.foreign_sql`, what other schedulers
write in `grammar.syntax.other_schedulers`, and whole objects in `grammar.syntax.foreign_objects`.
Each reader gets the words of an item and gives whole clauses. Wishes in plain words are in
`grammar.syntax.wishes`, and single words of other languages in `grammar.messages.habits`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.syntax import (
    foreign_conditions,
    foreign_objects,
    foreign_rewrites,
    foreign_rules,
    foreign_scores,
    foreign_sql,
    other_schedulers,
)
from grammar.syntax.foreign_rules import OF_SELECTOR, matched, text_of
from grammar.syntax.unexpected import DOMAINS
from grammar.syntax.wish_parts import negated
from grammar.syntax.wish_words import DENIES, WORKLOADS
from grammar.tree.printer import print_string

_KEY = r"[\"']?(?P<key>[\w./-]+)[\"']?"
_CONDITION_OF_KEY = re.compile(
    rf"key[\"']?\s*[:=]\s*{_KEY}[,\s]+[\"']?operator[\"']?\s*[:=]\s*[\"']?(?P<operator>\w+)[\"']?"
    r"(?:[,\s]+[\"']?values?[\"']?\s*[:=]\s*(?P<values>\[[^\]]*\]|(?:-\s*[\w./-]+\s*)+|[\"'\w./-]+))?"
)
# A requirement of a label selector, as kubectl reads it: `app=web`, `tier in (web, api)`, `!spot`.
_REQUIREMENT = re.compile(
    r"(?P<key>[A-Za-z][\w./-]*)\s*"
    r"(?:(?P<sign>==?|!=)\s*[\"']?(?P<value>[\w.-]+)[\"']?"
    r"|(?P<word>in|notin)\s*\((?P<values>[^()]*)\))"
    r"|!(?P<absent>[A-Za-z][\w./-]*)"
)
# What is only wished for.
_SOFT = re.compile(r"(?i)\bprefer|\bsoft\b|ScheduleAnyway|best effort|\bideally\b")
# What is not to be.
_DENIED = re.compile(rf"(?i)\A\s*{DENIES}\b|\b(?:unless|except|not on)\b")
_TWICE_DENIED = re.compile(
    r"(?i)\bdeny\b.*\b(?:NotIn|NotEquals|DoesNotExist)\b|"
    r"\bforbid\b.*\bunless\b|\bunless\b[^{}]*[{:]\s*(?:return\s+)?(?:reject|deny|false)\b"
)
_READ = re.compile(r"\b(?:node|pod|peer|victim|namespaceObject)\.([A-Za-z]\w*)")
_NUMBER = re.compile(r"(?<![\w.:-])\d+(?![\w.]*[:.]\d|\s*%|\s*percent\b)(?!\d)")
# What leaves out the number that it names.
_OPEN = re.compile(
    r"(?i)[<>](?!=)|\b(?:fewer|less|more|below|above|under|over|never|not|no|avoid)\b"
)
_WEIGHT = re.compile(r"\bweight[\"']?\s*[:=]?\s*\d+")
_ORDERED = re.compile(r"(?i)select\b.*\border by\b")
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_TEXT_OR_SNAKE = re.compile(
    _TEXT.pattern + r"|\b(?:topology|max|when|node|pod|match|label|required|preferred)_[a-z_]+\b"
    r"(?=\s*[=:{\[])"
)


def clauses(text: str, body: str) -> Iterator[str]:
    """The clauses that may be meant by an item, the likeliest first.

    `text` is the whole item on one line, `body` what of it stands in a clause of this language.
    """
    if (parts := foreign_objects.inside(text)) is not None:
        made = [next(clauses(part, part), None) for part in parts]
        yield from [" ".join(filter(None, made))] if made and all(made) else []
        return
    written = text
    text, body = _TEXT_OR_SNAKE.sub(_in_camel, text), _TEXT_OR_SNAKE.sub(_in_camel, body)
    for read in _OF_ITEMS:
        yield from read(text)
    for read in _OF_BODIES:
        yield from read(body)
    yield from foreign_objects.keyed(written)


def _in_camel(found: re.Match[str]) -> str:
    """`topology_key`, as Terraform writes it, as the field of Kubernetes; texts as they are."""
    if found[0].startswith('"'):
        return found[0]
    first, *rest = found[0].split("_")
    return first + "".join(map(str.capitalize, rest))


def keeps_meaning(text: str, clause: str) -> bool:
    """Whether a clause still says what an item said: what it reads, what it denies, how strictly.

    A clause that drops a condition, or turns it round, is another wish.
    """
    if (parts := foreign_objects.inside(text)) is not None:
        text = " ".join(parts)
    if re.match(r'(?:limit|share|spread) "', text) and clause.startswith(("filter ", "score ")):
        return False
    # What a query selects is not read, and Swarm has other names.
    read = re.sub(r"(?i)\bnode\.name(?=\s+(?:not\s+)?in\s*\(\s*select\b)", "", text)
    read = re.sub(r"\bnode\.(?:hostname|role|id|platform\.\w+)\b(?=\s*[=!]=)", "", read)
    reads = _READ.findall(_TEXT.sub('""', read))
    if not all(re.search(rf"(?i)\b{name}\b", clause) for name in reads):
        return False
    if not _has_texts(text, clause):
        return False
    plain = _WEIGHT.sub("", _TEXT.sub('""', text))
    # Times of a clock are hours of a day, and ratios percentages.
    plain = re.sub(r"(?i)\b\d+\s*[ap]m\b|\b\d+ (?:out )?of \d+\b", "", plain)
    # A pod goes to one node.
    plain = re.sub(r"\btop \d+ by\b", "", plain)
    plain = re.sub(r"(?i)\blimit 1\s*\Z", "", plain) if _ORDERED.match(plain) else plain
    is_open = _OPEN.search(plain) is not None
    if not all(_has_number(int(n), clause, is_open) for n in _NUMBER.findall(plain)):
        return False
    for part in re.findall(r"\d+(?=\s*(?:%|percent\b))", plain):
        # 20% free are 80% in use.
        both = (f"{part}%", f"{part} / 100", f"{int(part) / 100:g}", f"{(100 - int(part)) / 100:g}")
        if not any(said in clause for said in both):
            return False
    for part in re.findall(r"(?<![\w.])\d*\.\d+(?![\w.])", plain):
        if part not in clause and f"{float(part) * 100:g}%" not in clause:
            return False
    if re.search(r"\bthen\b", plain) and not re.search(r"\bwhen\b|\?|\|\|", clause):
        # What stands before `then` is a condition.
        return False
    if _SOFT.search(text) and not re.search(r"\bbest effort\b|\Ascore\b|\{ score\b", clause):
        return False
    if _TWICE_DENIED.search(text):
        return True
    denies = r"!|\bat most 0\b|\b1 \.\. 0\b|\bweight -"
    # What is not to be more is less.
    turned = {
        r"<": r"\bmore\b|\babove\b|\bover\b|>",
        r">": r"\bless\b|\bfewer\b|\bbelow\b|\bunder\b|<",
    }
    denies = "|".join([denies, *(sign for sign, said in turned.items() if re.search(said, text))])
    return not _DENIED.search(text) or re.search(denies, clause) is not None


def _has_texts(text: str, clause: str) -> bool:
    """Whether a clause has the first label of each `matchLabels`, and the value of `app=web`."""
    values = re.findall(r"matchLabels\W{1,4}[\w./-]+\W{1,4}(\w[\w.-]*)", text)
    values += re.findall(r"(?<=ffinity )[a-z]\w*=([a-z]\w*)", text)
    return all(value in clause for value in values)


def _has_number(number: int, clause: str, is_open: bool) -> bool:
    """Whether a number of an item is in a clause; `< 3` is `at most 2`, and 00 minutes are none."""
    said = {int(n) for n in re.findall(r"\d+", clause)}
    near = {number - 1, number, number + 1} if is_open else {number}
    return number == 0 or bool(said & near)


def of_key(key: str, operator: str, values: list[str], owner: str = "node") -> str | None:
    """The condition of a `matchExpressions`: `key: disktype, operator: In, values: [ssd]`."""
    key = re.sub(r"\A(?:(?:pod|node|peer)\.)?(?:metadata\.)?labels\.", "", key)
    known = DOMAINS.get(key) if owner == "node" else None
    read = known or f"{owner}.labels[{print_string(key)}]"
    texts = [text_of(v) for v in values]
    match operator.lower():
        case "in" if len(texts) == 1:
            return f"{read} == {texts[0]}"
        case "in" if texts:
            return f"{read} in [{', '.join(texts)}]"
        case "notin" if texts:
            optional = f'{owner}.labels[?{print_string(key)}].orValue("")'
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


def of_keys(body: str, owner: str = "node") -> str | None:
    """The conditions of `matchExpressions`; of several terms of a node selector one must hold."""
    terms = re.split(r"(?=matchExpressions)", body) if "nodeSelectorTerms" in body else [body]
    made = []
    for term in terms:
        keys = [
            of_key(m["key"], m["operator"], re.findall(r"[\w./-]*\w", m["values"] or ""), owner)
            for m in _CONDITION_OF_KEY.finditer(term)
        ]
        if None in keys:
            return None
        made += [" && ".join(filter(None, keys))] if keys else []
    made = [f"({each})" if "&&" in each and len(made) > 1 else each for each in made]
    return " || ".join(made) or None


def _selectors(body: str) -> Iterator[str]:
    """`nodeSelector: disktype: ssd`, and the `matchExpressions` of a node affinity."""
    body = re.split(r"(?<!\A)\b(?:tolerations|containers|restartPolicy|volumes)[\"']?\s*:", body)[0]
    if re.search(r"topologyKey|podAffinity|podAntiAffinity|maxSkew|tolerat|\beffect\b", body):
        return
    if re.match(r"for\b|(?:pod|label|namespace)Selector\b", body):
        return
    terms = re.split(r"(?=\bweight\b)", body) if body.count("matchExpressions") > 1 else [body]
    if _SOFT.search(body) and len(terms) > 2:
        each = [next(_selectors(f"prefer {term}"), "") for term in terms[1:]]
        yield _numbered(each)
        return
    keys = of_keys(body)
    if keys is not None and _SOFT.search(body):
        weight = re.search(r"weight[\"']?\s*[:=]\s*(\d+)", body)
        yield f'score "nodes" weight {weight[1] if weight else 10} {{ value {keys} }}'
        return
    if keys is not None:
        yield f'filter "nodes" {{ require {keys} }}'
        return
    selector = re.search(r"(?:nodeSelector|matchLabels)\b[\"']?\s*[:=]?\s*\{?\s*(.+)\Z", body)
    if selector is None:
        return
    pairs = OF_SELECTOR.findall(selector[1])
    if pairs:
        conditions = (of_key(key, "In", [value]) or "" for key, value in pairs)
        yield f'filter "nodes" {{ require {" && ".join(conditions)} }}'


def _numbered(each: list[str]) -> str:
    """Clauses of one name with a number in the names from the second on."""
    return " ".join(c.replace('" ', f' {n}" ', 1) if n > 1 else c for n, c in enumerate(each, 1))


def _topology(body: str) -> Iterator[str]:
    """`maxSkew: 1 topologyKey: … whenUnsatisfiable: DoNotSchedule`, and pod (anti-)affinity."""
    key = re.search(r"topologyKey[\"']?\s*[:=]?\s*[\"']?([\w./-]+)", body)
    if key is None:
        return
    parts = [
        p for p in re.split(r"(?:\s-\s|\}\s*,\s*\{)(?=\W*maxSkew)", body) if "topologyKey" in p
    ]
    if len(parts) > 1:
        yield _numbered([next(_topology(part), "") for part in parts])
        return
    domain = DOMAINS.get(key[1], f"node.labels[{print_string(key[1])}]")
    domain = key[1] if key[1].startswith("node.") else domain
    is_soft = re.search(r"ScheduleAnyway|preferredDuring", body) is not None
    weight = re.search(r"weight[\"']?\s*[:=]?\s*(\d+)", body)
    soft = f"best effort weight {weight[1] if weight is not None else 10}"
    strength = soft if is_soft else "strict"
    labels = re.search(
        r"(?:matchLabels|labelSelector(?!\W+match))[\"']?\s*[:=]?\s*\{?\s*(.+?)(?:\}|topologyKey|\Z)",
        body,
    )
    pairs = OF_SELECTOR.findall(labels[1]) if labels is not None else []
    where = " && ".join(f"peer.labels[{text_of(k)}] == {text_of(v)}" for k, v in pairs)
    where = where or of_keys(body, "peer") or ""
    spaces = re.search(r"namespaces[\"']?\s*:\s*\[([^\]]*)\]", body)
    if spaces is not None and where:
        where += f" && peer.namespace in [{', '.join(map(text_of, spaces[1].split(',')))}]"
    counted = f"{'all ' * (spaces is not None)}pods where {where} " if where else ""
    skew = re.search(r"maxSkew[\"']?\s*[:=]?\s*(\d+)", body)
    if skew is not None:
        least = re.search(r"minDomains[\"']?\s*[:=]?\s*(\d+)", body)
        domains = f" min domains {least[1]}" if least is not None else ""
        bound = f"skew at most {skew[1]}{domains} {strength}"
        yield f'spread "topology" {{ {counted}over {domain} {bound} }}'
        return
    per = "node" if domain == "node.name" else f"domain {domain}"
    if re.search(r"podAffinity", body) and not re.search(r"podAntiAffinity", body):
        needed = "strict" if re.search(r"requiredDuring", body) and not is_soft else soft
        yield f'limit "near" {{ {counted}per {per} at least 1 {needed} }}'
    elif where:
        yield f'limit "apart" {{ {counted}per {per} at most 0 {strength} }}'
        yield f'limit "apart" {{ {counted}per {per} at most 1 {strength} }}'
    else:
        yield f'limit "apart" {{ per {per} at most 1 {strength} }}'


def _whole_numbers(text: str) -> Iterator[str]:
    """`x in range(9, 17)` of Python and `x in [22..6]`: between two numbers."""
    found = re.search(r"(\S+) in (?:range\((\d+), ?(\d+)\)|\[(\d+) ?\.\. ?(\d+)\])", text)
    if found is not None:
        low, high = found[2] or found[4], found[3] or found[5]
        sign, joins = "<" if found[2] else "<=", "&&" if int(low) < int(high) else "||"
        made = f"{found[1]} >= {low} {joins} {found[1]} {sign} {high}"
        yield f"{text[: found.start()]}{made}{text[found.end() :]}"


def _doubled(text: str) -> Iterator[str]:
    """`spread "x" { over node.name and node.zone … }` and `between 20% and 40%`: two clauses."""
    found = re.search(r"\bover (node\.\S+?)(?: and |, ?)(node\.\S+)", text)
    bounds = re.search(
        r"\b(?:between|from|min|minimum|at least) (\d+%),? (?:and |to )?"
        r"(?:max |maximum |at most )?(\d+%)",
        text,
    )
    made = (f"over {found[1]}", f"over {found[2]}") if found is not None else ()
    if bounds is not None and text.startswith("share"):
        found, made = bounds, (f"at least {bounds[1]}", f"at most {bounds[2]}")
    named = re.match(r'(\w+ "[^"]*)"', text)
    if found is not None and named is not None:
        rest = text[named.end() : found.start()], text[found.end() :]
        names = ('"', ' 2"')
        yield " ".join(
            f"{named[1]}{name}{rest[0]}{each}{rest[1]}"
            for name, each in zip(names, made, strict=True)
        )


def _counts(body: str) -> Iterator[str]:
    """`count(pods) < 3`, `pods.size() <= 3`: pods are counted by a limit."""
    found = re.match(
        r"(?i)(?:having\s+)?(?:(?:count|size|len|sum|length)\(\s*(?:pods|\*)\s*\)|pods\.(?:count|size|length|len)(?:\(\))?)"
        r"\s*(<=|<|==)\s*(\d+)\Z",
        body,
    )
    if found is not None:
        most = int(found[2]) - (found[1] == "<")
        yield f'limit "at most {most} per node" {{ per node at most {most} strict }}'
    domains = re.match(
        r"(?i)(?:count|size)\(\s*distinct (node\.[\w.]+)\s*\)\s*(>=?)\s*(\d+)\Z", body
    )
    if domains is not None:
        least = int(domains[3]) + (domains[2] == ">")
        yield f'spread "domains" {{ over {domains[1]} skew at most 1 min domains {least} strict }}'


_KINDS_OF_RECORDS = {"node": "Node", "pod": "Pod", "peer": "Peer", "str": "string"}


def _functions(text: str) -> Iterator[str]:
    """`function isSpot(node) { return … }` and `fn is_spot(n: Node) -> bool { … }`: a `def`."""
    found = re.fullmatch(
        r"(?:function|func|fn|fun|def|macro)\s+(?P<name>[A-Za-z_]\w*)\s*\(\s*(?P<item>\w+)(?:\s*:?\s*\*?(?P<kind>\w+))?\s*\)"
        r"\s*(?:(?:->|:)?\s*\w+\s*)?\{\s*(?:return\s+)?(?P<said>[^{};]+?)\s*;?\s*\}",
        text,
    )
    found = found or re.fullmatch(
        r"(?P<name>[a-z]\w*)\((?P<item>\w+)(?P<kind>)\)(?: :?= true| if)? \{ ?"
        r"(?P<said>[^{};]+?) ?\}",
        text,
    )
    found = found or re.fullmatch(
        r"(?:const|let|var) (?P<name>\w+) = \(?(?P<item>\w+)(?::? ?(?P<kind>\w+))?\)? => "
        r"(?P<said>[^{};]+)",
        text,
    )
    if found is None:
        return
    item, kind = found["item"], found["kind"] or ""
    record = _KINDS_OF_RECORDS.get(item, _KINDS_OF_RECORDS.get(kind.lower(), kind or "Node"))
    name = "n" if item == "node" else "p" if item == "pod" else item
    said = re.sub(rf"(?<![\w.\"]){item}(?=[.\[])", name, found["said"])
    yield f"def {found['name']}({name}: {record}): bool = {said}"


def _each_node(text: str) -> Iterator[str]:
    """`for node in nodes { require node.ready }`: a filter is about each node."""
    found = re.fullmatch(
        r"for (?:each |every |all )?(\w+) in (?:all )?nodes ?[:{] ?(?:require |if )?([^{}]+?) ?\}?",
        text,
    )
    if found is not None:
        said = re.sub(rf"(?<![\w.\"]){found[1]}(?=[.\[])", "node", found[2])
        yield f'filter "nodes" {{ require {said} }}'


def _unbraced(text: str) -> Iterator[str]:
    """`filter "x" require node.ready` and `filter "x" = node.ready`, without a block."""
    sign = r"(?::|=>?|->|where|if|is)"
    plain = re.fullmatch(rf'((filter|score) "[^"]*"(?: weight \d+)?) ?{sign} ([^{{}}]+)', text)
    if plain is not None and not re.search(r"\b(?:require|value|then)\b", plain[3]):
        part = "require" if plain[2] == "filter" else "value"
        yield f"{plain[1]} {{ {part} {plain[3]} }}"
    bare = re.fullmatch(r'(score "[^"]*" weight -?\d+) ((?:node|pod)\.[^{}]+)', text)
    if bare is not None:
        yield f"{bare[1]} {{ value {bare[2]} }}"
    # The parts of a call.
    called = re.fullmatch(r'(\w+)\(("[^"]*")((?:, ?\w+ ?[=:] ?[^,(){}]+)*)\) (\{.*\})', text)
    if called is not None:
        parts = re.sub(r", ?(\w+) ?[=:] ?", r" \1 ", called[3])
        yield f"{called[1]} {called[2]}{parts} {called[4]}"
    found = re.fullmatch(
        r"(\w+ \"[^\"]*\"(?: weight \d+)?) ((?:require|value|per|over|of)\b[^{}]+)", text
    ) or re.fullmatch(r"(\w+ \"[^\"]*\"(?: weight \d+)?) (require|value) \{([^{}]+)\}", text)
    if found is not None:
        said = " ".join(filter(None, found.groups()[1:]))
        parts = re.sub(r"\b(require|value|message|detail|per|over|of)\s*:\s*", r"\1 ", said)
        yield f"{found[1]} {{ {parts} }}"


def _pod_fields(body: str) -> Iterator[str]:
    """`nodeName: worker-1` and other fields of a pod with a plain value."""
    found = re.fullmatch(r"([a-z][A-Za-z]+)\s*(?:==?|:)\s*[\"']?([\w.-]+)[\"']?", body)
    others = ("name", "id", "enabled", "active", "kind", "version", "apiVersion")
    if found is None or found[1] in others:
        return
    if found[1] in ("nodeName", "node", "host", "hostname"):
        yield f'filter "node" {{ require node.name == "{found[2]}" }}'
    else:
        if found[2] in ("true", "false"):
            yield f"for pods where {'!' * (found[2] == 'false')}pod.spec.{found[1]}"
        yield f'for pods where pod.spec.{found[1]} == "{found[2]}"'
        yield f'for pods where pod.{found[1]} == "{found[2]}"'


def _label_selectors(text: str) -> Iterator[str]:
    """`for pods where app=web`, `"tier in (web, api)"` and `matchLabels { app: web }`."""
    text = re.sub(r"\Afor (?:all )?pods?\.(?=\w)", "for pods where pod.", text)
    text = re.sub(
        r"\bpods (?=(?:matchLabels|matchExpressions|labels|labelSelector|selector)\b)"
        r"|(?<=\{ )(?:labelSelector|podSelector|selector) ?:? ?(?=\{)"
        r"|\bpods (?:with|having) (?:labels? )?(?=[\w./-]+ ?(?:[:=]|(?:not)?in ?\())",
        "pods where ",
        text,
    )
    found = re.match(r"((?:for|limit|share|spread)\b.*?\bpods where)\s+(.+)\Z", text)
    if found is None:
        yield from _selected(text)
        return
    owner = "pod" if text.startswith("for") else "peer"
    said, rest = found[2], ""
    if (keys := of_keys(said, owner)) is not None:
        end = said.rfind("]") + 1
        yield f"{found[1]} {keys}{said[end:].lstrip(' }])')}"
        return
    labels = re.match(r"(?:matchLabels|labels|\w*[sS]elector)?\s*[:=]?\s*\{\s*(.+?)\s*\}+", said)
    if labels is not None:
        made = [of_key(k, "In", [v], owner) or "" for k, v in OF_SELECTOR.findall(labels[1])]
        rest = said[labels.end() :]
    else:
        quoted = re.match(r"\"([^\"]+)\"", said)
        inner = quoted[1] if quoted is not None else said
        made, end = [], 0
        while (each := _REQUIREMENT.match(inner, end)) is not None:
            if each["key"] is not None and re.fullmatch(r"[a-z]+[A-Z]\w*", each["key"]):
                # A field of Kubernetes.
                return
            made.append(_required(each, owner))
            end = each.end()
            comma = re.compile(r"\s*(?:,|\band\b|&&)\s*").match(inner, end)
            end = comma.end() if comma is not None else end
            if comma is None:
                break
        rest = said[quoted.end() :] if quoted is not None else inner[end:]
    if made:
        yield f"{found[1]} {' && '.join(made)}{rest}"


def _selected(text: str) -> Iterator[str]:
    """`for namespace "shop"`, `for pods of team "a"`, `selector: matchLabels: app: web`."""
    pasted = re.fullmatch(
        r"(?:(?:podSelector|selector|labelSelector)\s*:?\s*)?\{?\s*(?:matchLabels|labels)?\s*:?\s*\{?\s*"
        r"((?:[\w./-]+\s*:\s*[\"']?[\w.-]+[\"']?[,\s]*)+?)\s*\}*",
        text,
    )
    if re.match(r"podSelector\b|labelSelector\b", text) and (keys := of_keys(text, "pod")):
        yield f"for pods where {keys}"
    of_annotation = re.fullmatch(
        r"annotations\s*:\s*\{?\s*([\w./-]+)\s*:\s*[\"']?([\w.-]+)\W*", text
    )
    if of_annotation is not None:
        key, value = map(print_string, of_annotation.groups())
        yield f"for pods where pod.annotations[{key}] == {value}"
    if pasted is not None and re.match(
        r"podSelector|selector|labelSelector|matchLabels|labels", text
    ):
        made = [of_key(k, "In", [v], "pod") or "" for k, v in OF_SELECTOR.findall(pasted[1])]
        yield f"for pods where {' && '.join(made)}"
    words = re.fullmatch(
        r"for (?:all )?(?:pods )?(?:(?:of|in|with|from|having|labell?ed|(?:that|which) have) )?"
        r"(?:the )?(?:labels? )?"
        r"(?P<key>(?!(?:pods?|all|every|any|each)\b)[\w./-]+)\s*[=:]*\s*[\"']?(?P<value>[\w.-]+)[\"']?",
        text,
    )
    kinds = {f"{kind.lower()}s": kind for kind in WORKLOADS}
    of_kind = re.fullmatch(
        r"for (?:all )?(\w+)(?: (?:where )?(?:name|named|called)(?: ?==? ?| )\"?([\w.-]+)\"?)?"
        r"(?: in (?:the )?(?:namespace|ns) \"?([\w-]+)\"?)?",
        text,
    )
    called = re.fullmatch(
        r"for (?:all )?pods (?:named|called|with (?:the )?name|whose name is) \"?([\w.*?-]+)\"?",
        text,
    )
    other = re.fullmatch(r"for pods (?:not|except|excluding|unless|outside)(?: in)? (.+)", text)
    listed = re.fullmatch(r"for (?:all )?(?:pods )?(?:in )?namespaces? (?:in )?(\[[^\]]*\])", text)
    if re.fullmatch(r"for (?:all|every|any|each) pods?", text):
        yield "for pods where true"
    elif of_kind is not None and of_kind[1].lower() in kinds:
        named = f' && pod.workload.name == "{of_kind[2]}"' if of_kind[2] else ""
        within = f' && pod.namespace == "{of_kind[3]}"' if of_kind[3] else ""
        yield f'for pods where pod.workload.kind == "{kinds[of_kind[1].lower()]}"{named}{within}'
    elif called is not None:
        yield f"for pods where {matched('pod.name', called[1])}"
    elif other is not None:
        found = next(_selected(f"for pods {other[1]}"), f"for pods where {other[1]}")
        said = found.removeprefix("for pods where ")
        yield f"for pods where {negated(said)}"
    elif listed is not None:
        yield f"for pods where pod.namespace in {listed[1]}"
    elif words is not None and words["value"].lower() in kinds:
        # `for batch jobs`
        yield f'for pods where pod.workload.kind == "{kinds[words["value"].lower()]}"'
    elif words is not None and f"{words['key'].lower()}s" in kinds:
        kind = kinds[f"{words['key'].lower()}s"]
        named = f'pod.workload.name == "{words["value"]}"'
        yield f'for pods where pod.workload.kind == "{kind}" && {named}'
    elif words is not None and words["key"] in ("namespace", "ns"):
        yield f'for pods where pod.namespace == "{words["value"]}"'
    elif words is not None:
        if re.search(r"[a-z][A-Z]", words["key"]):
            for holder in ("spec.", "status.", ""):
                yield f"for pods where pod.{holder}{words['key']} == {text_of(words['value'])}"
        yield f"for pods where {of_key(words['key'], 'In', [words['value']], 'pod')}"


def _uses(text: str) -> Iterator[str]:
    """`use "library/x" with zone = "a"`: parameters stand in brackets."""
    found = re.fullmatch(r'use ("[^"]*") (?:with )?(\w+ ?[:=].+)', text)
    if found is not None:
        yield f"use {found[1]} ({re.sub(r'(?<=[a-z_]) ?[:=] ?', ': ', found[2])})"


def _required(found: re.Match[str], owner: str) -> str:
    """The condition of one requirement of a label selector."""
    if found["absent"]:
        return f"!has({owner}.labels[{print_string(found['absent'])}])"
    if found["word"]:
        values = re.findall(r"[\w.-]+", found["values"])
        operator = "In" if found["word"] == "in" else "NotIn"
        return of_key(found["key"], operator, values, owner) or "false"
    made = of_key(found["key"], "In", [found["value"]], owner) or "false"
    return made.replace("==", "!=") if found["sign"] == "!=" else made


def _joined_conditions(text: str) -> Iterator[str]:
    """`filter "x" { any { a b } }` and `all: [a, b]`: conditions with a sign between them."""
    found = re.fullmatch(
        r"(filter \"[^\"]*\"[^{}]*)\{ ?(?:require )?"
        r"(any|all|or|and|anyOf|allOf|none|match|conditions?) ?[:=]? ?[\[({] ?(.+?) ?[\])}] ?\}",
        text,
    )
    if found is None:
        return
    said = found[3].strip()
    parts = re.split(r"\s*[,;]\s*|(?<![&|=<>!+*/(-])\s+(?=!?\(?(?:node|pod)\.)", said)
    parts = [re.sub(r"(?<=[\w\]])\s*:\s*(?=[\"'])", " == ", part) for part in parts if part]
    sign = " || " if found[2] in ("any", "or", "anyOf", "none") else " && "
    made = sign.join(parts)
    made = f"!({made})" if found[2] == "none" else made
    yield f"{found[1]}{{ require {made} }}"


def pods_on_nodes(text: str) -> Iterator[str]:
    """`limit "x" { per node at most 1 on nodes where … strict }`: a filter in a `when`."""
    found = re.search(
        r"\s*\b(?:(?:on\s+)?nodes\s+where|where(?=\s+node\.))\s+(.+?)(?=\s+(?:strict|best|message|detail|per|at)\b|\s*\}\s*\Z)",
        text,
    )
    if found is None or not text.startswith("limit"):
        return
    rest = text[: found.start()] + text[found.end() :]
    bound = re.search(r"(per node) at most (\d+)", rest)
    of_all = re.search(r"per cluster\s+", rest)
    domain = re.search(
        r"per domain (node\.(?:zone|region|labels\[\"[^\"]+\"\])) at most (\d+)", rest
    )
    if of_all is not None:
        # The pods on some nodes are a share, whose bound may be a number, too.
        counted = "" if re.search(r"\bpods where\b", rest) else "of replicas "
        made = re.sub(r"\A(limit \"[^\"]*\" \{ ?)", r"\1" + counted, rest.replace(of_all[0], ""))
        made = re.sub(r"\b((?:all )?pods where)", r"of \1", made) if not counted else made
        split = re.search(r"\bat most\b", made)
        if split is not None:
            head, tail = made[: split.start()].rstrip(), made[split.start() :]
            yield f"share{head.removeprefix('limit')} on nodes where {found[1]} {tail}"
    elif domain is not None:
        place = f'{found[1]} ? {domain[1]} : "elsewhere"'
        amount = f'domain == "elsewhere" ? 100000 : {domain[2]}'
        yield rest.replace(domain[0], f"per domain {place} at most {amount}")
    elif bound is not None:
        amount = f"{found[1]} ? {bound[2]} : 1000"
        yield rest.replace(bound[0], f"{bound[1]} at most {amount}")


def _selector_of_share(text: str) -> Iterator[str]:
    """`share "x" { of replicas nodeSelector: { disktype: ssd } … }`: `on nodes where`."""
    found = re.search(
        r"(?:\bon\s+)?\bnodeSelector\s*[:=]?\s*\{?\s*(?:matchLabels\s*:?\s*\{?\s*)?"
        r"((?:[\"']?[\w./-]+[\"']?\s*[:=]\s*[\"']?[\w.-]+[\"']?[,\s]*)+)\}*",
        text,
    )
    if found is not None and text.startswith("share"):
        made = [of_key(k, "In", [v]) or "" for k, v in OF_SELECTOR.findall(found[1])]
        rest = text[found.end() :].strip()
        yield f"{text[: found.start()]}on nodes where {' && '.join(made)} {rest}"


def _bare_labels(text: str) -> Iterator[str]:
    """`pods where app == "db"` and `pods where labels.app == "db"`, without the pod."""
    found = re.match(r"(limit|for|share)\b.*?\bpods where\s+", text)
    if found is None:
        return
    head, rest = text[: found.end()], text[found.end() :]
    owner = "pod" if found[1] == "for" else "peer"
    label = re.match(
        r"(?:labels\.|labels\[\")?([A-Za-z][\w-]*)(?:\"\])?\s*(==|!=)\s*(\"[^\"]*\")", rest
    )
    # A word in camel case is a field of Kubernetes.
    is_field = label is not None and re.search(r"[a-z][A-Z]", label[1])
    if label is not None and not is_field and label[1] not in ("pod", "peer", "node", "now"):
        yield f'{head}{owner}.labels["{label[1]}"] {label[2]} {label[3]}{rest[label.end() :]}'


def reason(text: str, clause: str) -> str:
    """What a hint adds to a clause, where the change needs a reason."""
    if re.fullmatch(r"[\w./-]+\s*[:=]\s*[\w\".-]+", text) and "node.labels[" in clause:
        return ", if it is a label of the nodes"
    of_nodes = re.search(r"require (node\.labels.+?) \}", clause)
    if of_nodes is not None and re.search(r"\A(?:filter .*?)?matchLabels\b", text):
        where = of_nodes[1].replace("node.", "pod.")
        return f", or `for pods where {where}` if the labels are those of pods"
    is_apart = re.search(r"(?i)topologyKey|anti[\s_-]?affinity|\bpods where\b", text)
    if is_apart and "pods where" in clause and "at most 0" in clause:
        return ", or `at most 1` if the label is that of the pods themselves"
    if text.startswith("limit") and '"elsewhere"' in clause:
        return ": the domain reads the node, and its bound reads the domain"
    if text.startswith("limit") and clause.startswith("share"):
        return ": a share counts the pods on some of the nodes"
    if text.startswith("limit") and " ? " in clause:
        return ": the `when` of a limit reads only the pod, and its bound reads the node"
    return ""


_OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (
    *other_schedulers.OF_ITEMS,
    *foreign_objects.OF_ITEMS,
    *foreign_rules.OF_ITEMS,
    *foreign_sql.OF_ITEMS,
    _bare_labels,
    _label_selectors,
    _uses,
    *foreign_conditions.OF_ITEMS,
    *foreign_scores.OF_ITEMS,
    _unbraced,
    _functions,
    _each_node,
    *foreign_rewrites.OF_ITEMS,
    _whole_numbers,
    _doubled,
    _joined_conditions,
    pods_on_nodes,
    _selector_of_share,
)
_OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (
    *other_schedulers.OF_BODIES,
    *foreign_rules.OF_BODIES,
    _pod_fields,
    _topology,
    _selectors,
    _counts,
    *foreign_sql.OF_BODIES,
    *foreign_objects.OF_BODIES,
)
