"""Routes: the API of the view as a table.

A row names the path, the struct of the answer, and the right that it takes. Handlers, rules of
access and the operations of docs/openapi.yaml all come from the rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from engine.explanation.document import Listing, PodDecision, PodExplanation
from engine.explanation.reader import EVERYTHING, Reader
from engine.simulation.result import SimulationAnswer
from server.answers import (
    CheckedDraft,
    CompletedDraft,
    DraftText,
    FillList,
    NumberHistory,
    PastedPod,
    Point,
    PolicyDetail,
    PolicyList,
    ReplicaOverview,
    ReplicaStatus,
    SelectedPods,
    SimulationQuestion,
    Trial,
    TriedDraft,
    WaitingList,
)

API = "/api/v1"
# Whose pods somebody must be allowed to list: those of the cluster, of the namespace in the path
# or in the query, or of the namespace of the `policy` in the query.
Right = Literal["cluster", "path", "query", "policy"]


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter of the query: a text, or with `most` a number from `least` to that."""

    name: str
    what: str
    most: int = 0
    usual: int = 0
    least: int = 1

    def number(self, given: str | None) -> int:
        """The number that is given, or the usual one. Raises HTTPBadRequest."""
        text = str(self.usual) if given is None else given
        if text.isdecimal() and text.isascii() and self.least <= int(text[:20]) <= self.most:
            return int(text)
        raise web.HTTPBadRequest(text=f"{self.name} is a number from {self.least} to {self.most}\n")


@dataclass(frozen=True, slots=True)
class ViewQuestion:
    """A question to the view: the names in its path, the query with its numbers, and the body.

    The answer is made for the `reader`.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    # A struct of the type that the row names.
    body: Any = None
    reader: Reader = EVERYTHING


NO_QUESTION = ViewQuestion()
# The answer to a question: a struct, or a function that makes it in a thread. It raises
# HTTPException, EngineError and UserError.
Answer = Callable[[ViewQuestion], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the API: the path, the structs of the answer and of the body, and the right."""

    path: str
    summary: str
    answer: type
    body: type | None = None
    query: Sequence[QueryParameter] = ()
    right: Right = "cluster"
    named: str = ""

    @property
    def name(self) -> str:
        return self.named or self.path.split("/")[1]


_OF_POLICY = (QueryParameter("policy", "the address of a policy"),)
_OF_NODE = (QueryParameter("node", "a node, of which each clause is shown with what it read"),)
_OF_LISTING = (
    QueryParameter("limit", "the most decisions", most=1000, usual=100),
    QueryParameter("namespace", "only those about pods of this namespace"),
    QueryParameter("after", "only those after the decision of this number", most=10**15, least=0),
)
_OF_OVERVIEW = (
    QueryParameter("label", "the label by whose values nodes are grouped; the zone without one"),
)
_OF_HISTORY = (
    QueryParameter("hours", "the hours", most=168, usual=168),
    QueryParameter("policy", "only the fills and rejections of the policy of this address"),
)
_POD, _POLICY = "{namespace}/{name}", "/policies/{namespace}/{name}"
ROUTES: Sequence[Route] = (
    Route("/decisions", "the last decisions, newest first", Listing, None, _OF_LISTING, "query"),
    Route(
        f"/decisions/{_POD}",
        "the last decision about a pod",
        PodDecision,
        right="path",
        named="decision",
    ),
    Route("/status", "the state of the replica and of what it knows", ReplicaStatus),
    Route(
        f"/explain/{_POD}",
        "what would be decided about a pod now, and why",
        PodExplanation,
        query=_OF_NODE,
        right="path",
    ),
    Route(
        "/overview",
        "the cluster at a glance: nodes, numbers of pods, and the last edits of policies",
        ReplicaOverview,
        query=_OF_OVERVIEW,
    ),
    Route("/waiting", "the pods without a node, and why they wait", WaitingList),
    Route("/fills", "how full the bounds of strict counts are", FillList),
    Route(
        "/selected",
        "the pods that a policy selects",
        SelectedPods,
        query=_OF_POLICY,
        right="policy",
    ),
    Route(
        "/history",
        "pods that wait, rejections, latencies and fills of the last hours",
        NumberHistory,
        query=_OF_HISTORY,
        right="policy",
    ),
    Route("/policies", "the policies and their state", PolicyList),
    Route(
        "/policies/{name}",
        "one cluster policy, or a file without a policy that can be read",
        PolicyDetail,
        named="clusterPolicy",
    ),
    Route(_POLICY, "one policy of a namespace", PolicyDetail, right="path", named="policy"),
    Route("/check", "the diagnostics of a draft; nothing is written", CheckedDraft, DraftText),
    Route("/complete", "what can stand at a place of a draft", CompletedDraft, Point),
    Route(
        "/place",
        "where a pod of manifests would go by itself, and why; nothing is written",
        PodExplanation,
        PastedPod,
    ),
    Route(
        "/simulate",
        "where pods would go, also if nodes came or were drained; nothing is written",
        SimulationAnswer,
        SimulationQuestion,
    ),
    Route(
        "/evaluate",
        "the diagnostics of a draft, and the pods whose verdicts it changes; nothing is written",
        TriedDraft,
        Trial,
    ),
)
