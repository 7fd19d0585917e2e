"""Run: asks the extender about every case, and tells for each whether it held.

What did not hold are findings, which are shown as those of `placet check` are.
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
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

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
from cli.conformance.expectations import EXPECTATIONS, answered
from cli.render import FieldFinding, FieldPlace, ReportCase
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.tree.ast import NO_SPAN

Result = Literal["pass", "fail", "warn", "not applicable"]
# The worst of several results comes first.
_ORDER: Sequence[Result] = ("fail", "warn", "pass", "not applicable")
_SEVERITIES: Mapping[Result, Severity] = {"fail": "error", "warn": "warning"}
# The line that says whether a verb is answered at all.
_ANSWERS = "C1"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """Result of a case, and why it did not hold."""

    name: str
    verb: str
    result: Result
    pod: str = ""
    reason: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ContractResult:
    """The result of a line of the contract; `reason` says why it does not apply."""

    id: str
    says: str
    result: Result
    reason: str = ""
    cases: tuple[CaseResult, ...] = ()

    @property
    def as_json(self) -> dict[str, object]:
        """The result as plain values."""
        said: dict[str, object] = {"id": self.id, "says": self.says, "result": self.result}
        return {**said, "reason": self.reason} if self.reason else said

    def findings(self, url: str) -> list[FieldFinding]:
        """The cases that did not hold, of an extender at the URL."""
        return [each for case in self.cases for each in self._findings(case, url)]

    def report(self, url: str) -> Iterator[ReportCase]:
        """A case of a report for each case, or one for the line."""
        for case in self.cases:
            lacks = case.reason if case.result == "not applicable" else ""
            name = f"{case.name} ({case.pod})" if case.pod else case.name
            yield ReportCase(f"{self.id} {self.says}", name, self._findings(case, url), lacks)
        if not self.cases:
            yield ReportCase(f"{self.id} {self.says}", self.says, skipped=self.reason)

    def _findings(self, case: CaseResult, url: str) -> list[FieldFinding]:
        if case.result not in _SEVERITIES:
            return []
        message = f"{case.name}: {case.reason}"
        found = Diagnostic(self.id, _SEVERITIES[case.result], message, NO_SPAN, notes=(case.why,))
        return [(found, FieldPlace(url, 0, f"{case.verb} about {case.pod}"))]


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
                request = body(plainest, self.cluster, self.cluster.pods[0], names=self.names)
                problems = answered(await self.caller.ask(verb, request))
                self._unanswered[verb] = next(problems, None)
        if only and any(self._unanswered.values()):
            only = {*only, _ANSWERS}  # the line that says so: the others do not apply then
        for contract in contracts():
            if not only or contract.id in only:
                begun(contract.id)
                yield await self._of_contract(contract)

    async def _of_contract(self, contract: Contract) -> ContractResult:
        if contract.not_applicable:
            return ContractResult(
                contract.id, contract.says, "not applicable", contract.not_applicable
            )
        found: list[CaseResult] = []
        for case in contract.cases:
            reason = self._not_applicable(case)
            if contract.id != _ANSWERS and self._unanswered.get(case.ask):
                reason = f"`{case.ask}` is not answered, see {_ANSWERS}"
            if reason:
                found.append(CaseResult(case.name, case.ask, "not applicable", reason=reason))
                continue
            pods = self.cluster.pods if case.way in ("once", "repeated", "apart") else ()
            found += [await self._judged(case, pod) for pod in pods or self.cluster.pods[:1]]
        result = min((each.result for each in found), key=_ORDER.index)
        lacks = found[0].reason if result == "not applicable" else ""
        return ContractResult(contract.id, contract.says, result, lacks, tuple(found))

    def _not_applicable(self, case: Case) -> str:
        if case.ask not in self.caller.paths:
            return f"`{case.ask}` is not asked"
        if case.ask == "bind" and self.api is None:
            return "bindings are seen with `--start` only"
        if case.names_only and not self.names:
            return "nodes are sent whole; `--node-cache-capable` sends names"
        if case.objects_only and self.names:
            return "names of nodes are sent"
        return ""

    async def _judged(self, case: Case, pod: Json) -> CaseResult:
        exchanges, bindings = await self._exchanges(case, pod)
        # Calls without an answer fail every case, except one that must be refused in some way.
        expected = case.expect if "refused" in case.expect else ("answered", *case.expect)
        failures = (text for name in expected for text in EXPECTATIONS[name](exchanges, bindings))
        reason = next(failures, "")
        metadata = pod["metadata"]
        return CaseResult(
            case.name,
            case.ask,
            case.otherwise if reason else "pass",
            f"{metadata.get('namespace', 'default')}/{metadata['name']}",
            reason,
            case.why if reason else "",
        )

    async def _exchanges(
        self, case: Case, pod: Json
    ) -> tuple[list[Exchange], Sequence[ReceivedBinding]]:
        """The calls of a case, and the Bindings that came meanwhile."""
        if case.ask == "bind":
            return await self._bind(case, pod)
        ask = self.caller.ask
        request = body(case, self.cluster, pod, names=self.names)
        match case.way:
            case "once":
                return [await ask(case.ask, request)], ()
            case "repeated":
                return [await ask(case.ask, request) for _ in range(case.times)], ()
            case "apart":
                every = [request, *_one_by_one(request)]
                return [await ask(case.ask, each) for each in every], ()
            case "at-once":
                calls = (ask(case.ask, request) for _ in range(case.times))
                return list(await asyncio.gather(*calls)), ()
            case "text":
                await ask(case.ask, case.text.encode())
                return [await ask(case.ask, request)], ()
            case "slow":
                async with slow_clients(self.caller, case.ask, request):
                    return [await ask(case.ask, request)], ()
            case "broken":
                await broken_clients(self.caller, case.ask, request)
                return [await ask(case.ask, request)], ()
            case "idle":
                seconds = self.idle_seconds
                return [await idle_client(self.caller, case.ask, request, seconds)], ()

    async def _bind(
        self, case: Case, like: Json
    ) -> tuple[list[Exchange], Sequence[ReceivedBinding]]:
        """Calls of bind about a new pod. A case of way `apart` names another node each time."""
        assert self.api is not None
        pod = deepcopy(like)
        name = f"{pod['metadata']['name']}-{next(self._numbers)}"
        pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
        pod["spec"].pop("nodeName", None)
        self.api.add_pod({"kind": "Pod", "apiVersion": "v1", **pod})
        await asyncio.sleep(self.seen_seconds)
        before = len(self.api.bindings)
        request = body(case, self.cluster, pod, names=self.names)
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
    if request["NodeNames"] is not None:
        for name in request["NodeNames"]:
            yield request | {"NodeNames": [name]}
    else:
        for node in request["Nodes"]["items"]:
            yield request | {"Nodes": request["Nodes"] | {"items": [node]}}
