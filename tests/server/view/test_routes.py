"""The description of the API: it is the document in docs, and names the paths that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from engine.decision.journal import Journal
from tests.support.openapi_document import description
from tests.support.view_server import Parts, view_over

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.yaml"
# They are for operators alone, or the page.
NOT_DESCRIBED = {"/api/v1/cache/compare", "/", "/ui", "/ui/{path}"}


def test_the_document_is_that_of_the_structs() -> None:
    found = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))
    assert ordered(found) == ordered(description()), "`make openapi` writes docs/openapi.yaml"


def ordered(value: Any) -> Any:
    """The same with alternatives in one order, which differs between versions of msgspec."""
    match value:
        case {"anyOf": [*alternatives]}:
            return {**value, "anyOf": sorted(map(ordered, alternatives), key=str)}
        case dict():
            return {key: ordered(each) for key, each in value.items()}
        case list():
            return [ordered(each) for each in value]
        case _:
            return value


async def test_every_path_is_described() -> None:
    app = view_over(Parts(Journal()))
    paths = {str(route.resource.canonical) for route in app.router.routes() if route.resource}
    assert paths - NOT_DESCRIBED == set(description()["paths"])
