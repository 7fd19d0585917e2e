"""Wish words: what people say in plain English of numbers, places, nodes and neighbours.

The patterns of `grammar.syntax.wishes`, which reads whole wishes with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def one_of(phrases: Iterable[str], *signs: str) -> str:
    """A pattern for one of some phrases, the longest first, or one of some patterns."""
    listed = sorted(phrases, key=len, reverse=True)
    return f"(?:{'|'.join([*signs, *listed])})"


def find(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text, re.IGNORECASE)


# The kinds whose pods people speak of; a ReplicaSet is the Deployment's own.
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job")
NUMBERS = {
    word: number
    for number, word in enumerate(
        "no one two three four five six seven eight nine ten eleven twelve".split()
    )
} | {"a": 1, "single": 1, "zero": 0, "none": 0}
N = one_of(NUMBERS, r"\d+")
PARTS = {"half": "50%", "a half": "50%", "third": "33%", "a third": "33%", "quarter": "25%"}
PARTS |= {"a quarter": "25%", "two thirds": "67%", "three quarters": "75%"}
# A fraction of pods is a part as well.
FRACTION = r"(?<![\w.\"])0?\.\d+\b(?!\s*(?:[KMGT]i?|cores?|cpus?)\b)"
PART = one_of(PARTS, FRACTION, r"\d+(?:\.\d+)?\s*(?:%|(?:percent|per cent|pct)\b)")
ONLY = one_of(
    (
        "at most",
        "at max",
        "no more than",
        "not more than",
        "maximum",
        "maximum of",
        "max",
        "max of",
        "up to",
        "only",
        "limit",
        "limit to",
        "cap",
        "cap at",
        "atmost",
    ),
    "<=",
)
BELOW = one_of(("fewer than", "less than", "below", "under"), "<")
ENOUGH = one_of(
    (
        "at least",
        "no less than",
        "not less than",
        "no fewer than",
        "minimum",
        "minimum of",
        "min",
        "min of",
        "atleast",
    ),
    ">=",
)
ABOVE = one_of(("more than", "above", "over"), ">")
# What has nodes, or is one.
PLACES = r"(?:node|host|machine|server|zone|region|rack|cluster|datacenter)"
DOMAIN = r"(?P<domain>node\.[\w.]+(?:\[\"[^\"]+\"\])?|\"[\w./-]+\"|[A-Za-z][\w./-]*)"
EACH = one_of(
    (
        "per",
        "in each",
        "in every",
        "in any",
        "in the same",
        "in the whole",
        "in the",
        "in a",
        "across the",
        "on each",
        "on every",
        "on any",
        "on the same",
        "on the",
        "on a",
        "for each",
        "by",
        "for every",
        "each",
        "every",
        "in one",
        "on one",
        "a",
    ),
    r"on(?=\s+node\b(?!\.))",
    r"/(?=\s*(?:node|host|zone|region|rack)s?\b)",
)
PER = rf"(?<!\w){EACH}\s+(?:single\s+)?{DOMAIN}"
# Whose pods are counted together, wherever they are.
PER_OWNER = (
    r"(?<!\w)(?:per|for\s+each|for\s+every|of\s+each|of\s+every|of\s+the\s+same|each|every)\s+(?:label\s+)?"
    r"(?P<owner>(?<=label )[\w./-]+|namespace|ns|team|app|tenant|user|customer|owner"
    r"|tier|project|service|component)s?\b"
)
BESIDE = one_of(
    (
        "beside",
        "besides",
        "next to",
        "near",
        "alongside",
        "together with",
        r"with(?!\s+labels?\b)",
        "close to",
        "on the node of",
        "share a node with",
        "share nodes with",
        "share a host with",
        "share the node with",
        "closest to",
        "close to",
        "nearest to",
        "nearby",
        "along with",
    ),
    r"(?:on |in )?(?:the |a )?same (?:node|host|machine|zone|region|rack)s? (?:as|with)",
)
NEVER = one_of(
    (
        "never",
        "not",
        "no",
        "don't",
        "dont",
        "must not",
        "avoid",
        "keep away from",
        "away from",
        "apart from",
        "separate from",
        "separated from",
        "far from",
        "forbid",
        "without",
    ),
    "!",
)
# Verbs that say of nodes that they are not to be used.
DENIES = (
    r"(?:forbid|deny|reject|exclude|refuse|block|prohibit|drain|cordon|ban|blacklist|skip|ignore|disallow"
    r"|remove|disable|evict|taint|drop|omit|discard|avoid)"
)
CONTROL = 'has(node.labels["node-role.kubernetes.io/control-plane"])'
WORDS_OF_NODES = {
    "spot": 'node.labels["karpenter.sh/capacity-type"] == "spot"',
    "preemptible": 'node.labels["karpenter.sh/capacity-type"] == "spot"',
    "on-demand": 'node.labels["karpenter.sh/capacity-type"] == "on-demand"',
    "ondemand": 'node.labels["karpenter.sh/capacity-type"] == "on-demand"',
    "gpu": '"nvidia.com/gpu" in node.allocatable',
    "gpus": '"nvidia.com/gpu" in node.allocatable',
    "arm": 'node.labels["kubernetes.io/arch"] == "arm64"',
    "arm64": 'node.labels["kubernetes.io/arch"] == "arm64"',
    "amd64": 'node.labels["kubernetes.io/arch"] == "amd64"',
    "x86": 'node.labels["kubernetes.io/arch"] == "amd64"',
    "linux": 'node.labels["kubernetes.io/os"] == "linux"',
    "windows": 'node.labels["kubernetes.io/os"] == "windows"',
    "control": CONTROL,
    "control-plane": CONTROL,
    "master": CONTROL,
    "masters": CONTROL,
    "maintenance": "node.spec.unschedulable",
    "drained": "node.spec.unschedulable",
    "cordoned": "node.spec.unschedulable",
    "ready": "node.ready",
    "ssd": 'node.labels["disktype"] == "ssd"',
}
FILLERS = frozenset(
    "the a an any of on in to at for with pods pod replicas replica node nodes instances machines "
    "vms host hosts other others same and is are be must should run running placed scheduled place "
    "schedule put only if when label labels labeled labelled having that have all its".split()
)


def number_of(word: str) -> int:
    return int(word) if word.isdigit() else NUMBERS[word.lower()]


# What a node is said to be.
STATES = {
    "ready": "node.ready",
    "healthy": "node.ready",
    "unready": "!node.ready",
    "unhealthy": "!node.ready",
    "tainted": "(size(node.spec.taints) > 0)",
    "cordoned": "node.spec.unschedulable",
    "unschedulable": "node.spec.unschedulable",
    "drained": "node.spec.unschedulable",
    "schedulable": "!node.spec.unschedulable",
    "uncordoned": "!node.spec.unschedulable",
}
_NODE = r"(?:(?:that\s+)?(?:the\s+|a\s+)?(?:nodes?|machine|host|it|which|that)\s+)?"
SUBJECT = rf"{_NODE}(?:(?:is|are|be|to\s+be|must\s+be|should\s+be|has\s+to\s+be)\s+)?"
KEPT = (
    r"(?:protect|(?<=preempt )(?:exclude|keep|skip|ignore)|never\s+(?:evict|preempt)|spare"
    r"|(?:do\s+not|don't|must\s+not)\s+(?:be\s+)?(?:evict|preempt)(?:ed)?)"
)
HAVING = (
    rf"{_NODE}(?:has|have|having|with|(?:must|should|needs?\s+to|has\s+to)\s+have|needs?"
    r"|must\s+carry)\s+(?:(?P<no>no)\s+)?(?:the\s+|an?\s+)?"
)
NODES_WITH = r"(?:nodes?|machines?|hosts?)\s+(?:with|that\s+have|that\s+run|running)\s+"
OTHER_PODS = r"(?:other\s+|any\s+|the\s+)?pods?\b"
FREE = r"(?:spare|empty|free|unused|idle)"
# Pods that run at one time, wherever.
AT_ONCE = (
    r"\b(?:at\s+(?:the\s+same\s+time|once|a\s+time)|in\s+parallel|concurrent(?:ly)?"
    r"|simultaneously|in\s+total|overall|total\s+(?:number\s+of\s+)?(?:pods|replicas))\b"
)
# Which nodes are wished for by how full they are: fuller ones, or emptier ones.
FULLER = (
    r"(?:busy|hot|(?<!most )(?<!least )(?<!less )loaded|full(?:est|er)?|pack(?:ed)?"
    r"|most\s+(?:loaded|used|full|utili[sz]ed)|busiest|bin-?pack\w*)"
)
EMPTIER = (
    r"(?:empt(?:y|ier|iest)|idle|idlest|(?:less|least)\s+(?:loaded|used|busy|full|utili[sz]ed)"
    r"|quiet(?:est)?|free(?:st)?)"
)
MOST_OF = r"(?:most|highest|largest|biggest|greatest|max(?:imum)?|more)"
LEAST_OF = r"(?:least|lowest|smallest|fewest|min(?:imum)?|less)"
# Whose pods they are: `pods of team ads`, `replicas in namespace shop`.
OF_OWNER = (
    r"\b(?:pods?|replicas?|instances?)\s+(?:of|for|from|in|with|belonging\s+to)\s+(?:the\s+)?"
    r"(?:label\s+)?(?P<key>team|app|tier|service|component|env|environment|role|owner|namespace|ns"
    r"|project|customer|tenant|job|release|group|type)\s+\"?(?P<value>[A-Za-z0-9][\w.-]*)\"?"
)
_ABOUT_PODS = frozenset(
    "other same all any own these those such running pending ready counted more fewer most least "
    "up then match matching many few my our new old two only never not protect keep spread balance "
    "per than evict preempt distribute allow ignore apply select place put run schedule max "
    "maximum min minimum both between avoid no limit cap and or free "
    "may can must should will exclude skip ignore except which that every "
    "everything anything something them these total concurrent simultaneous active existing "
    "identical similar parallel scheduled fewest victim victims "
    "from of to with without beside near by in on for at select count affinity "
    "anti-affinity together apart separate colocate".split()
)
_KNOWN = frozenset(FILLERS) | frozenset(PARTS) | frozenset(NUMBERS)


_KNOWN_PLACES = frozenset(
    "node az workload deployment statefulset daemonset job cent minute hour".split()
)


def is_name(word: str) -> bool:
    """Whether a word before `pods` names them, as in `web pods`."""
    return not {word.lower(), word.lower().removesuffix("s")} & (_KNOWN | _ABOUT_PODS)


def says_all(body: str, clause: str) -> bool:
    """Whether a clause has every name of a wish: a help that drops one says something else."""
    low = clause.lower()
    for found in re.finditer(r"\b(?:team|tenant|project)\s+([a-z][\w-]*)", body):
        if (
            is_name(found[1])
            and found[1] not in ("gets", "get", "has", "uses")
            and found[1] not in low
        ):
            return False
    about = find(r"\bfor\s+(?:the\s+|all\s+)?([a-z][\w-]*?)s?\Z", body)
    if about is not None and is_name(about[1]) and about[1].lower() not in low:
        return False
    is_counting = clause.startswith(("limit ", "share ", "spread "))
    counted = r"\b(?:cpus?|memory|zone|region|rack|spot|on-demand)"
    # The rest follows from the parts.
    for found in re.finditer(counted, re.sub(r"(?i)\brest\b.*", "", body), re.IGNORECASE):
        # What is counted, and the places.
        if is_counting and found[0].lower().rstrip("s") not in low:
            return False
    for found in re.finditer(r"\b([a-z][\w-]*)\s+(?:pods?|replicas|jobs)\b", body):
        if is_name(found[1]) and found[1] not in low and found[1] != "batch":
            return False
    for found in re.finditer(
        r"\b(?:of|for|from|with|in|label)\s+(?:team|app|tier|namespace|ns|service|project|tenant)\s+\"?([\w.-]+)",
        body,
    ):
        if found[1].lower() not in low:
            return False
    for found in re.finditer(r"\bper\s+(?:each\s+|every\s+)?([a-z][\w-]*)", body, re.IGNORECASE):
        place = found[1].lower().removesuffix("s")
        if re.fullmatch(PLACES, place) is None and place not in low and place not in _KNOWN_PLACES:
            return False
    return all(
        found[1].lower() in low
        for found in re.finditer(r"[\w./-]+\s*=\s*\"?([A-Za-z][\w.-]*)", body)
    )
