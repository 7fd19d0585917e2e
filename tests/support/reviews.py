"""AdmissionReviews as an API server sends them, and the reading of the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.support.builders import GROUP, Object
from tests.support.served import Served

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
ALLOWED = {"allowed": True}
_RESOURCES = {
    "PlacementPolicy": "placementpolicies",
    "ClusterPlacementPolicy": "clusterplacementpolicies",
}


def review(value: Object | None, operation: str = "CREATE", **request: Any) -> Object:
    """A review of an object; `request` adds or replaces fields of its request."""
    known = value or {}
    group, _, version = known.get("apiVersion", f"{GROUP}/v1").partition("/")
    metadata = known.get("metadata", {})
    resource = _RESOURCES.get(known.get("kind", "PlacementPolicy"), "others")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": group, "version": version, "kind": known.get("kind", "")},
            "resource": {"group": group, "version": version, "resource": resource},
            "requestKind": {"group": group, "version": version, "kind": known.get("kind", "")},
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
            "operation": operation,
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "object": value,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        },
    }


def raw_review(raw: bytes) -> bytes:
    """A review whose object has these bytes, JSON or not."""
    text = msgspec.json.encode(review(None, object="OBJECT"))
    return text.replace(b'"OBJECT"', raw)


async def responded(served: Served, body: object, path: str = "validate") -> Any:
    """The response to a readable review, without its uid."""
    answer = await served.post(f"/admission/{path}?timeout=30s", body)
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    assert {k: answer.json[k] for k in ("apiVersion", "kind")} == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
    }
    found = answer.json["response"]
    assert found.pop("uid") == UID
    return found


async def refused(served: Served, body: object) -> list[str]:
    """The lines of the message of a refused object."""
    found = await responded(served, body)
    assert not found["allowed"]
    status = found["status"]
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 422, "Invalid")
    lines: list[str] = status["message"].split("\n")
    return lines


# ---- an API server that gives the same answer to every GET


@dataclass
class OneAnswerApi:
    """Answers with an object, or raises an error; `asked` are the paths so far."""

    answer: Object | Exception
    asked: list[str] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
        timeout_seconds: float = 0.0,
    ) -> bytes:
        assert (method, body, content_type) == ("GET", None, "")
        assert timeout_seconds > 0
        self.asked.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps(self.answer).encode()
