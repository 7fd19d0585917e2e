"""Wish limits: bounds on the number of pods, or on what they request, as plain words tell them.

A part of the readers of `grammar.syntax.wish_readers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.messages import habits
from grammar.syntax.wish_parts import (
    bound_of,
    counted_pods,
    domain_of,
    part_of_workload,
    pods_beside,
    pods_of,
    same_owner,
    strength_of,
)
from grammar.syntax.wish_words import AT_ONCE, BELOW, ENOUGH, ONLY, PER, PER_OWNER, N, find


def limits(body: str) -> Iterator[str]:
    """`at most 3 per zone`, `count(pods where …) < 3 per node.zone`, `one per node`."""
    if find(r"\ball\b.*\b(?:on|in)\s+(?:the\s+)?(?:same|one)\b", body):
        # Together, and not apart.
        return
    for several in (_two_limits(body), _limits_of_owners(body)):
        if several is not None:
            yield from several
            return
    for per in re.finditer(PER, body, re.IGNORECASE):
        domain = domain_of(per["domain"])
        rest = body[: per.start()] + body[per.end() :]
        part = None if find(ENOUGH, rest) else find(r"(\d+)\s*(?:%|percent\b)", rest)
        bound = ("at most", 1) if part is not None else bound_of(rest)
        if domain is None or bound is None:
            continue
        kind, number = bound
        amount = part_of_workload(part[1]) if part is not None else str(number)
        where = pods_of(body)
        if where is None and "strict" not in body and number == 0:
            where = pods_beside(body)
        counted = counted_pods(where)
        named = per["domain"].strip('"').replace('"', "'")
        said = f"{kind} {number if part is None else part[1] + '%'} per {named}"
        yield f'limit "{said}" {{ {counted}per {domain} {kind} {amount} {strength_of(body)} }}'
        return
    is_of_nodes = find(r"\b(?:distinct|different|used)\s+(?:nodes?|hosts?|machines?)\b", body)
    if is_of_nodes and (bound := bound_of(body)) is not None:
        counted = counted_pods(pods_of(body))
        yield f'limit "nodes" {{ {counted}used nodes {bound[0]} {bound[1]} {strength_of(body)} }}'
        return
    if find(AT_ONCE, body) and (bound := bound_of(re.sub(AT_ONCE, "", body))) is not None:
        kind, number = bound
        said = f"{kind} {number} at once"
        rest = f"per cluster {kind} {number} {strength_of(body)}"
        yield f'limit "{said}" {{ {counted_pods(pods_of(body))}{rest} }}'
        return
    alone = find(rf"\A(?:limit\s+)?(?:count|max|{ONLY})?\s*[=:]?\s*(\d+)\Z", body)
    if alone is not None:
        yield f'limit "at most {alone[1]}" {{ per node at most {alone[1]} strict }}'


def _two_limits(body: str) -> list[str] | None:
    """`per node and zone` and `between 1 and 3 per node`; None where one limit is meant."""
    parts = re.split(r"\s*[,;]\s*|\s+and\s+", body)
    bounds = re.findall(r"\bper\s+\S+\s+(?:at\s+(?:most|least)|max|min|<=|>=)\s*\d+", body)
    parts = bounds if len(parts) == 1 and len(bounds) == 2 else parts
    if len(parts) == 2 and all(find(rf"\b{N}\b", p) and find(r"\bper\b", p) for p in parts):
        each = [next(limits(part), None) for part in parts]
        return [" ".join(filter(None, each))] if all(each) else []
    one = r"(node|host|zone|region|rack)s?"
    places = find(rf"\bper\s+{one}(?:\s+and|,)\s+(?:per\s+)?{one}\b", body)
    ends = find(rf"\b(?:between|from)\s+({N})\s+(?:and|to|-)\s+({N})\b(?!\s*(?:%|percent))", body)
    if (both := places or ends) is None:
        return None
    head, tail = body[: both.start()], body[both.end() :]
    if places is not None:
        # More than two are left alone.
        said = [] if re.search(r"\band\b|,", tail) else [f"per {p}{tail}" for p in places.groups()]
    else:
        # Each place begins with one pod, so more than one is only wished for.
        soft = "" if both[1] == "1" else " if possible"
        said = [f"at most {both[2]}{tail}", f"at least {both[1]}{tail}{soft}"]
    each = [next(limits(f"{head}{part}"), None) for part in said]
    return [" ".join(filter(None, each))] if each and all(each) else []


def _limits_of_owners(body: str) -> list[str] | None:
    """`at most 3 per team and node`; None where no owner is named."""
    if (owner := find(PER_OWNER, body)) is None:
        return None
    rest = body[: owner.start()] + body[owner.end() :]
    place = re.search(PER, rest, re.IGNORECASE)
    within = (domain_of(place["domain"]) if place is not None else None) or "cluster"
    bare = rest if place is None or within == "cluster" else rest.replace(place[0], "")
    bound = bound_of(bare)
    if bound is None and place is not None and find(r"\b(?:not|never|no|apart)\b", bare):
        bound = "at most", 1
    if bound is None:
        return []
    counted = same_owner(owner["owner"].lower())
    more = pods_of(rest)
    counted = f"{counted} && {more}" if more is not None else counted
    said = f"per {within} {bound[0]} {bound[1]} {strength_of(body)}"
    name = f"{bound[0]} {bound[1]} per {owner['owner'].lower()}"
    return [f'limit "{name}" {{ all pods where {counted} {said} }}']


def numbers(body: str) -> Iterator[str]:
    """`count(pods where …) == 0` and `!exists(pods where …)`, of the pods on a node."""
    found = find(r"\A(!|not\s+)?(?:count|size|len|exists?|any)\b.*\bpods\s+where\b", body)
    where = pods_of(body)
    if found is None or where is None or re.search(PER, body, re.IGNORECASE):
        return
    bound = bound_of(_TEXT.sub("", body.rpartition(")")[2]))
    kind, number = bound or (("at most", 0) if found[1] else ("at least", 1))
    yield f'limit "pods" {{ {counted_pods(where)}per node {kind} {number} strict }}'


_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_AMOUNT = r"(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|Ti|[KMGT]i?B|[kMGT]|m|cores?|cpus?)?\b"
_RESOURCE = r"(?P<resource>cpus?|cores|memory|mem|ram|gpus?)"
_SUM = re.compile(
    rf"(?i)\b(?:sum|total)\b[\s(]*(?:of\s+)?(?:(?:pods?|p|peer|container|containers)\.)?(?:spec\.|resources\.)*"
    rf"(?:requests?|requested)?[.\s\[\"']*{_RESOURCE}\b[\"'\])\s]*(?:requests?|usage)?"
)


_REQUESTS = re.compile(rf"(?i)(?<![\w.]){_RESOURCE}\s+requests?\b(?:\s+of\s+(?:all\s+)?pods)?")


def sums(body: str) -> Iterator[str]:
    """`sum(pod.requests.cpu) per namespace <= 100`, `total memory per node at most 64Gi`."""
    found, amount = _SUM.search(body) or _REQUESTS.search(body), None
    if found is not None:
        rest = body[: found.start()] + body[found.end() :]
        amount = find(rf"(?P<sign>{ONLY}|{BELOW}|{ENOUGH})\s*\"?{_AMOUNT}", rest)
    if found is None or amount is None:
        return
    word = found["resource"].lower()
    name = "cpu" if word[0] == "c" else "nvidia.com/gpu" if word[0] == "g" else "memory"
    unit = habits.UNITS.get(amount[3] or "", amount[3] or "")
    kind = "at least" if find(rf"\A{ENOUGH}\Z", amount["sign"]) else "at most"
    bound = f'{kind} "{amount[2]}{unit}" {strength_of(body)}'
    owner = find(PER_OWNER, rest)
    per = re.search(PER, rest.replace(owner[0], "") if owner else rest, re.IGNORECASE)
    domain = domain_of(per["domain"]) if per is not None else "cluster" if owner else None
    if domain is None:
        return
    where = same_owner(owner["owner"].lower()) if owner else pods_of(rest) or "true"
    counted = f'sum peer.requests["{name}"] of all pods where {where}'
    yield f'limit "sum of {name}" {{ {counted} per {domain} {bound} }}'
