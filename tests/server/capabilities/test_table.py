"""The table of capabilities: the only list of them, and what the documentation says of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.capabilities.capability import Capability
from server.capabilities.table import CAPABILITIES
from server.view.routes import API
from tests.server.runtime.test_tasks import running
from tests.support.books import section
from tests.support.builders import pod
from tests.support.sites import site
from tests.test_architecture import PACKAGES, ROOT, modules, read

FOLDER = "server/capabilities/"
# What the rooms are made of, and the table.
SHARED = {"__init__", "capability", "policy_statuses", "table"}
ROOMS = {Path(module).stem for module in modules(FOLDER)} - SHARED
# How a part of a status adds to it.
_SAID = re.compile(r'\.(conditions|fields)\["(\w+)"\] =')
each_capability = pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda each: each.name)


def test_the_table_alone_imports_rooms() -> None:
    """Whatever else needs to know of a capability asks the table, or gets a function of it."""
    known = {f"server.capabilities.{room}": room for room in ROOMS}
    found = {
        (module, known[origin])
        for module in modules(*PACKAGES)
        for name in read(module).imports
        for origin in {name, name.rpartition(".")[0]} & known.keys()
    }
    by_table = {(f"{FOLDER}table.py", room) for room in ROOMS - {"repair"}}
    assert found == by_table | {(f"{FOLDER}drift.py", "repair")}


def test_nobody_else_lists_capabilities() -> None:
    """Three of their names beside each other are a list of them."""
    names = {each.name for each in CAPABILITIES} | ROOMS
    lists = [
        f"{module}:{line}"
        for module in modules("server", "cli")
        for line, words in texts(module)
        if len(words & names) >= 3
    ]
    assert lists == []


def texts(module: str) -> Iterator[tuple[int, set[str]]]:
    """The texts in each tuple, list, set or dictionary of a module, with its line."""
    for node in ast.walk(ast.parse((ROOT / module).read_bytes())):
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                found = parts
            case ast.Dict(keys=keys):
                found = [key for key in keys if key is not None]
            case _:
                continue
        words = {part.value for part in found if isinstance(part, ast.Constant)}
        yield node.lineno, {word for word in words if isinstance(word, str)}


@each_capability
async def test_it_opens_with_and_without_a_cluster(capability: Capability) -> None:
    async with site(watched=False) as alone:
        assert not capability.open(alone).work
    async with site() as watching:
        opened = capability.open(watching)
    assert opened.answers.keys() == {route.name for route in capability.routes}


@each_capability
async def test_the_documentation_has_its_rows(capability: Capability) -> None:
    """Of its background tasks, metrics and routes; `tests/deploy/test_rights.py` has its rights."""
    async with site(policy_first=frozenset({"shop"})) as watching:
        tasks = capability.open(watching).work
    paths = (re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), r.path) for r in capability.routes)
    wanted = {
        ("Background tasks", "cluster.md"): tasks,
        ("Metrics", "metrics.md"): (row.partition("{")[0] for row in capability.metrics),
        ("Endpoints", "endpoints.md"): (f"{API}{path}" for path in paths),
    }
    missing = [
        f"docs/operations/{page} needs the row `| `{name}` | … |` of {capability.name}"
        for (heading, page), names in wanted.items()
        for name in names
        if not re.search(rf"(?m)^\|[^|]*`{re.escape(name)}`", section("operations", heading))
    ]
    assert not missing, "\n".join(missing)


def test_the_documentation_has_what_statuses_say() -> None:
    """Each condition and each number of the status of a policy object."""
    page = (ROOT / "docs" / "policy-api.md").read_text(encoding="utf-8")
    missing = [
        f"docs/policy-api.md needs the row `| {row} | … |` for {module}"
        for module in modules(FOLDER)
        for what, name in set(_SAID.findall((ROOT / module).read_text(encoding="utf-8")))
        for row in [f"`conditions` `{name}`" if what == "conditions" else f"`{name}`"]
        if not re.search(rf"(?m)^\|[^|]*{row}[^|]*\|", page)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.fake_clock
@pytest.mark.parametrize("name", ["gangs", "cards"])
async def test_a_server_answers_without_a_capability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rest = [each for each in CAPABILITIES if each.name != name]
    assert len(rest) < len(CAPABILITIES)
    for module in ("cluster_runtime", "server_runtime"):
        monkeypatch.setattr(f"server.runtime.{module}.CAPABILITIES", rest)
    async with running(tmp_path) as server:
        await server.until("/readyz", lambda text: text == "ok")
        body = {"Pod": pod("web-1"), "Nodes": None, "NodeNames": ["n1", "n2"]}
        async with server.session.post(f"{server.url}/filter", json=body) as response:
            assert (await response.json())["NodeNames"] == ["n1", "n2"]
        async with server.session.get(f"{server.view}/api/v1/status") as response:
            assert name not in (await response.json())["capabilities"]
