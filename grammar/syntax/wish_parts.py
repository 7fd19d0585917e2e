"""Wish parts: what the words of a wish say of pods, nodes, places, numbers and strictness.

The readers of whole wishes are in `grammar.syntax.wish_readers`.
"""

from __future__ import annotations

import re

from grammar.syntax.unexpected import DOMAINS, PARTS
from grammar.syntax.wish_words import (
    ABOVE,
    BELOW,
    BESIDE,
    ENOUGH,
    FILLERS,
    NEVER,
    OF_OWNER,
    ONLY,
    PLACES,
    STATES,
    WORDS_OF_NODES,
    N,
    find,
    is_name,
    number_of,
)
from grammar.tree.printer import print_string


def strength_of(body: str) -> str:
    soft = find(r"\b(prefer|preferably|soft|try|ideally|if possible|best effort)", body)
    return "best effort weight 10" if soft else "strict"


def domain_of(word: str) -> str | None:
    """What stands behind `per`: `node`, `domain node.zone`, `cluster`."""
    text = word.strip('"')
    low = text.lower()
    if low in ("cluster", "total", "all", "workload", "deployment", "statefulset", "job"):
        # The pods of one workload are counted without more.
        return "cluster"
    if low.startswith("node.") and low != "node.name":
        return f"domain {text}"
    singular = low.removesuffix("s")
    known = DOMAINS.get(low) or DOMAINS.get(singular)
    if known is not None or low == "node.name":
        return "node" if known in (None, "node.name") else f"domain {known}"
    if singular in ("rack", "datacenter", "pool", "row", "room", "building", "site"):
        return f'domain node.labels["{singular}"]'
    return f"domain node.labels[{print_string(text)}]" if "/" in text else None


NAME_OF_NODE = r"(?:node|worker|host)-?[\w.-]*\d"
_PRIORITY = re.compile(
    rf"(?i)\bpriority\s*(?:(?:is|of)\s+)?(?P<sign>[<>]=?|{ENOUGH}|{ABOVE}|{BELOW}|{ONLY}"
    r"|(?:higher|greater|lower)\s+than)\s*(?P<number>-?\d+)"
)


def _of_priority(found: re.Match[str]) -> str:
    """`priority above 1000` as a condition on a pod."""
    sign = found["sign"].lower()
    signs = ((ENOUGH, ">="), (rf"{ABOVE}|higher\s+than|greater\s+than", ">"), (ONLY, "<="))
    made = next((s for pattern, s in signs if find(rf"\A(?:{pattern})\Z", sign)), "<")
    return f"peer.priority {made} {found['number']}"


def pods_of(body: str) -> str | None:
    """The condition on the pods that a wish counts; None for the pods of the same workload."""
    if (order := _PRIORITY.search(body)) is not None and "where" not in body:
        return _of_priority(order)
    where = find(
        r"\bwhere\s+(.+?)\s*"
        r"(?:\)|(?=\s(?:(?:(?:on|in|within)\s+)?(?:the\s+)?same"
        r"|at|max|min|maximum|minimum|up\s+to|no|per|each|every|in each|on each"
        r"|strict|group|having|evenly|equally|across|over|balanced)\b|[<>]=?\s*\d)|\Z)",
        body,
    )
    if where is not None:
        # An order without another comparison is that of the pods.
        order = re.match(r"\s*[<>]=?\s*[\w.\"]+", body[where.end(1) :])
        is_whole = re.search(r"[=<>(]|\bin\b|\A!?[\w.]+\Z", where[1]) and not (
            order is not None and re.search(r"\A[\w.]+\Z", where[1])
        )
        return _of_peer(where[1] if is_whole or order is None else where[1] + order[0])
    if re.search(r"\w:\s*(?:require|value|return)\b|\bdistinct\s+pod\.", body):
        # Code, and no wish.
        return None
    same = find(
        rf"\b(?:with|of|having|sharing)\s+(?:the\s+)?same\s+(?!{PLACES})([a-z][\w./-]*)", body
    )
    if same is not None and same[1].lower() not in _KINDS_OF_OWNERS:
        return same_owner(same[1])
    system = find(r"\bpods?\s+in\s+\"?(kube-[a-z-]+)\"?", body)
    if system is not None:
        return f'peer.namespace == "{system[1]}"'
    label = find(r"([\w./-]+)\s*(?:==|=|:)\s*\"?([\w.-]+)\"?", body)
    if (
        label is not None
        and not label[1].isdigit()
        and not label[2].isdigit()
        and not label[1].startswith("node.")
    ):
        return label_of("peer", label[1], label[2])
    said = find(OF_OWNER, body)
    kind = find(r"\b([A-Za-z][\w-]*)\s+pods?\b(?!\s+where)", body) if said is None else None
    if kind is None and said is None:
        kind = find(
            r"\b(?:pods?|replicas?|instances?|copies)\s+of\s+(?:the\s+)?([A-Za-z][\w-]*)", body
        )
        kind = None if kind is not None and kind[1].lower() in _NO_APPS else kind
    if kind is None and said is None:
        kind = find(rf"\b{N}\s+([A-Za-z][\w-]*)\s+(?:per|on|in\s+each)\b", body)
        kind = None if kind is not None and find(_NO_PODS, kind[1]) else kind
    if find(r"\bbatch\s+(?:pods?|jobs?|workloads?)\b", body):
        return 'peer.workload.kind == "Job"'
    if kind is not None and kind[1].lower() == "gpu":
        return 'peer.requests["nvidia.com/gpu"] > "0"'
    if kind is not None and is_name(kind[1]):
        return label_of("peer", "app", kind[1])
    if said is not None and said["key"].lower() in ("namespace", "ns"):
        return f'peer.namespace == "{said["value"]}"'
    return label_of("peer", said["key"].lower(), said["value"]) if said is not None else None


_KINDS_OF_OWNERS = frozenset("workload deployment statefulset job controller owner kind".split())
# Words that are counted, and are no pods of an app.
_NO_PODS = (
    rf"(?i)\A(?:{PLACES}s?|pods?|replicas?|instances?|copies|copy|cpus?|cores?|gpus?|memory|percent|"
    r"hours?|minutes?|jobs?|deployments?|statefulsets?|daemonsets?|max|min|strict|other|more|[KMGT]i?B?)\Z"
)
# Words behind `pods of` that name no app.
_NO_APPS = frozenset(
    "same each every any one deployment deployments statefulset daemonset job jobs workload team"
    " app namespace replicaset it this that a an kind label type all".split()
)


def _of_peer(condition: str) -> str | None:
    """The condition on a counted pod; None for one on a node."""
    if re.match(r"!?\(?node\b", condition.strip()):
        return None
    text = condition
    if "peer." not in condition:
        text = re.sub(r"\b(?:pod|p|x|other)\.(?=labels|namespace|name|priority)", "peer.", text)
    text = re.sub(r"(?<![\w.])labels\b", "peer.labels", text.strip())
    label = re.fullmatch(r"([\w./-]+)\s*(?:==|=|:)\s*\"?([\w.-]+)\"?", text)
    if label is not None and not label[1].startswith("peer."):
        return label_of("peer", label[1], label[2])
    return text


def label_of(owner: str, key: str, value: str) -> str:
    key = key.removeprefix("labels.").removeprefix("pod.labels.").removeprefix("peer.labels.")
    return f"{owner}.labels[{print_string(key)}] == {print_string(value)}"


def negated(condition: str) -> str:
    """The opposite of a condition; what lacks the label passes it."""
    label = re.fullmatch(r'(\w+\.labels)\[("[^"]*")\] == ("[^"]*")', condition)
    if label is not None:
        return f'{label[1]}[?{label[2]}].orValue("") != {label[3]}'
    twice = re.fullmatch(r"!\(([^()]*)\)|!([\w.]+)", condition)
    if twice is not None:
        return twice[1] or twice[2]
    plain = re.fullmatch(r"[\w.]+|has\([^()]*\)", condition)
    return f"!{condition}" if plain is not None else f"!({condition})"


def noun_of(text: str) -> str | None:
    """The last word of a phrase that names something: `a database` is `database`."""
    found = [w for w in re.findall(r"[A-Za-z][\w-]*", text) if w.lower() not in FILLERS]
    if not found:
        return None
    word: str = found[-1].lower()
    is_plural = len(word) > 4 and re.search(r"[^isu]s\Z", word) is not None
    return word.removesuffix("s") if is_plural else word


def nodes_of(text: str) -> str | None:
    """The condition on nodes that a phrase names: `spot`, `zone eu-1a`, `disktype=ssd`."""
    text = text.strip().rstrip(".,;)").strip()
    without = re.match(
        r"(?:nodes?\s+)?(?:without|lacking|with\s+no)\s+(?:an?\s+|the\s+|any\s+)?(label\s+)?(.+)",
        text,
    )
    if without is not None:
        key = without[2].strip('"')
        is_key = without[1] is not None and re.fullmatch(r"[\w./-]+", key) is not None
        said = f"{print_string(key)} in node.labels" if is_key else nodes_of(without[2])
        return None if said is None else negated(said)
    text = re.sub(
        r"^(?:nodes?|machines|hosts)\s+(?:where|with|that|having|in|labell?ed)\s+", "", text
    )
    text = re.sub(r"^(?:where|if|when|labell?ed|with|having|labels?)\s+", "", text)
    if find(r"\bnode\.", text):
        return text
    if re.fullmatch(r"[a-z]{2}-(?:[a-z]+-)?\d[a-z]", text):
        return f'node.zone == "{text}"'
    called = re.fullmatch(rf"(?:(?:the\s+)?(?:node|host)\s+)?({NAME_OF_NODE})", text)
    if called is not None:
        return f'node.name == "{called[1]}"'
    taint = find(r"\btaint(?:s|ed)?\s+(?:with\s+|by\s+)?\"?([\w./-]+)\"?\Z", text)
    if taint is not None:
        return f'node.spec.taints.exists(t, t.key == "{taint[1]}")'
    zones = re.fullmatch(
        r"(?:nodes?\s+)?(?:in\s+)?(?:the\s+)?(zone|region)s?\s+([\w-]+(?:\s*(?:,|or|and)\s*(?:(?:zone|region)\s+)?[\w-]+)+)",
        text,
    )
    if zones is not None:
        names = re.split(r"\s*(?:,|\bor\b|\band\b)\s*(?:(?:zone|region)\s+)?", zones[2])
        return f"node.{zones[1]} in [{', '.join(map(print_string, names))}]"
    zone = re.fullmatch(r"(?:the\s+)?(zone|region)s?\s*(?:==|=|:|is|in)?\s*\"?([\w-]+)\"?", text)
    if zone is not None:
        return f'node.{zone[1]} == "{zone[2]}"'
    label = find(r"(?<!\d)([A-Za-z][\w./-]*)\s*(?:==|=|:)\s*\"?([\w.-]+)\b\"?(?!\s*:)", text)
    label = label or re.fullmatch(
        r"(?:nodes?\s+)?(?:of|for|from|in)\s+(?:the\s+)?"
        r"(team|tenant|project|owner|pool|env|environment|tier|class|group|rack)\s+\"?([\w.-]+)\"?",
        text,
    )
    if label is not None:
        return label_of("node", label[1], label[2])
    words = [w.lower() for w in re.findall(r"[\w-]+", text)]
    known = next((WORDS_OF_NODES[w] for w in words if w in WORDS_OF_NODES), None)
    if known is not None:
        return known
    return None


def bound_of(body: str) -> tuple[str, int] | None:
    """`at most 3`, from any way to say it."""
    body = _PRIORITY.sub("", body)
    never = find(rf"\b(?:never|not|no|don't|avoid)\s+({N})\b", body)
    if never is not None and number_of(never[1]) > 1:
        return "at most", number_of(never[1]) - 1
    above = find(rf"\bnever\s+{ABOVE}\s*({N})\b", body)
    if above is not None:
        return "at most", number_of(above[1])
    for pattern, kind, more in (
        (BELOW, "at most", -1),
        (ENOUGH, "at least", 0),
        (ABOVE, "at least", 1),
        (ONLY, "at most", 0),
    ):
        negated = r"(?<!no )(?<!not )(?<!never )"
        found = find(rf"{negated}{pattern}(?:\s*|\s*:\s*|\s+=\s*)({N})\b(?!\s*(?:%|percent))", body)
        if found is not None:
            return kind, max(0, number_of(found[1]) + more)
    plain = find(rf"(?<![\w.\"])({N})\b(?!\s*(?:%|percent))", body)
    return ("at most", number_of(plain[1])) if plain is not None else None


def part_of_workload(percent: str) -> str:
    """A percentage of the replicas of the pod's workload, as a number."""
    return f"math.greatest(1, pod.workload.replicas * {percent} / 100)"


def same_owner(word: str) -> str:
    """The condition on pods of the same owner as the pod: its namespace, or a label."""
    if word in ("namespace", "ns"):
        return "peer.namespace == pod.namespace"
    key = print_string(word)
    return f"peer.labels[{key}] == pod.labels[{key}]"


def counted_pods(where: str | None) -> str:
    """`pods where …`; a namespace is one of all pods."""
    if where is None:
        return ""
    return f"{'all ' * ('peer.namespace' in where)}pods where {where} "


def pods_beside(body: str) -> str | None:
    """The pods that somebody is named to be beside of."""
    label = pods_of(body)
    if label is not None:
        return label
    found = find(rf"(?:{BESIDE}|{NEVER})\s+(.+)\Z", body)
    if found is not None and find(r"\d|\bdifference\b|\bskew\b", found[1]):
        return None
    noun = noun_of(found[1]) if found is not None else None
    if noun is not None and (noun in PARTS or noun in STATES or noun in WORDS_OF_NODES):
        # No app has such a name.
        return None
    return None if noun is None else label_of("peer", "app", noun)
