"""Foreign objects: whole objects and blocks of other tools, as clauses of this language.

A part of the foreign clauses: a ResourceQuota, tests of Go templates, selections of jq, functions
of Python, blocks of Terraform and Nomad, and clauses that are written as JSON, YAML or calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from grammar.messages import habits
from grammar.syntax import foreign_conditions
from grammar.syntax.foreign_rules import OF_SELECTOR, value_of
from grammar.syntax.unexpected import DOMAINS, ITEMS, rooted
from grammar.syntax.unexpected import PARTS as PARTS_HERE
from grammar.syntax.wish_words import STATES
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


def _scopes(body: str) -> Iterator[str]:
    """`scopeSelector: … operator: In scopeName: PriorityClass values: ["high"]` of a quota."""
    found = re.search(r"scopeName\s*:\s*PriorityClass\s*values\s*:\s*(\[[^\]]*\])", body)
    if found is not None:
        yield f"for pods where pod.spec.priorityClassName in {value_of(found[1])}"


# ---- Go templates, jq and Python

_GO_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_GO_CALLS = {
    **{name: f"{{0}} {sign} {{1}}" for name, sign in _GO_SIGNS.items()},
    "not": "!({0})",
    "index": "{0}[{1}]",
    "hasKey": "{1} in {0}",
    "hasPrefix": "{1}.startsWith({0})",
    "hasSuffix": "{1}.endsWith({0})",
    "contains": "{1}.contains({0})",
    "regexMatch": "{1}.matches({0})",
}
_GO_WORD = re.compile(r"[()]|\"[^\"]*\"|(?:[^\s()\"{}]|\[\"[^\"]*\"\])+")
_GO_TEST = re.compile(
    rf"\b(?:require|value|when|if) (\(*(?:and|or|{'|'.join(n for n in _GO_CALLS if n != 'not')})"
    r" [(\"$.\w][^{}]*?)(?=\s*(?:-?\}|\{|\bmessage\b|\Z))"
)


def _go_term(words: list[str]) -> str:
    """The first operand of some words, which are used up."""
    word = words.pop(0) if words else ""
    if word == "(":
        made = _go_call(words)
        del words[:1]
        return f"({made})" if " " in made else made
    if word.startswith((".", "$")):
        return ".".join(n[:1].lower() + n[1:] for n in word.lstrip("$").split(".") if n)
    return word


def _go_call(words: list[str]) -> str:
    """A function with its operands, which stand behind it, or an operand alone."""
    name = words[0] if words else ""
    if name not in ("and", "or") and name not in _GO_CALLS:
        return _go_term(words)
    operands = list[str]()
    del words[0]
    most = 1 if name == "not" else 2 if name in _GO_CALLS else len(words)
    while words and words[0] != ")" and len(operands) < most:
        operands.append(_go_term(words))
    if name in ("and", "or"):
        sign = " && " if name == "and" else " || "
        return sign.join(each.strip("()") if "||" not in each else each for each in operands)
    is_turned = name in ("contains", "hasPrefix", "hasSuffix") and operands[-1:][0][:1] == '"'
    operands = operands[::-1] if is_turned and operands[0][:1] != '"' else operands
    return _GO_CALLS[name].format(*operands, "", "")


def _go_tests(text: str) -> Iterator[str]:
    """`require and (eq .Node.Zone "a") .Node.Ready`: in Go templates the operator stands first."""
    found = _GO_TEST.search(text)
    if found is not None:
        words = _GO_WORD.findall(found[1])
        made = " ".join([_go_call(words), *words])
        if not words or words[0] in ("==", "!=", "&&", "||", ">", "<", ">=", "<="):
            yield f"{text[: found.start(1)]}{made}{text[found.end(1) :]}"


def _selections(text: str) -> Iterator[str]:
    """`node.pods[] | select(.labels.app == "db") | length` and `any(.a[]; .b)` of jq."""
    is_all = re.search(r"\ball\(\.?[\w.]+\[\]", text) is not None
    text = re.sub(
        r"\b(?:any|all)\((\.?[\w.]+)\[\]\s*;\s*((?:[^()]|\([^()]*\))*)\)",
        r"\1[] | select(\2)",
        text,
    )
    found = re.search(
        r"\[?(\.?(?:[a-z]\w*\.)+\w+)\[\]\s*\|\s*select\(((?:[^()]|\([^()]*\))*)\)\]?\s*(\|\s*length)?",
        text,
    )
    if found is None:
        return
    said = re.sub(r"(?<![\w)\]\"])\.(?=[a-z])", "x.", found[2])
    items = rooted(found[1])
    made = f"{items}.{'all' if is_all else 'exists'}(x, {said})"
    if found[3]:
        made = f"size({items}.filter(x, {said}))"
    yield f"{text[: found.start()]}{made}{' ' if found[3] else ''}{text[found.end() :].lstrip()}"


_OF_NODES = r"(?:free|allocatable|usage|requested|zone|region|ready|pods)"


def _functions(text: str) -> Iterator[str]:
    """`def big(n): return n.free["cpu"] > 32` of Python, and `function filter(node) { … }`."""
    called = re.sub(
        r"\A(?:const|let|var) (\w+) = \(?([\w, ]+)\)? => ", r"def \1(\2): return ", text
    )
    found = re.fullmatch(r"def (\w+)\((\w+)\)\s*(?:->\s*\w+\s*)?:\s*return (.+)", text)
    clause = re.fullmatch(
        r"(?:async )?(?:def|fn|func(?:tion)?) (\w+)\(([^()]*\bnode\b[^()]*)\)[^:{]*[:{] ?"
        r"(?:return ([^{}]+?) ?;? ?\}?|(if\b.+))",
        called,
    )
    verb = re.match(r"(?i)filter|predicate|(score|priorit)", clause[1]) if clause else None
    is_score = verb is not None and verb[1] is not None
    if clause is not None and clause[3] and is_score:
        made = f'score "{clause[1]}" weight 10 {{ value {clause[3]}'
        yield from (f"{made} range minmax }}", f"{made} }}")
    elif clause is not None and clause[3] and (verb is not None or "pod" in clause[2]):
        yield f'filter "{clause[1]}" {{ require {clause[3]} }}'
    elif clause is not None and clause[4] and not is_score:
        # Its brace may be in the words.
        end = " }" * (clause[4].count("}") <= clause[4].count("{"))
        decided = f'filter "{clause[1]}" {{ {clause[4]}{end}'
        yield from (made for read in foreign_conditions.OF_ITEMS for made in read(decided))
    if found is None:
        return
    is_test = re.search(r"[<>]|[=!]=|\b(?:in|has|exists|matches|startsWith)\b", found[3])
    kind = "Node" if re.search(rf"\b{found[2]}\.{_OF_NODES}\b", found[3]) else "Pod"
    kind = kind if re.search(rf"\b{found[2]}\.", found[3]) else "int"
    for result in ("bool",) if is_test else ("int", "double", "string", "quantity"):
        yield f"def {found[1]}({found[2]}: {kind}): {result} = {found[3]}"


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
        pairs = re.findall(r"(\w+)\s*=(?!=)\s*(.+?)(?=\s+\w+\s*=(?!=)|\Z)", held[1])
        yield " ".join(f"let {name} = {value}" for name, value in pairs)


# ---- blocks around others, and keys with a value

# Blocks of Nomad and Kyverno that hold others, and what of them is about no node.
_PAIR = r"[\"']?([A-Za-z][\w./-]*)[\"']?\s*[:=]\s*[\"']?([\w.-]+)[\"']?"
_AROUND = re.compile(r"(?:job|group|task|rules?|spec)\b\s*(?:\"[^\"]*\"|\w+)?\s*\{\s*(.*)\}\Z")
_OF_JOB = (
    "task driver config env network service restart update reschedule volume template count type"
    " priority meta periodic migrate vault resources logs ephemeral_disk name region namespace"
).split()
_ENTRY = re.compile(
    r"\s*(?P<word>[A-Za-z_]\w*)\s*(?:\"[^\"]*\"\s*)?"
    r"(?P<said>\{|[:=]\s*(?:\[[^\]]*\]|\"[^\"]*\"|[^\s{}\[\]\"]+))"
)


def inside(text: str) -> list[str] | None:
    """The entries of a block around others that are about nodes; None for what is none."""
    found = _AROUND.match(text)
    if found is None or re.search(r"\brequire\b", text):
        return None
    made, at, body = list[str](), 0, found[1]
    while at < len(body.rstrip()):
        entry = _ENTRY.match(body, at)
        if entry is None:
            return None
        end = entry.end()
        depth = int(entry["said"] == "{")
        while depth and end < len(body):
            depth += (body[end] == "{") - (body[end] == "}")
            end += 1
        if entry["word"] == "group" or entry["word"] not in _OF_JOB:
            made.append(body[entry.start("word") : end])
        at = end
    return [part for each in made for part in (inside(each) or [each])]


def _with_value(key: str, value: str) -> str:
    """A key of the node with its value: a state, a place, or a label."""
    if key in STATES and value in ("true", "false"):
        return f"{'!' * (value == 'false')}{STATES[key]}".removeprefix("!!")
    read = DOMAINS.get(key) or f"node.labels[{print_string(key)}]"
    return f"{read} == {print_string(value)}"


_OBJECT = frozenset("apiVersion kind metadata spec version namespace count".split())


def _is_label(key: str) -> bool:
    """Whether a key may be one of a label: no other text of this or another language has it."""
    row = habits.find(habits.CLAUSES, key)
    if re.search(r"[a-z][A-Z]|^(?:node|pod|peer|victim|namespaceObject)\.", key):
        # A field, here or of Kubernetes.
        return False
    is_known = key in _ARGUMENTS or key in habits.NEEDLESS_ITEMS or key in ITEMS or key in _OBJECT
    return not is_known and (row is None or row.here == "group")


def keyed(text: str) -> Iterator[str]:
    """`gpu: true` and `filter "x" { disktype: ssd }`: labels of the node with their values."""
    listed = re.fullmatch(r"([A-Za-z][\w./-]*)\s*[:=]\s*(\[[\w\s.,\"'-]+\]|(?:- [\w.-]+ ?)+)", text)
    if listed is not None and _is_label(listed[1].removesuffix("s")):
        key, texts = listed[1].removesuffix("s"), re.findall(r"\w[\w.-]*", listed[2])
        read = DOMAINS.get(key) or f"node.labels[{print_string(key)}]"
        yield f'filter "nodes" {{ require {read} in [{", ".join(map(print_string, texts))}] }}'
    pair = rf"{_PAIR}(?:[,;] ?| (?=\w)|(?=\W*\Z))"
    found = re.fullmatch(rf'(filter "[^"]*"[^{{}}]*)?\{{? ?(?:require )?((?:{pair})+)[ }}]*', text)
    pairs = re.findall(_PAIR, found[2]) if found is not None else []
    if found is None or not all(map(_is_label, (key for key, _ in pairs))):
        return
    said = (_with_value(key, value) for key, value in pairs)
    head = (found[1] or 'filter "nodes"').strip()
    yield f"{head} {{ require {' && '.join(said)} }}"


# ---- clauses as data

_TEXTS = frozenset({"message", "detail"})
_HEADS = ("weight", "when")
_COUNTING = ("limit", "share", "spread")


def _data(text: str) -> Iterator[str]:
    """`{"filter": {"name": "x", "require": "node.ready"}}`."""
    try:
        said = json.loads(text if text.startswith("{") else f"{{{text}}}")
    except ValueError:
        return
    if isinstance(said, Mapping) and said.keys() & {"require", "value"}:
        # The parts of a clause without its keyword.
        said = {"score" if "value" in said else "filter": {"name": "x", **said}}
    if isinstance(said, Mapping):
        made = [_clause(str(word), parts) for word, parts in said.items()]
        if made and None not in made:
            yield " ".join(each for each in made if each is not None)


# The words for parts of clauses, here and elsewhere.
_ARGUMENTS = frozenset(
    {"name", "weight", "when", "skew", "of", "on", "pods", "nodes", "zones", *PARTS_HERE}
    | {word for row in habits.PARTS for word in row.words}
)
_LONGEST_FIRST = "|".join(sorted(_ARGUMENTS, key=len, reverse=True)).replace("_", "_?")
_ARGUMENT = re.compile(rf"(?i)(?:\A|[\s,;({{])({_LONGEST_FIRST})\s*[:=](?![=~])\s*")
_HEAD = re.compile(
    rf"(?:- )?({'|'.join(CLAUSE_WORDS)})\b\s*(\"[^\"]*\")?\s*(weight \d+)?\s*:?\s*[({{]?\s*"
)


def _called(text: str) -> Iterator[str]:
    """`filter("x", require=node.ready)`, `limit per="node" max=3` and the same as YAML."""
    head = _HEAD.match(text)
    if head is None or (head[2] and head[0][-2:] == "{ " and head[1] not in _COUNTING):
        return
    rest = text[head.end() :].rstrip()
    if head[0].rstrip()[-1:] in ("(", "{") and rest[-1:] in (")", "}"):
        rest = rest[:-1].rstrip()
    found = list(_ARGUMENT.finditer(rest))
    first = rest[: found[0].start() if found else len(rest)].strip(" ,")
    own = re.match(r"(\"[^\"]*\")\s*(?:,\s*|\Z)", first)
    parts = {"name": (head[2] or (own[1] if own is not None else '"x"'))[1:-1]}
    if head[3]:
        parts["weight"] = head[3].removeprefix("weight ")
    condition = first[own.end() :] if own is not None else first
    arrow = re.match(r"(?:lambda )?\(?(\w+)\)?\s*(?:=>|->|:)\s*", condition)
    if arrow is not None:
        condition = re.sub(rf"(?<![\w.\"]){arrow[1]}(?=[.\[])", "node", condition[arrow.end() :])
    if condition and head[1] in ("filter", "score") and "(" in head[0]:
        parts["require" if head[1] == "filter" else "value"] = condition
    elif condition or (not found and head[2]):
        return
    if rest.endswith((" strict", " soft")):
        rest, _, strength = rest.rpartition(" ")
        parts["strict" if strength == "strict" else "soft"] = "true"
    ends = [*(m.start() for m in found[1:]), len(rest)]
    parts |= {m[1]: rest[m.end() : end].strip(" ,;") for m, end in zip(found, ends, strict=False)}
    if len(parts) > 1 and (made := _clause(head[1], parts)) is not None:
        yield made


def _clause(word: str, parts: object) -> str | None:
    """The clause that an object of its parts is; None for what is none."""
    if word not in CLAUSE_WORDS or not isinstance(parts, Mapping) or "name" not in parts:
        return None
    head = [word, print_string(str(parts["name"]).strip('"'))]
    head += [f"{key} {parts[key]}" for key in _HEADS if key in parts]
    if word == "score" and "weight" not in parts:
        head.insert(2, "weight 10")
    said = {k: v for k, v in parts.items() if k not in ("name", *_HEADS)}
    rest = [_part(word, key, str(value)) for key, value in said.items()]
    if None in rest:
        return None
    made = [each for each in rest if each is not None]
    if word in _COUNTING:
        made += _lacking(word, " ".join(each for _, each in made))
    return f"{' '.join(head)} {{ {' '.join(each for _, each in sorted(made))} }}"


def _part(word: str, key: str, value: str) -> tuple[int, str] | None:
    """A part of a clause with its value, and its place among the others."""
    row = habits.find(habits.PARTS, key)
    here = key if key in PARTS_HERE or row is None else row.here
    plain = value.strip("\"'")
    if key in _TEXTS:
        return 9, f"{key} {print_string(plain)}"
    if word not in _COUNTING:
        said = re.sub(r'\A"(.*)"\Z', r"\1", value)
        return (8 if here in ("missing", "range") else 5), f"{here} {said}"
    if here in ("over", "per", "per domain") and re.fullmatch(r"[\w./-]+", plain):
        domain = DOMAINS.get(plain.lower()) or (value if plain.startswith("node.") else "")
        domain = domain or f"node.labels[{print_string(plain)}]"
        if word == "spread":
            return 3, f"over {domain}"
        place = "node" if domain == "node.name" else f"domain {domain}"
        return 3, f"per {'cluster' if plain == 'cluster' else place}"
    if re.fullmatch(r"\d+%?", plain):
        if word == "spread" and here in ("at most", "skew", "skew at most"):
            return 4, f"skew at most {plain}"
        if here in ("at most", "at least", "exactly", "min domains"):
            return 5 if here == "min domains" else 4, f"{here} {plain}"
    if here.startswith(("strict", "best effort")) or key == "strict":
        row = habits.find(habits.PARTS, plain)
        here = row.here if row is not None else "strict" if key == "strict" else here
        return 6, here if plain != "false" else "best effort weight 10"
    if here in ("pods where", "on nodes where", "of pods where") or key in ("pods", "nodes", "on"):
        where = "pods where" if "pods" in here or key == "pods" else "on nodes where"
        where = f"of {where}" if word == "share" and where.startswith("pods") else where
        owner = "node" if "nodes" in where else "peer"
        pairs = OF_SELECTOR.findall(value) if value.startswith("{") else []
        made = (f"{owner}.labels[{print_string(k)}] == {print_string(v)}" for k, v in pairs)
        plain = " && ".join(made) or plain
        return (1 if "pods" in where else 2), f"{where} {plain}"
    return None


def _lacking(word: str, made: str) -> Iterator[tuple[int, str]]:
    """What a clause that counts cannot be without."""
    if word == "spread" and "skew" not in made:
        yield 4, "skew at most 1"
    if word == "limit" and not re.search(r"\bat (?:most|least)\b|\bexactly\b", made):
        yield 4, "at most 1"
    if not re.search(r"\bstrict\b|\bbest effort\b", made):
        yield 6, "strict"


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
    _scopes,
)
