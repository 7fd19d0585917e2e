"""The view answers as its description says, whatever it is asked: no 500, and no other content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from tests.server.view.test_explaining import NODES, OTHERS, POLICIES, web
from tests.support.builders import raw
from tests.support.engines import engine_of
from tests.support.openapi_document import description
from tests.support.view_server import Cluster, Parts, running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
API = schemathesis.openapi.from_dict(description())
# The stream has no end.
OPERATIONS = {
    path: API[path][method]
    for path, methods in description()["paths"].items()
    for method in methods
    if not path.endswith("/stream")
}
BAD = {
    "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "bad", "namespace": "shop", "uid": "u", "generation": 1},
    "spec": {"podSelector": {}, "rules": "filter {"},
}


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """A view with a decision and policies, one of which has errors."""
    journal = Journal()
    engine = engine_of(POLICIES, NODES, OTHERS, after=AfterDecision(journal=journal))
    engine.filter(raw(web()), ["n1", "n2", "n6"], None, float("inf"))
    bodies = {"placementpolicies/shop/bad": msgspec.json.encode(BAD)}
    cluster = Cluster(POLICIES, engine, {"shop/web-1": raw(web())}, bodies=bodies)
    with running(Parts(journal, cluster=cluster)) as found:
        yield found.urls[0]


@pytest.mark.parametrize("path", OPERATIONS)
def test_answers_are_as_described(served: str, path: str) -> None:
    @given(case=OPERATIONS[path].as_strategy())
    @settings(
        max_examples=10,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=served, checks=CHECKS)

    ask()


@pytest.mark.parametrize(
    ("path", "name", "query"),
    [
        ("decisions/{namespace}/{name}", "web-1", {}),
        ("explain/{namespace}/{name}", "web-1", {}),
        ("explain/{namespace}/{name}", "web-1", {"node": "n6"}),
        ("explain/{namespace}/{name}", "web-1", {"node": "n1"}),
        ("policies/{namespace}/{name}", "bad", {}),
        ("policies/{name}", "web", {}),
    ],
)
def test_what_is_known_is_answered_as_described(
    served: str, path: str, name: str, query: dict[str, str]
) -> None:
    names = {"namespace": "shop", "name": name}
    case = OPERATIONS[f"/api/v1/{path}"].Case(path_parameters=names, query=query)
    response = case.call_and_validate(base_url=served, checks=CHECKS)
    assert response.status_code == 200
