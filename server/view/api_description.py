"""Description: the API of the view as an OpenAPI document, made of the structs of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any

import msgspec

from engine.drift.drift_document import DriftDocument
from engine.explanation.decision_document import AuditList, DecisionDetail, Listing
from engine.explanation.document import PodExplanation
from engine.simulation.simulation_document import SimulationAnswer
from server.answers.overview_answers import (
    FillList,
    FoundList,
    NumberHistory,
    ReplicaOverview,
    RevisionList,
    SelectedPods,
    WaitingList,
    WorkloadDetail,
)
from server.answers.simulation_answers import SimulationQuestion
from server.answers.view_answers import (
    CheckedDraft,
    CompletedDraft,
    DescribedName,
    DraftObjects,
    DraftSession,
    DraftText,
    PastedPod,
    Point,
    PolicyDetail,
    PolicyList,
    ReplicaStatus,
    Trial,
    TriedDraft,
)

API = "/api/v1"
VERSION = "1"
# A request with a draft has the token in this header.
TOKEN_HEADER = "Placet-Token"  # noqa: S105 - the name of a header
MOST_LISTED, MOST_HOURS = 1000, 168
_SCHEMAS = "#/components/schemas/{name}"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its answer, what it is asked with, and when it fails, by status."""

    path: str
    name: str
    summary: str
    answer: type
    body: type | None = None
    parameters: Sequence[Json] = ()
    fails: Mapping[int, str] = field(default_factory=dict)


def _in_path(name: str, what: str) -> Json:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": what, "schema": schema}


def _in_query(name: str, what: str, **schema: object) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": what,
        "schema": schema or {"type": "string"},
    }


_POD = (_in_path("namespace", "the namespace of the pod"), _in_path("name", "the pod"))
_NO_TOKEN = f"the header `{TOKEN_HEADER}` has not the token of this start"
_BUSY = "another request of this kind has not ended"
_OF_DRAFTS = {
    400: "a body that is no draft",
    401: _NO_TOKEN,
    413: "a body that is too large",
    415: "a body that is compressed",
    422: "a draft that takes too much time or memory",
    429: _BUSY,
}
OPERATIONS: Sequence[Operation] = (
    Operation(
        "/decisions",
        "decisions",
        "the last decisions, newest first",
        Listing,
        parameters=(
            _in_query(
                "limit", "the most decisions", type="integer", minimum=1, maximum=MOST_LISTED
            ),
            _in_query("namespace", "only those about pods of this namespace"),
        ),
        fails={400: "a `limit` that is no number from 1 to 1000"},
    ),
    Operation(
        "/decisions/{namespace}/{name}",
        "decision",
        "the last decision about a pod",
        DecisionDetail,
        parameters=_POD,
        fails={404: "no decision about the pod is kept"},
    ),
    Operation("/status", "status", "the state of the replica and of what it knows", ReplicaStatus),
    Operation(
        "/explain/{namespace}/{name}",
        "explain",
        "what would be decided about a pod now, and why",
        PodExplanation,
        parameters=(
            *_POD,
            _in_query("node", "a node, of which each clause is shown with the values that it read"),
        ),
        fails={
            404: "there is no such pod or node",
            409: "a policy with errors keeps the pod waiting",
            429: _BUSY,
            503: "the replica does not know the cluster, or cannot read the pod",
        },
    ),
    Operation(
        "/overview",
        "overview",
        "the cluster at a glance: nodes, numbers of pods, and the last edits of policies",
        ReplicaOverview,
        parameters=(
            _in_query("label", "the label by whose values nodes are grouped; the zone without one"),
            _in_query("policy", "with `clause`: a bound, to be told how full it is on each node"),
            _in_query("clause", "the clause of the bound"),
            _in_query("of", "the workload of the bound, if it is of workloads"),
        ),
    ),
    Operation("/waiting", "waiting", "the pods without a node, and why they wait", WaitingList),
    Operation("/fills", "fills", "how full the bounds of strict counts are", FillList),
    Operation(
        "/find",
        "find",
        "pods, nodes, workloads, policies, clauses and reasons with some words in their names",
        FoundList,
        parameters=(_in_query("text", "the words; the first 200 characters count"),),
    ),
    Operation(
        "/workloads/{namespace}/{kind}/{name}",
        "workload",
        "the pods of a workload, those that wait first",
        WorkloadDetail,
        parameters=(
            _in_path("namespace", "the namespace of the workload"),
            _in_path("kind", "its kind, such as Deployment"),
            _in_path("name", "the workload"),
        ),
        fails={404: "no pod is of such a workload", 503: "the replica does not know the cluster"},
    ),
    Operation(
        "/selected",
        "selected",
        "the pods that a policy selects",
        SelectedPods,
        parameters=(_in_query("policy", "the address of the policy"),),
        fails={404: "no such policy is in force", 503: "the replica does not know the cluster"},
    ),
    Operation(
        "/revisions",
        "revisions",
        "the texts that a policy had since the replica started",
        RevisionList,
        parameters=(_in_query("policy", "the address of the policy"),),
    ),
    Operation("/audit", "audit", "what policies in audit mode would have rejected", AuditList),
    Operation(
        "/drift",
        "drift",
        "the pods that break rules where they are, and what a repair would do; the leader knows",
        DriftDocument,
    ),
    Operation(
        "/history",
        "history",
        "pods that wait, rejections, latencies and fills of the last hours",
        NumberHistory,
        parameters=(
            _in_query("hours", "the hours", type="integer", minimum=1, maximum=MOST_HOURS),
            _in_query("policy", "only the fills and rejections of the policy of this address"),
        ),
        fails={400: "`hours` that is no number from 1 to 168"},
    ),
    Operation("/policies", "policies", "the policies and their state", PolicyList),
    Operation(
        "/policies/{name}",
        "clusterPolicy",
        "one cluster policy, or a file without a policy that can be read",
        PolicyDetail,
        parameters=(_in_path("name", "the name of the policy"),),
        fails={404: "there is no such policy"},
    ),
    Operation(
        "/policies/{namespace}/{name}",
        "policy",
        "one policy of a namespace",
        PolicyDetail,
        parameters=(
            _in_path("namespace", "the namespace of the policy"),
            _in_path("name", "the name of the policy"),
        ),
        fails={404: "there is no such policy"},
    ),
    Operation(
        "/session",
        "session",
        f"the token that requests with a draft send as `{TOKEN_HEADER}`",
        DraftSession,
    ),
    Operation(
        "/check",
        "check",
        "the diagnostics of a draft; nothing is written",
        CheckedDraft,
        body=DraftText,
        fails=_OF_DRAFTS,
    ),
    Operation(
        "/complete",
        "complete",
        "what can stand at a place of a draft",
        CompletedDraft,
        body=Point,
        fails=_OF_DRAFTS,
    ),
    Operation(
        "/describe",
        "describe",
        "what the name at a place of a draft stands for",
        DescribedName,
        body=Point,
        fails=_OF_DRAFTS,
    ),
    Operation(
        "/objects",
        "objects",
        "the policies of a draft as PlacementPolicy objects; nothing is written",
        DraftObjects,
        body=DraftText,
        fails=_OF_DRAFTS,
    ),
    Operation(
        "/place",
        "place",
        "where a pod of manifests would go by itself, and why; nothing is written",
        PodExplanation,
        body=PastedPod,
        fails={
            **_OF_DRAFTS,
            400: "a body without such a pod",
            404: "there is no such node",
            409: "a policy with errors keeps the pod waiting",
            503: "the replica does not know the cluster",
        },
    ),
    Operation(
        "/simulate",
        "simulate",
        "where pods would go, also if nodes came or were drained; nothing is written",
        SimulationAnswer,
        body=SimulationQuestion,
        fails={
            400: "a body that is no question, pods that cannot be read, or an unknown node",
            401: _NO_TOKEN,
            413: "a body that is too large",
            415: "a body that is compressed",
            422: "pods that take too much time or memory to read",
            429: _BUSY,
            503: "the replica does not know the cluster, or a simulation takes longer than 20 s",
        },
    ),
    Operation(
        "/evaluate",
        "evaluate",
        "the diagnostics of a draft, and the pods whose verdicts it changes; nothing is written",
        TriedDraft,
        body=Trial,
        fails={
            **_OF_DRAFTS,
            400: "a body that is no draft, or a cluster that cannot be read",
            413: "a body or a cluster that is too large",
            503: "the replica has no cluster, or cannot read it",
        },
    ),
)


def description() -> Json:
    """The document."""
    answers = [each.answer for each in OPERATIONS]
    bodies = [each.body for each in OPERATIONS if each.body is not None]
    types = [*answers, *bodies]
    references, schemas = msgspec.json.schema_components(
        types, schema_hook=_any, ref_template=_SCHEMAS
    )
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    known = dict(zip(types, references, strict=True))
    paths: dict[str, Json] = {}
    for each in OPERATIONS:
        method = "get" if each.body is None else "post"
        paths[f"{API}{each.path}"] = {method: _operation(each, known)}
    paths[f"{API}/decisions/stream"] = {"get": _STREAM}
    paths[f"{API}/openapi.json"] = {"get": _SELF}
    about = {
        "title": "The view of Placet",
        "version": VERSION,
        "description": _ABOUT,
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }
    document = {
        "openapi": "3.1.0",
        "info": about,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas},
    }
    # As it is read: defaults that are tuples here are lists there.
    found: Json = msgspec.json.decode(msgspec.json.encode(document))
    return found


def _any(_: type) -> Json:
    """The schema of `object`."""
    return {"description": "any JSON"}


_ABOUT = (
    "What one replica of Placet decides and knows. It listens on 127.0.0.1, and answers no pages of"
    " other sites. Errors are one sentence of plain text. Nothing changes the cluster."
)
_TEXT: Json = {"text/plain": {"schema": {"type": "string"}}}
_STREAM: Json = {
    "operationId": "stream",
    "summary": (
        "decisions as they are made, as server-sent events: `replica` at first, a `decision` with a"
        " Summary for each, and `dropped` with the number of decisions that were not sent before it"
    ),
    "responses": {
        "200": {
            "description": "the events, until the client or the server ends them",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "403": {"description": "a page of another site", "content": _TEXT},
    },
}
_SELF: Json = {
    "operationId": "description",
    "summary": "this document",
    "responses": {
        "200": {
            "description": "the document",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        "403": {"description": "a page of another site", "content": _TEXT},
    },
}


def _operation(each: Operation, known: Mapping[type, Json]) -> Json:
    fails = {**each.fails, 403: "a page of another site"}
    responses: Json = {"200": {"description": "the answer", "content": _json(known[each.answer])}}
    for status, why in sorted(fails.items()):
        responses[str(status)] = {"description": why, "content": _TEXT}
    parameters = list(each.parameters)
    found: Json = {"operationId": each.name, "summary": each.summary}
    if each.body is not None:
        schema = {"type": "string"}
        header = {"name": TOKEN_HEADER, "in": "header", "required": True, "schema": schema}
        parameters.append(header)
        found["requestBody"] = {"required": True, "content": _json(known[each.body])}
    if parameters:
        found["parameters"] = parameters
    return {**found, "responses": responses}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}
