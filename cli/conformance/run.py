"""Run: asks the extender about every case, and tells for each whether it held.

`cases.yaml` names the checks, each of which says what is wrong with answers. Keys of answers are
compared in any case, as Go does (C5). What did not hold are findings, which are shown as those of
`placet check` are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, Literal

from cli.conformance.api_server import ReceivedBinding, StandInApi
from cli.conformance.exchange import (
    Caller,
    Case,
    ConformanceCluster,
    Contract,
    Exchange,
    Json,
    body,
    broken_clients,
    contracts,
    idle_client,
    slow_clients,
)
from cli.render import FieldPlace, ReportCase, ReportFinding, fails
from grammar.messages.catalogue import listed
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.tree.ast import NO_SPAN

# kube-scheduler cuts longer texts in events (C23).
_LONGEST_REASON = 1024
_MOST_POINTS = 10
_NAMED = 3

# Looks at answers, and at the Bindings that the API server got meanwhile; the first that is wrong
# with them counts.
Expectation = Callable[[Sequence[Exchange], Sequence[ReceivedBinding]], Iterator[str]]


# ---- every answer


def answered(each: Exchange) -> Iterator[str]:
    """Status 200 with one JSON value of the verb's type (C1, C3, C4)."""
    if each.error:
        yield each.error
    elif 300 <= each.status < 400:
        yield f"the answer is a redirect, {each.status}"
    elif each.status != 200:
        yield f"the answer has status {each.status}: {_excerpt(each.text)}"
    elif each.malformed:
        yield each.malformed


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
    """Accepted names and hosts of scores are names of the request (C19)."""
    yield from _strangers(each, "accepted", accepted(each))
    yield from _strangers(each, "a host", [host for host, _ in _scores(each.value)])


def known_failed(each: Exchange) -> Iterator[str]:
    """Rejected names are names of the request (C24)."""
    return _strangers(each, "rejected", rejected(each.value))


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
        if not text or not text.strip():
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


def in_range(each: Exchange) -> Iterator[str]:
    """Scores are 0 to 10 (C27)."""
    for host, score in _scores(each.value):
        if not 0 <= (score or 0) <= _MOST_POINTS:
            yield f"the score of `{host}` is {score}"


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
    given = candidates(request) or members(request, "NodeNameToVictims")
    return {node: _uids(each) for node, each in given.items()}


def _uids(victims: Any) -> list[str]:
    pods = (pod for pod in member(victims, "Pods") or () if pod is not None)
    return [str(member(pod, "UID") or member(member(pod, "metadata"), "uid")) for pod in pods]


def _scores(value: Any) -> list[tuple[str, Any]]:
    found = value if isinstance(value, list) else ()
    return [(str(member(each, "Host")), member(each, "Score")) for each in found]


def _name_of(node: Json) -> str:
    return str(member(member(node, "metadata"), "name"))


def _strangers(each: Exchange, what: str, names: Iterable[str]) -> Iterator[str]:
    """The names in an answer that the request does not have."""
    known = set(requested(each.request))
    return (f"`{name}` is {what} and is not in the request" for name in names if name not in known)


def _difference(sent: Any, back: Any, path: str = "") -> str:
    """The path of the first field that differs; absent, empty and zero are the same, as in Go."""
    if _is_zero(sent) and _is_zero(back):
        return ""
    parts: Iterable[tuple[str, Any, Any]]
    if isinstance(sent, dict) and isinstance(back, dict):
        names = {**sent, **back}
        parts = ((f"{path}.{name}".strip("."), sent.get(name), back.get(name)) for name in names)
    elif isinstance(sent, list) and isinstance(back, list) and len(sent) == len(back):
        pairs = enumerate(zip(sent, back, strict=True))
        parts = ((f"{path}[{number}]", *pair) for number, pair in pairs)
    else:
        return "" if sent == back else path
    return next(filter(None, (_difference(one, other, at) for at, one, other in parts)), "")


def _is_zero(value: Any) -> bool:
    """Whether Go leaves the value out, or writes it where nothing was: `{"port": {"Port": 0}}`."""
    if isinstance(value, dict):
        return all(map(_is_zero, value.values()))
    return not value


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
    *(complete, reasons, unresolvable, in_range, every_host_once),
    *(meta_victims, known_candidates, no_nulls, victims_left, victims_in_order, violations_kept),
)
_OF_ALL = (same_answers, alone_as_together, bound, uid_sent, refused)
_CHECKS = [(each, _of_each(each)) for each in _OF_EACH] + [(each, each) for each in _OF_ALL]
EXPECTATIONS: Mapping[str, Expectation] = {
    each.__name__.replace("_", "-"): check for each, check in _CHECKS
}


Result = Literal["pass", "fail", "warn", "not applicable"]
# The line that says whether a verb is answered at all.
_ANSWERS = "C1"


@dataclass(frozen=True, slots=True)
class ContractResult:
    """The result of a line of the contract, as the cases of a report; a skipped one says why."""

    id: str
    says: str
    cases: Sequence[ReportCase]

    @property
    def findings(self) -> Sequence[ReportFinding]:
        """What did not hold."""
        return [finding for case in self.cases for finding in case.findings]

    @property
    def result(self) -> Result:
        if self.findings:
            return "fail" if fails(self.findings) else "warn"
        return "not applicable" if all(case.skipped for case in self.cases) else "pass"

    @property
    def reason(self) -> str:
        """Why the line does not apply."""
        return self.cases[0].skipped if self.result == "not applicable" else ""

    @property
    def as_json(self) -> dict[str, object]:
        """The result as plain values."""
        said: dict[str, object] = {"id": self.id, "says": self.says, "result": self.result}
        return {**said, "reason": self.reason} if self.reason else said


def counts(results: Iterable[ContractResult]) -> str:
    """`39 passed, 0 failed, 0 with warnings, 13 not applicable`."""
    found = Counter(each.result for each in results)
    return (
        f"{found['pass']} passed, {found['fail']} failed, {found['warn']} with warnings, "
        f"{found['not applicable']} not applicable"
    )


@dataclass(eq=False, slots=True)
class Conformance:
    """A conformance run, which holds one extender to the contract."""

    caller: Caller
    cluster: ConformanceCluster
    api: StandInApi | None
    # Whether names of nodes are sent.
    names: bool
    idle_seconds: float
    # Informers of the extender see a new pod before they are asked to bind it.
    seen_seconds: float = 0.5
    _numbers: Iterator[int] = field(default_factory=itertools.count, init=False)
    # Why a verb gives no answer at all, by verb: then all other lines would say the same.
    _unanswered: dict[str, str | None] = field(default_factory=dict, init=False)

    async def results(
        self, only: Collection[str], begun: Callable[[str], None]
    ) -> AsyncIterator[ContractResult]:
        """Each line of the contract, or those that are named; `begun` is told what comes."""
        for verb in self.caller.paths:
            if verb != "bind":
                plainest = Case("plain", verb, (), "")
                request = self._body(plainest, self.cluster.pods[0])
                problems = answered(await self.caller.ask(verb, request))
                self._unanswered[verb] = next(problems, None)
        if only and any(self._unanswered.values()):
            only = {*only, _ANSWERS}  # the line that says so: the others do not apply then
        for contract in contracts():
            if not only or contract.id in only:
                begun(contract.id)
                yield await self._of_contract(contract)

    async def _of_contract(self, contract: Contract) -> ContractResult:
        suite, found = f"{contract.id} {contract.says}", list[ReportCase]()
        if contract.not_applicable:
            found.append(ReportCase(suite, contract.says, skipped=contract.not_applicable))
        for case in contract.cases:
            reason = self._not_applicable(case)
            if contract.id != _ANSWERS and self._unanswered.get(case.ask):
                reason = f"`{case.ask}` is not answered, see {_ANSWERS}"
            if reason:
                found.append(ReportCase(suite, case.name, skipped=reason))
                continue
            pods = self.cluster.pods if case.way in ("once", "repeated", "apart") else ()
            for pod in pods or self.cluster.pods[:1]:
                metadata = pod["metadata"]
                name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
                where = FieldPlace(self.caller.url, 0, f"{case.ask} about {name}")
                findings = [(d, where) for d in await self._judged(contract.id, case, pod)]
                found.append(ReportCase(suite, f"{case.name} ({name})", findings))
        return ContractResult(contract.id, contract.says, found)

    def _not_applicable(self, case: Case) -> str:
        if case.ask not in self.caller.paths:
            return f"`{case.ask}` is not asked"
        if case.ask == "bind" and case.expect and self.api is None:
            return "bindings are seen with `--start` only"
        if case.names_only and not self.names:
            return "nodes are sent whole; `--node-cache-capable` sends names"
        if case.objects_only and self.names:
            return "names of nodes are sent"
        return ""

    async def _judged(self, code: str, case: Case, pod: Json) -> Sequence[Diagnostic]:
        """The first thing that is wrong, if there is any."""
        exchanges, bindings = await self._exchanges(case, pod)
        # Calls without an answer fail every case, except one that must be refused in some way.
        expected = case.expect if "refused" in case.expect else ("answered", *case.expect)
        wrong = (text for name in expected for text in EXPECTATIONS[name](exchanges, bindings))
        # What Go does not decode fails the call, whatever the case is about.
        fails = case.otherwise == "fail" or any(each.malformed for each in exchanges)
        severity: Severity = "error" if fails else "warning"
        return [
            Diagnostic(code, severity, f"{case.name}: {text}", NO_SPAN, notes=(case.why,))
            for text in islice(wrong, 1)
        ]

    async def _exchanges(
        self, case: Case, pod: Json
    ) -> tuple[list[Exchange], Sequence[ReceivedBinding]]:
        """The calls of a case, and the Bindings that came meanwhile."""
        if case.ask == "bind":
            return await self._bind(case, pod)
        ask, request = partial(self.caller.ask, case.ask), self._body(case, pod)
        requests = [request]
        if case.way in ("repeated", "at-once"):
            requests *= case.times
        elif case.way == "apart":
            requests += _one_by_one(request)
        elif case.way == "text":
            await ask(case.text.encode())
        elif case.way == "broken":
            await broken_clients(self.caller, case.ask, request)
        elif case.way == "idle":
            return [await idle_client(self.caller, case.ask, request, self.idle_seconds)], ()
        if case.way == "at-once":
            return await asyncio.gather(*map(ask, requests)), ()
        slow = slow_clients(self.caller, case.ask, request) if case.way == "slow" else nullcontext()
        async with slow:
            return [await ask(each) for each in requests], ()

    def _body(self, case: Case, pod: Json) -> Json:
        return body(case, self.cluster, pod, names=self.names)

    async def _bind(
        self, case: Case, like: Json
    ) -> tuple[list[Exchange], Sequence[ReceivedBinding]]:
        """Calls of bind about a new pod. A case of way `apart` names another node each time.

        Without the stand-in of an API server there is no such pod.
        """
        pod = deepcopy(like)
        name = f"{pod['metadata']['name']}-{next(self._numbers)}"
        pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
        pod["spec"].pop("nodeName", None)
        if self.api is None:
            return [await self.caller.ask("bind", self._body(case, pod))], ()
        self.api.add("pods", {"kind": "Pod", "apiVersion": "v1", **pod})
        await asyncio.sleep(self.seen_seconds)
        before = len(self.api.bindings)
        request = self._body(case, pod)
        requests = [request] * (case.times if case.way == "repeated" else 1)
        if case.way == "apart":
            other = self.cluster.first(2)[1]["metadata"]["name"]
            requests.append(request | {"Node": other})
        self.api.refuses_bindings = case.way == "broken"
        try:
            exchanges = [await self.caller.ask("bind", each) for each in requests]
        finally:
            self.api.refuses_bindings = False
        return exchanges, self.api.bindings[before:]


def _one_by_one(request: Json) -> Iterator[Json]:
    """The request about each of its nodes alone."""
    nodes = request["Nodes"]
    for name in request["NodeNames"] or ():
        yield request | {"NodeNames": [name]}
    for node in nodes["items"] if nodes is not None else ():
        yield request | {"Nodes": nodes | {"items": [node]}}
