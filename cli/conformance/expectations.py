"""Expectations: the checks that `cases.yaml` names; each says what is wrong with answers.

Keys of answers are compared in any case, as Go does (C5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import chain
from typing import Any

from cli.conformance.api_server import ReceivedBinding
from cli.conformance.exchange import Exchange
from grammar.messages.catalogue import listed

# kube-scheduler cuts longer texts in events (C23).
_LONGEST_REASON = 1024
_MOST_POINTS = 10
_NAMED = 3

Json = Mapping[str, Any]
# Looks at answers, and at the Bindings that the API server got meanwhile; the first that is wrong
# with them counts.
Expectation = Callable[[Sequence[Exchange], Sequence[ReceivedBinding]], Iterator[str]]


# ---- every answer


def answered(each: Exchange) -> Iterator[str]:
    """Status 200 with one JSON value of the verb's kind (C1, C3, C4)."""
    wanted = list if each.verb == "prioritize" else dict
    if each.error:
        yield each.error
    elif 300 <= each.status < 400:
        yield f"the answer is a redirect, {each.status}"
    elif each.status != 200:
        yield f"the answer has status {each.status}: {_excerpt(each.text)}"
    elif each.malformed:
        yield each.malformed
    elif not isinstance(each.value, wanted) and not (each.verb == "prioritize" and not each.value):
        yield f"the answer is {_kind(each.value)} in place of {_KINDS[wanted]}"


def no_error(each: Exchange) -> Iterator[str]:
    """`Error` is empty (C18, C30)."""
    if text := member(each.value, "Error"):
        yield f"`Error` says: {_excerpt(str(text).encode())}"


def same_answers(exchanges: Sequence[Exchange], _: Sequence[ReceivedBinding]) -> Iterator[str]:
    """Calls about the same give the same, texts and order included (C47)."""
    first = exchanges[0]
    for number, each in enumerate(exchanges[1:], 2):
        if each.value == first.value:
            continue
        for key in ("FailedNodes", "FailedAndUnresolvableNodes"):
            was, now = members(first.value, key), members(each.value, key)
            for node in was.keys() & now.keys():
                if was[node] != now[node]:
                    yield f"the text for node `{node}` was `{was[node]}` and is `{now[node]}`"
        yield f"call {number} has another answer than call 1"


# ---- filter


def known_names(each: Exchange) -> Iterator[str]:
    """Accepted names are names of the request (C19)."""
    return _strangers(each, accepted(each), "accepted")


def known_failed(each: Exchange) -> Iterator[str]:
    """Rejected names are names of the request."""
    return _strangers(each, rejected(each.value), "rejected")


def same_objects(each: Exchange) -> Iterator[str]:
    """Whole nodes come back as they were sent (C20); absent and empty fields are the same."""
    sent = {node["metadata"]["name"]: node for node in items(each.request)}
    for node in items(each.value):
        name = _name_of(node)
        if name in sent and (lost := _difference(sent[name], node)):
            yield f"node `{name}` comes back with another `{lost}`"


def accepted_are_named(each: Exchange) -> Iterator[str]:
    """Accepted nodes are in the field that kube-scheduler reads (C21)."""
    field = "NodeNames" if member(each.request, "NodeNames") is not None else "Nodes"
    if member(each.value, field) is None and not member(each.value, "Error"):
        left = set(requested(each.request)) - rejected(each.value).keys()
        if left:
            yield f"`{field}` is null, and {_some(left)} not rejected"


def disjoint(each: Exchange) -> Iterator[str]:
    """No node is in two parts of the answer (C22, C24)."""
    parts = [
        *accepted(each),
        *members(each.value, "FailedNodes"),
        *members(each.value, "FailedAndUnresolvableNodes"),
    ]
    if twice := [name for name, count in Counter(parts).items() if count > 1]:
        yield f"{_some(twice)} in two parts of the answer"


def complete(each: Exchange) -> Iterator[str]:
    """Every node of the request is accepted or rejected with a reason (C22, C24)."""
    said = {*accepted(each), *rejected(each.value)}
    lacking = [name for name in requested(each.request) if name not in said]
    if lacking and not member(each.value, "Error"):
        yield f"{_some(lacking)} neither accepted nor rejected"


def reasons(each: Exchange) -> Iterator[str]:
    """Every rejected node has a text of at most 1024 characters (C23)."""
    for node, text in rejected(each.value).items():
        if not isinstance(text, str) or not text.strip():
            yield f"node `{node}` is rejected without a reason"
        elif len(text) > _LONGEST_REASON:
            yield f"the reason for node `{node}` has {len(text)} characters"


def alone_as_together(exchanges: Sequence[Exchange], _: Sequence[ReceivedBinding]) -> Iterator[str]:
    """A node passes alone as it passes among others (C12, C13). The first call has all nodes."""
    together = set(accepted(exchanges[0]))
    for each in exchanges[1:]:
        (node,) = requested(each.request)
        alone = node in accepted(each)
        if alone != (node in together):
            first, then = ("accepts", "rejects") if node in together else ("rejects", "accepts")
            yield f"the call with all nodes {first} `{node}`, and the call with it alone {then} it"


def unresolvable(each: Exchange) -> Iterator[str]:
    """Nodes are rejected in `FailedAndUnresolvableNodes`, unless an eviction would help (C48)."""
    if failed := members(each.value, "FailedNodes"):
        yield f"{_some(failed)} in `FailedNodes`"


# ---- prioritize


def integers(each: Exchange) -> Iterator[str]:
    """Scores are written as integers (C26)."""
    for host, score in _scores(each.value):
        if not isinstance(score, int) or isinstance(score, bool):
            yield f"the score of `{host}` is {score!r}"


def in_range(each: Exchange) -> Iterator[str]:
    """Scores are 0 to 10 (C27)."""
    for host, score in _scores(each.value):
        if isinstance(score, int | float) and not 0 <= score <= _MOST_POINTS:
            yield f"the score of `{host}` is {score}"


def known_hosts(each: Exchange) -> Iterator[str]:
    """Hosts are nodes of the request."""
    return _strangers(each, (host for host, _ in _scores(each.value)), "a host")


def every_host_once(each: Exchange) -> Iterator[str]:
    """Every node of the request has one score, or no node has one (C25, C51)."""
    hosts = Counter(host for host, _ in _scores(each.value))
    if twice := [host for host, count in hosts.items() if count > 1]:
        yield f"{_some(twice)} listed twice"
    lacking = [name for name in requested(each.request) if name not in hosts]
    if hosts and lacking:
        yield f"{_some(lacking)} without a score"


# ---- preempt


def meta_victims(each: Exchange) -> Iterator[str]:
    """Candidates are in `NodeNameToMetaVictims` (C36)."""
    if not isinstance(member(each.value, "NodeNameToMetaVictims"), dict):
        other = "NodeNameToVictims"
        there = f", but `{other}`" if members(each.value, other) else ""
        yield f"there is no `NodeNameToMetaVictims`{there}"


def known_candidates(each: Exchange) -> Iterator[str]:
    """Candidates and victims are those of the request (C38)."""
    given = asked_victims(each.request)
    for node, victims in candidates(each.value).items():
        if node not in given:
            yield f"node `{node}` is a candidate that the request does not have"
        for uid in _uids(victims):
            if uid not in given.get(node, ()):
                yield f"node `{node}` has victim `{uid}`, which the request does not have"


def no_nulls(each: Exchange) -> Iterator[str]:
    """No node and no victim is null (C39)."""
    for node, victims in candidates(each.value).items():
        if victims is None:
            yield f"node `{node}` is null"
        if any(pod is None for pod in member(victims, "Pods") or ()):
            yield f"node `{node}` has a victim that is null"


def victims_left(each: Exchange) -> Iterator[str]:
    """A candidate has victims, as it had in the request (C40)."""
    for node, victims in candidates(each.value).items():
        if not _uids(victims):
            yield f"node `{node}` has no victims"


def victims_in_order(each: Exchange) -> Iterator[str]:
    """Victims keep their order (C41)."""
    given = asked_victims(each.request)
    for node, victims in candidates(each.value).items():
        kept = [uid for uid in _uids(victims) if uid in given.get(node, ())]
        if kept != [uid for uid in given.get(node, ()) if uid in kept]:
            yield f"the victims of node `{node}` are in another order"


def violations_kept(each: Exchange) -> Iterator[str]:
    """A candidate with all its victims has their `NumPDBViolations` (C41)."""
    asked = candidates(each.request) or members(each.request, "NodeNameToVictims")
    given = asked_victims(each.request)
    for node, victims in candidates(each.value).items():
        if node not in given or _uids(victims) != given[node]:
            continue
        was = member(asked[node], "NumPDBViolations") or 0
        now = member(victims, "NumPDBViolations") or 0
        if was != now:
            yield f"node `{node}` has {now} `NumPDBViolations` in place of {was}"


# ---- the parts of requests and answers


def member(value: Any, key: str) -> Any:
    """The value of a key in any case, or None."""
    if not isinstance(value, dict):
        return None
    if key in value:
        return value[key]
    return next((each for name, each in value.items() if name.lower() == key.lower()), None)


def members(value: Any, key: str) -> Json:
    """The object under a key, empty if there is none."""
    found = member(value, key)
    return found if isinstance(found, dict) else {}


def items(value: Any) -> Sequence[Json]:
    """The whole nodes of a request or an answer."""
    found = member(member(value, "Nodes"), "items")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else ()


def requested(request: Any) -> list[str]:
    """The names of the nodes of a request, in their order."""
    names = member(request, "NodeNames")
    return list(names) if names is not None else [_name_of(node) for node in items(request)]


def accepted(exchange: Exchange) -> list[str]:
    """The nodes that an answer of filter accepts, in the field that kube-scheduler reads."""
    if member(exchange.request, "NodeNames") is None:
        return [_name_of(node) for node in items(exchange.value)]
    names = member(exchange.value, "NodeNames")
    return [str(name) for name in names] if isinstance(names, list) else []


def rejected(value: Any) -> dict[str, Any]:
    """The nodes that an answer of filter rejects, with their texts."""
    return {**members(value, "FailedNodes"), **members(value, "FailedAndUnresolvableNodes")}


def candidates(value: Any) -> Json:
    """The candidates of a request or an answer of preempt."""
    return members(value, "NodeNameToMetaVictims")


def asked_victims(request: Any) -> dict[str, list[str]]:
    """The uids of the victims in a request of preempt, by node."""
    whole = members(request, "NodeNameToVictims")
    named = {
        node: [pod["metadata"]["uid"] for pod in member(each, "Pods") or ()]
        for node, each in whole.items()
    }
    return named or {node: _uids(each) for node, each in candidates(request).items()}


def _uids(victims: Any) -> list[str]:
    return [str(member(pod, "UID")) for pod in member(victims, "Pods") or () if pod is not None]


def _scores(value: Any) -> list[tuple[str, Any]]:
    found = value if isinstance(value, list) else ()
    return [(str(member(each, "Host")), member(each, "Score")) for each in found]


def _name_of(node: Json) -> str:
    return str(member(member(node, "metadata"), "name"))


def _strangers(each: Exchange, names: Iterable[str], what: str) -> Iterator[str]:
    """The names in an answer that the request does not have."""
    known = set(requested(each.request))
    return (f"`{name}` is {what} and is not in the request" for name in names if name not in known)


def _difference(sent: Any, back: Any, path: str = "") -> str:
    """The path of the first field that differs; absent, empty and zero are the same, as in Go."""
    if _is_zero(sent) and _is_zero(back):
        return ""
    if isinstance(sent, dict) and isinstance(back, dict):
        for key in {**sent, **back}:
            found = _difference(sent.get(key), back.get(key), f"{path}.{key}" if path else key)
            if found:
                return found
        return ""
    if isinstance(sent, list) and isinstance(back, list) and len(sent) == len(back):
        for number, (one, other) in enumerate(zip(sent, back, strict=True)):
            if found := _difference(one, other, f"{path}[{number}]"):
                return found
        return ""
    return "" if sent == back else path


def _is_zero(value: Any) -> bool:
    """Whether Go leaves the value out, or writes it where nothing was: `{"port": {"Port": 0}}`."""
    if isinstance(value, dict):
        return all(map(_is_zero, value.values()))
    return not value


_KINDS: Mapping[type, str] = {list: "an array", dict: "an object"}


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a single value")


def _some(names: Iterable[str]) -> str:
    """`nodes a, b and c are` or `node a is`, of many the first few."""
    every = sorted(names)
    shown = [f"`{name}`" for name in every[:_NAMED]]
    if len(every) > _NAMED:
        shown.append(f"{len(every) - _NAMED} more")
    return f"node {shown[0]} is" if len(every) == 1 else f"nodes {listed(shown, 'and')} are"


def _excerpt(text: bytes) -> str:
    found = " ".join(text[:300].decode("utf-8", "replace").split())
    return found or "no text"


def _of_each(check: Callable[[Exchange], Iterator[str]]) -> Expectation:
    """The check of every answer, where one alone can be wrong."""
    return lambda exchanges, _: chain.from_iterable(map(check, exchanges))


# ---- bind


def bound(exchanges: Sequence[Exchange], bindings: Sequence[ReceivedBinding]) -> Iterator[str]:
    """An answer without an error has a Binding (C44)."""
    node = exchanges[0].request["Node"]
    made = [each for each in bindings if each.status == HTTPStatus.CREATED]
    if text := member(exchanges[0].value, "Error"):
        yield f"`Error` says: {text}"
    elif not made:
        yield "the API server got no Binding"
    elif made[0].node != node:
        yield f"the pod is bound to `{made[0].node}` in place of `{node}`"


def uid_sent(exchanges: Sequence[Exchange], bindings: Sequence[ReceivedBinding]) -> Iterator[str]:
    """The Binding has the pod's uid as its precondition (C43)."""
    uid = exchanges[0].request["PodUID"]
    if any(each.uid != uid for each in bindings):
        yield "the Binding does not have the uid of the pod"


def refused(exchanges: Sequence[Exchange], _: Sequence[ReceivedBinding]) -> Iterator[str]:
    """The last answer is a failure of some kind, because no binding was made (C44)."""
    last = exchanges[-1]
    if not last.error and last.status == HTTPStatus.OK and not member(last.value, "Error"):
        yield "`Error` is empty, and the pod is not bound to the node"


_OF_EACH = (
    *(answered, no_error, known_names, known_failed, same_objects, accepted_are_named, disjoint),
    *(complete, reasons, unresolvable, integers, in_range, known_hosts, every_host_once),
    *(meta_victims, known_candidates, no_nulls, victims_left, victims_in_order, violations_kept),
)
_OF_ALL: Sequence[tuple[str, Expectation]] = (
    ("same-answers", same_answers),
    ("alone-as-together", alone_as_together),
    ("bound", bound),
    ("uid-sent", uid_sent),
    ("refused", refused),
)
EXPECTATIONS: Mapping[str, Expectation] = {
    **{each.__name__.replace("_", "-"): _of_each(each) for each in _OF_EACH},
    **dict(_OF_ALL),
}
