"""Wish sentences: the parts of a wish that is a whole sentence: whose pods, what, and where.

`put database pods on nodes with ssd` has a subject, of which the `when` of a clause tells, and the
rest, which is a wish of its own. `no node should have more than 3 pods` is one told the other way
round. `grammar.syntax.wishes` asks here before and after the readers of wishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.syntax.wish_parts import negated, nodes_of, pods_of
from grammar.syntax.wish_words import PLACES, WORKLOADS, N, find, is_name
from grammar.tree.printer import print_string

_HOLDS = (
    r"(?:(?:should|must|may|can|shall|to)\s+)?(?:not\s+)?(?:ever\s+)?"
    r"(?:have|has|hold|holds|run|runs|contain|contains|carry|host|hosts|get|gets|take|takes)\s+"
)
_OF_PLACE = re.compile(
    rf"(?i)\A(?P<no>no|never\s+(?:let|allow)\s+an?y?)?\s*(?:each|every|any|one|a|an|all|the)?\s*"
    rf"(?P<place>{PLACES})s?\s+{_HOLDS}(?P<said>.+)\Z"
)
_PAIR = re.compile(
    r"(?i)\A(?P<no>(?:do\s+not|don't|never)\s+)?(?:(?:keep|put|run|place|schedule|always)\s+)*(?:the\s+)?"
    r"(?P<first>[a-z][\w-]*)\s+(?:pods\s+)?and\s+(?P<second>[a-z][\w-]*)(?:\s+pods)?\s+"
    rf"(?:(?:must|should|together|run|be|stay|go)\s+)*(?:on|in)\s+(?:the\s+)?(?P<how>same|one|a\s+single|different|separate|distinct)\s+"
    rf"(?P<place>{PLACES})s?\Z"
)
_MORE = re.compile(r"(?i)\bmore\s+than\b|\bover\b|\babove\b")
_SUBJECT = re.compile(
    r"(?i)\A(?:please\s+)?(?:(?:always|i\s+want|we\s+want|let|make\s+sure(?:\s+that)?)\s+)?"
    r"(?P<no>(?:do\s+not|don't|dont|never|avoid|forbid|no)\s+)?"
    r"(?P<verb>(?:put(?:ting)?|run(?:ning)?|plac(?:e|ing)|schedul(?:e|ing)|keep|start|send|move|pin|assign|deploy)\s+)?"
    r"(?:(?:all|the|my|our|any)\s+)*(?P<who>[a-z][\w-]*)\s+"
    r"(?P<what>pods|jobs|workloads|replicas|services|apps|applications|instances|deployments)\s+"
    r"(?P<verbs>(?:(?:must|should|shall|may|can|will|have\s+to|need\s+to|want\s+to|only|are|be|to|run|go|stay"
    r"|land|live|placed|scheduled|started|always)\s+)*)"
    r"(?P<denied>(?:not|never|cannot|can't|mustn't|shouldn't)\s+)?"
    r"(?:(?:ever|be|run|go|stay|land|live|placed|scheduled|started)\s+)*"
    r"(?P<rest>(?:only\s+)?(?:on|in|at|between|from|during|outside|after|before|off)\s+.+)\Z"
)


# Pods that are told by a label, a team or a namespace.
_LABELLED = re.compile(
    r"(?i)\A(?:all\s+|the\s+)*(?P<who>pods?\s+(?:with|of|in|from|labell?ed|having|that\s+have)\s+.+?"
    r"|(?:team|tenant|namespace|project)\s+[\w-]+)\s+"
    r"(?P<how>(?:(?:must|should|shall|may|can|only|never|not|cannot|run|be|go|stay|placed|scheduled|ever|gets?|uses?|runs?)\s+)+)"
    r"(?:nodes?\s+)?(?P<rest>(?:on|in|at|between|from|during|outside|off)\s+.+)\Z"
)
# `run backups only on weekends`
_THING = re.compile(
    r"(?i)\A(?:run|schedule|start|place|put)\s+(?:the\s+)?(?P<who>[a-z][\w-]+)\s+(?P<denied>never\s+)?"
    r"(?:only\s+)?(?P<rest>(?:on|in|at|after|before|between|during)\s+.+)\Z"
)
# Words before `pods` that name no app.
_ADJECTIVES = frozenset(
    "critical important urgent heavy big large small stateful stateless new old idle spot system"
    " production".split()
)
# Nodes that are kept for some pods, or from them.
_RESERVED = re.compile(
    r"(?i)\A(?:the\s+|all\s+)?(?P<nodes>nodes?\s+.+?|[\w-]+\s+nodes)\s+(?:(?:are|is|must\s+be|should\s+be)\s+)?"
    r"(?P<how>forbidden|off\s+limits|not\s+allowed|denied|reserved|dedicated|only|exclusive(?:ly)?)\s+"
    r"(?:for|to)\s+(?P<who>.+)\Z"
)


def reserved(body: str) -> Iterator[str]:
    """`nodes with label team=a are reserved for team a`, `… are forbidden for team b`."""
    body = re.sub(
        r"(?i)\Aonly\s+(.+?)\s+(?:(?:may|can|should|must|are\s+allowed\s+to)\s+"
        r"(?:use|run\s+on|go\s+to|be\s+on|land\s+on)|on(?=\s+nodes))\s+(.+?)\Z",
        r"\2 are reserved for \1",
        body,
    )
    body = re.sub(r"(?i)\A(reserve|dedicate|forbid)\s+(.+?)\s+(for|to)\s+", _turned, body)
    found = _RESERVED.match(body)
    where = nodes_of(found["nodes"]) if found is not None else None
    who = found["who"] if found is not None else ""
    pods = pods_of(who if re.search(r"\bpods?\b", who) else f"pods of {who}")
    if found is None or where is None or pods is None:
        return
    pods = pods.replace("peer.", "pod.")
    is_denied = re.match(r"(?i)forbid|off|not|denied", found["how"])
    when = pods if is_denied else negated(pods)
    yield f'filter "{found["how"].lower()}" when {when} {{ require {negated(where)} }}'


def _in_words(found: re.Match[str]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", found[0]).lower()


def _turned(found: re.Match[str]) -> str:
    """`reserve gpu nodes for …` as `gpu nodes are reserved for …`."""
    word = {"reserve": "reserved", "dedicate": "dedicated"}.get(found[1].lower(), "forbidden")
    return f"{found[2]} are {word} for "


def restated(body: str) -> str:
    """A wish about each place as one of pods per place: `no node has more than 3 pods`."""
    body = re.sub(
        rf"(?i)\A(.+?)\s+(?:must|should|may|can)\s*(?:not|never)\s+share\s+(?:an?\s+|the\s+)?(?:same\s+)?({PLACES})\Z",
        r"never \1 on the same \2",
        body,
    )
    body = re.sub(r"(?i)\bavailability\s+(?=zones?\b)", "", body)
    body = re.sub(r"(?i)\bon demand\b", "on-demand", body)
    each = re.match(
        rf"(?i)(?:(?:for\s*each|for\s+every|each|every|for)\s+)?({PLACES})s?(?:\s+in\s+[\w.]+)?\s*[:{{,]\s*(.+?)\s*\}}?\Z",
        body,
    )
    if each is not None and find(r"\d", each[2]) and not find(r"\b(?:per|require)\b", each[2]):
        return f"{each[2]} per {each[1].lower()}"
    if (pair := _PAIR.match(body)) is not None:
        is_apart = bool(pair["no"]) != (
            pair["how"].lower() in ("different", "separate", "distinct")
        )
        near = "never near" if is_apart else "together with"
        return f"{pair['first']} pods {near} {pair['second']} pods in the same {pair['place']}"
    # `maxPerNode: 3`
    body = re.sub(r"\b(max|min|pods|most|least)([A-Z][a-z]+)+\b", _in_words, body)
    found = _OF_PLACE.match(body)
    if found is None:
        return body
    said, denied = found["said"], found["no"] or re.search(r"(?i)\bnot\b", found[0])
    is_counting = find(
        rf"\b{N}\s+(?:[\w-]+\s+)?(?:pods?|replicas?|instances?|copies|jobs?)\b", said
    )
    if is_counting is None or (denied and _MORE.search(said) is None):
        return body
    said = _MORE.sub("at most", said) if denied else said
    return f"{said} per {found['place'].lower()}"


def by_subject(body: str) -> Iterator[tuple[str, str]]:
    """The condition on the pods that a sentence is about, and the sentence without them."""
    labelled = _LABELLED.match(body)
    who = labelled["who"] if labelled is not None else ""
    where = pods_of(who if who.lower().startswith("pod") else f"pods of {who}") if who else None
    if labelled is not None and where is not None:
        only = "never" if find(r"\b(?:not|never|cannot)\b", labelled["how"]) else "only"
        yield where.replace("peer.", "pod."), f"{only} {labelled['rest']}"
        return
    kept = re.match(
        r"(?i)keep\s+(?:the\s+)?(?P<who>pods?\s+.+?)\s+(?P<how>off|out\s+of|away\s+from|on|in)\s+"
        r"(?:the\s+)?(?P<rest>(?:nodes?|zone|region)\b.+)\Z",
        body,
    )
    if kept is not None and (where := pods_of(kept["who"])) is not None:
        only = "only" if kept["how"].lower() in ("on", "in") else "never"
        yield where.replace("peer.", "pod."), f"{only} on {kept['rest']}"
        return
    spread = re.match(
        r"(?i)(?P<verb>spread|balance|distribute)\s+(?:the\s+|all\s+)*(?P<who>[a-z][\w-]*)\s+pods\s+(?P<rest>.+)",
        body,
    )
    if spread is not None and is_name(spread["who"]):
        yield f'pod.labels["app"] == "{spread["who"].lower()}"', f"spread {spread['rest']}"
        return
    body = re.sub(
        r"(?i)\b(pods|jobs|replicas)\s+(?:needs?|requires?|wants?|uses?)\s+([\w-]+\s+nodes?)\Z",
        r"\1 only on \2",
        body,
    )
    thing = _THING.match(body)
    if thing is not None and is_name(thing["who"]) and thing["who"] not in ("it", "them", "each"):
        only = "never" if thing["denied"] else "only"
        name = thing["who"].lower().removesuffix("s")
        yield f'pod.labels["app"] == "{name}"', f"{only} {thing['rest']}"
        return
    found = _SUBJECT.match(body)
    if found is None or not is_name(found["who"]) or found["who"].lower() in _ADJECTIVES:
        return
    kind = next((k for k in WORKLOADS if found["who"].lower().rstrip("s") == k.lower()), None)
    if found["who"].lower() == "batch":
        kind = "Job"
    key = "namespace" if found["who"].lower() == "namespace" else "app"
    condition = f'pod.labels["{key}"] == {print_string(found["who"].lower())}'
    if kind is not None:
        condition = f'pod.workload.kind == "{kind}"'
    if found["who"].lower() == "gpu":
        condition = 'pod.requests["nvidia.com/gpu"] > "0"'
    rest = found["rest"]
    if found["no"] or found["denied"]:
        rest = f"never {rest}"
    elif not re.match(r"(?i)only\b", rest):
        rest = f"only {rest}"
    yield condition, rest


def with_subject(condition: str, clause: str) -> str | None:
    """A clause about these pods alone; None where it is about others already."""
    found = re.fullmatch(
        r'((?:filter|score|limit|spread) "[^"]*"(?: weight -?\d+)?)( \{.*\})', clause
    )
    return None if found is None else f"{found[1]} when {condition}{found[2]}"


def of_kind(body: str, clause: str) -> str:
    """A clause about workloads of the kind that a wish names: `2 pods of deployment per node`."""
    named = find(rf"\b({'|'.join(WORKLOADS)})s?\b", body)
    if named is None or find(named[1], clause) is not None or " when " in clause:
        return clause
    if find(rf"\b(?:per|each|every|same)\s+(?:\w+\s+)?{named[1]}\b", body) is not None:
        # The pods of one workload are counted in any case.
        return clause
    kind = next(k for k in WORKLOADS if k.lower() == named[1].lower())
    condition = f'pod.workload.kind == "{kind}"'
    called = find(rf"\bof\s+(?:the\s+)?{named[1]}\s+\"?([a-z][\w-]*)\"?", body)
    if called is not None and is_name(called[1]):
        condition += f' && pod.workload.name == "{called[1]}"'
    return with_subject(condition, clause) or clause
