"""Routes: the API of the view as a table.

A row names the path, the struct of the answer, and the right that it takes. Handlers, rules of
access and the operations of docs/openapi.yaml all come from the rows; what that file says of them
stands in tests/support/openapi_document.txt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


# The answer to a question, or what waits for it: a struct, or a function that makes it in a thread.
# It raises HTTPException, EngineError and UserError.
Answer = Callable[[ViewQuestion], object]


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the API: the path, the structs of the answer and of the body, and the right."""

    path: str
    answer: type
    body: type | None = None
    query: Sequence[QueryParameter] = ()
    right: Right = "cluster"
    named: str = ""

    @property
    def name(self) -> str:
        return self.named or self.path.split("/")[1]


_OF_LISTING = (
    QueryParameter("limit", most=1000, usual=100),
    QueryParameter("namespace"),
    QueryParameter("after", most=10**15, least=0),
)
_OF_HISTORY = (QueryParameter("hours", most=168, usual=168), QueryParameter("policy"))
_POD, _POLICY = "{namespace}/{name}", "/policies/{namespace}/{name}"
ROUTES: Sequence[Route] = (
    Route("/decisions", Listing, None, _OF_LISTING, "query"),
    Route(f"/decisions/{_POD}", PodDecision, right="path", named="decision"),
    Route("/status", ReplicaStatus),
    Route(f"/explain/{_POD}", PodExplanation, query=[QueryParameter("node")], right="path"),
    Route("/overview", ReplicaOverview, query=[QueryParameter("label")]),
    Route("/waiting", WaitingList),
    Route("/fills", FillList),
    Route("/history", NumberHistory, query=_OF_HISTORY, right="policy"),
    Route("/policies", PolicyList),
    Route("/policies/{name}", PolicyDetail, named="clusterPolicy"),
    Route(_POLICY, PolicyDetail, right="path", named="policy"),
    Route("/check", CheckedDraft, DraftText),
    Route("/complete", CompletedDraft, Point),
    Route("/place", PodExplanation, PastedPod),
    Route("/simulate", SimulationAnswer, SimulationQuestion),
    Route("/evaluate", TriedDraft, Trial),
)
