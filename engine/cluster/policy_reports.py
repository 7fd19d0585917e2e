"""PolicyReports: objects of the policy working group, which other tools read.

There is a report for each policy in audit mode and each namespace in which it would have rejected
pods. They are written only where the cluster has this kind (wgpolicyk8s.io/v1alpha2), and belong to
the object of the policy: they go with it. PolicyReports belong to whoever writes, and live as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import msgspec

from engine.cluster.client import Api, path_of
from engine.cluster.events import Regarding
from engine.decision.audit_log import AuditedPod
from engine.errors import ApiError
from grammar.values.time import SECOND

GROUP = "wgpolicyk8s.io/v1alpha2"
_API = f"/apis/{GROUP}"
# The results of a report: the newest.
MOST_RESULTS = 100
_LONGEST_NAME = 253
_LABEL, _VALUE = "app.kubernetes.io/managed-by", "placet"
_LIST = f"{_API}/policyreports?labelSelector={_LABEL}%3D{_VALUE}"

Key = tuple[str, str]


class _ReportMetadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _Report(msgspec.Struct):
    metadata: _ReportMetadata


class _Reports(msgspec.Struct):
    items: list[_Report] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The pods of a namespace that a policy in audit mode would have rejected, the newest first."""

    policy: Regarding
    namespace: str
    pods: Iterable[AuditedPod]


class PolicyReports:
    """Writes reports, and keeps a digest of each as it was written last. On one event loop."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._written: dict[Key, bytes] = {}

    async def write(self, reports: Iterable[AuditReport], audited: Iterable[Regarding]) -> bool:
        """Writes the reports that have changed, and deletes those of policies no longer `audited`.

        Returns whether the cluster has reports. Raises ApiError and ApiUnreachableError.
        """
        try:
            body = await self._api.request("GET", _LIST)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                self._written.clear()
                return False
            raise
        items = msgspec.json.decode(body, type=_Reports).items
        there = {(each.metadata.namespace, each.metadata.name) for each in items}
        # Of an audit before the last start nothing is left here, but its report stays.
        names = {_name(policy) for policy in audited}
        wanted = {(each.namespace, _name(each.policy)): _encoded(each) for each in reports}
        self._written = {k: v for k, v in self._written.items() if k in there and k in wanted}
        for key, content in wanted.items():
            digest = sha256(content).digest()
            if self._written.get(key) != digest:
                path = f"{path_of(_API, 'policyreports', *key)}?fieldManager=placet&force=true"
                await self._api.request(
                    "PATCH", path, body=content, content_type="application/apply-patch+yaml"
                )
                self._written[key] = digest
        for key in there - wanted.keys():
            if key[1] not in names:
                await self._delete(key)
        return True

    async def _delete(self, key: Key) -> None:
        try:
            await self._api.request("DELETE", path_of(_API, "policyreports", *key))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def _name(policy: Regarding) -> str:
    name = f"placet-{policy.kind.lower()}-{policy.name}"
    return name[:_LONGEST_NAME].rstrip("-.")


def _encoded(report: AuditReport) -> bytes:
    policy = report.policy
    results = [_result(pod, policy) for pod in report.pods][:MOST_RESULTS]
    found = [result["result"] for result in results]
    owner = {
        "apiVersion": policy.api_version,
        "kind": policy.kind,
        "name": policy.name,
        "uid": policy.uid,
    }
    document = {
        "apiVersion": GROUP,
        "kind": "PolicyReport",
        "metadata": {
            "name": _name(policy),
            "namespace": report.namespace,
            "labels": {_LABEL: _VALUE},
            "ownerReferences": [owner],
        },
        "summary": {
            "pass": 0,
            "fail": found.count("fail"),
            "warn": found.count("warn"),
            "error": 0,
            "skip": 0,
        },
        "results": results,
    }
    return msgspec.json.encode(document)


def _result(pod: AuditedPod, policy: Regarding) -> Mapping[str, Any]:
    """`fail` for a pod that would have waited, `warn` for one that would have gone elsewhere."""
    if pod.would_wait:
        text = f"it leaves the pod none of {pod.offered} nodes"
    else:
        text = f"it rejects {pod.rejected} of {pod.offered} nodes, and the pod is on one of them"
    address = f"{policy.namespace}/{policy.name}" if policy.namespace else policy.name
    properties = {"since": str(pod.since), "workload": pod.workload, "node": pod.node}
    return {
        "source": "Placet",
        "policy": address,
        "rule": pod.clauses[0][0],
        "category": "Placement",
        "result": "fail" if pod.would_wait else "warn",
        "scored": False,
        "message": f"the policy is in audit mode: {text}",
        "timestamp": {"seconds": pod.at.nanos // SECOND, "nanos": 0},
        "resources": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            }
        ],
        "properties": {key: value for key, value in properties.items() if value},
    }
